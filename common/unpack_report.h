/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The one message that cloister-unpack sends about an archive, by a pipe to cloisterd. The process
 * has read the archive and may have been taken over by it, so the message is only shown to the
 * administrator and decides nothing. The spawner reports by the process's exit status whether the
 * archive was unpacked.
 */

#include "common/limits.h"
#include "common/wire/wire.h"

/* Why an archive is refused. */
enum unpack_fault {
	UNPACK_NONE,
	UNPACK_FAILED, /* a system call: the errno is in the report */
	/* of an entry, whose name is in the report */
	UNPACK_ABSOLUTE,     /* its path, or the one that it is a hard link to, begins with "/" */
	UNPACK_CLIMBS,       /* ".." is part of either */
	UNPACK_THROUGH_LINK, /* a symbolic link is among the directories of its path */
	UNPACK_THROUGH_FILE, /* something else than a directory is */
	UNPACK_SWAPPED,      /* a directory that this archive has also as something else */
	UNPACK_LINK_MISSING, /* a hard link to a missing file or to a directory */
	UNPACK_NAME,         /* a name that no file can have */
	UNPACK_DEEP,
	UNPACK_FILE_SIZE,
	/* of the whole */
	UNPACK_BYTES,
	UNPACK_FILES,
	UNPACK_RATIO, /* it unpacks to much more than it is */
	UNPACK_FORMAT,
	UNPACK_DAMAGED,
	/* of an image layout; a file of it is named */
	UNPACK_LAYOUT,      /* a file of the image has wrong content */
	UNPACK_MANIFESTS,   /* none of its images, or several, can be meant */
	UNPACK_MEDIA_TYPE,  /* a layer of a kind that is not known */
	UNPACK_LAYERS,      /* too many */
	UNPACK_BLOB,        /* missing, or no regular file */
	UNPACK_BLOB_SIZE,   /* a file of the image has the wrong size */
	UNPACK_BLOB_DIGEST, /* not what its name says */
	UNPACK_WHITEOUT,    /* it hides no name */
	UNPACK_FAULT_END,
};

struct unpack_report {
	uint32_t fault;   /* enum unpack_fault */
	uint32_t error;   /* errno, positive; 0: none */
	uint64_t entries; /* that were read */
	/* numbers of entries that were left out of the template */
	uint64_t special; /* devices and FIFOs */
	uint64_t set_ids; /* set-user-ID and set-group-ID bits */
	uint64_t attributes;
	struct text name; /* the bytes of a path, cut if it is long */
};

/* The exit status of a process that has made no template and has reported why. */
#define UNPACK_EXIT_TOLD 1

#define UNPACK_REPORT_BYTES (64 + LIMIT_UNPACK_NAME_BYTES)

/** A name that is too long is cut. */
WIRE_MESSAGE(unpack_report);
