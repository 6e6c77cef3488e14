/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A spare worker or files process: started before its workspace is known, it waits in its
 * namespaces for the spawner's assignment. It serves one workspace and never another. In user mode
 * all workspaces have the same id, which is mapped at once; in system mode the id is mapped at the
 * assignment. user_namespaces(7), unix(7).
 */

#include "common/wire/wire_spawner.h"

#include <limits.h>
#include <string.h>

enum spare_kind {
	SPARE_NONE, /* not a spare: the workspace is known */
	SPARE_WITHOUT_IDS,
	SPARE_WITH_IDS,
};

/* The last but one word of a worker's command line, if its commands have a network; otherwise "".
 */
#define WORKER_HAS_NETWORK "network"
/* The last one, if its commands may install system call filters; otherwise "". */
#define WORKER_ALLOWS_FILTERS "filters"

/* The word for the kind of a managed workspace that is a whole root. */
#define KIND_MANAGED_ROOT "managed-root"
/* The same if commands are root in a nested user namespace, FD_WORKER_INSIDE. */
#define KIND_ROOT_INSIDE "managed-root-inside"

/** Returns the word for the kind of the workspace of @request on the command line. */
const char *spare_shown_name(const struct spawner_open *request);

/** Returns the word that stands for the workspace's kind on the command line of a spare. */
const char *spare_kind_name(enum spare_kind kind);
/**
 * Reads the kind of spare from @argv, which has at least two words. A spare is named
 * "cloister-spare" until setup_for_workspace().
 */
enum spare_kind spare_kind(char **argv);

struct spare_assignment {
	uint8_t kind;     /* enum workspace_kind */
	bool is_fork;     /* a WORKSPACE_ROOTFS that cloister has made, of a template */
	bool root_inside; /* never of a spare: spawner_open.root_inside */
	bool allows_filters;
	/* from struct workspace_limits; used by the worker */
	uint64_t tmp_bytes, file_size_bytes, data_bytes;
	uint32_t open_files, watches;
	/*
	 * The workspace's path and a NUL, then for the worker the read-only paths, one a line, and
	 * a NUL.
	 */
	char path[PATH_MAX + LIMIT_READONLY_BYTES];
};

static inline const char *spare_readonly_paths(const struct spare_assignment *assignment)
{
	return assignment->path + strlen(assignment->path) + 1;
}

/**
 * For the spawner: sends the limits and kind in @request, the workspace's @path, the @readonly
 * paths, whether commands may install filters, the mount @tree and the mount @second, of the kept
 * home or of the layers (-1: none). Returns 0 or -errno.
 */
int spare_assign(int socket, const struct spawner_open *request, const char *path,
	const char *readonly, bool allows_filters, int tree, int second);

/**
 * Finds out which workspace the program serves. It reads the command line (kind, path and, for a
 * worker, the limits and the read-only paths); a spare reads the spawner's assignment from @fd,
 * and the mount then replaces the socket at that number; the second one, a worker's kept home or a
 * files process's layers, takes the number @second_fd. Becomes the only user of the namespace, if
 * it is not yet, and sets the process name. @ret is static. Returns 0 or -errno; -EPIPE if the
 * spare is not needed any more.
 */
int setup_for_workspace(
	int argc, char **argv, int fd, int second_fd, const struct spare_assignment **ret);
