/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The limit of a workspace on disk. The kernel enforces it where the workspace's id has a quota
 * (cloister-quota). Otherwise cloisterd measures it, if its tenant has a disk class: over the
 * class's size (the soft limit) calls that write are refused and commands begin without the right
 * to write to files; commands that grow it further by an eighth (the hard limit) are ended. A
 * workspace that closes a directory to its own user, or makes one deeper than a walk goes, could be
 * of any size, and counts as over both.
 */

#include "common/text.h"
#include "supervisor/workspace/disk_use.h"

#include <stdbool.h>
#include <stdint.h>

struct files_end;
struct tenant;
struct workspace;

enum disk_enforcer {
	DISK_ENFORCER_NONE,
	DISK_ENFORCER_MEASURED,
	DISK_ENFORCER_QUOTA,
};

struct disk_state {
	enum disk_enforcer enforcer;
	bool known;      /* bytes is */
	uint64_t bytes;  /* as counted or measured last */
	uint64_t limit;  /* 0: none */
	bool over_files; /* measured: more files and directories than the class allows */
	bool layers;     /* the workspace has checkpoints, and what they have counts */
	bool hidden;     /* the workspace keeps a part of it from being measured */
};

/** Returns the name of @mechanism, as the protocol writes it. Static. */
const char *disk_enforcer_name(enum disk_enforcer enforcer);

struct disk_state workspace_disk(const struct workspace *workspace);

/** Whether what is measured is over the soft limit, so that nothing may be written. */
bool disk_state_is_over(const struct disk_state *state);

/** For workspace_life.c: asks the files process of the workspace @context, for disk_use_init(). */
bool workspace_disk_ask(void *context, enum disk_ask what);

/**
 * For workspace_calls.c: the number of calls that run has changed. Measures now and then while
 * there are commands.
 */
void workspace_disk_calls(struct workspace *workspace);

/**
 * For workspace_life.c: takes the end of a measurement, and ends commands that have written too
 * much. Returns 0 or -EBADMSG.
 */
int workspace_disk_measured(struct workspace *workspace, struct text payload);

/** The end of a write tells what the kernel's quota counts now. */
void workspace_disk_told(struct workspace *workspace, const struct files_end *end);

/**
 * A stream writes @bytes to a file that has no name yet, which no measurement finds. They count
 * until the stream has ended (@bytes: its sum) without making the file or, if it has made it
 * (@kept), until the next measurement.
 */
void workspace_disk_stream(struct workspace *workspace, int64_t bytes);
void workspace_disk_stream_ended(struct workspace *workspace, uint64_t bytes, bool kept);

/** Corrects the tenant's use by what is known now; or takes this workspace out of it. */
void workspace_disk_count(struct workspace *workspace);
void workspace_disk_uncount(struct workspace *workspace);

/** Returns the size beyond which commands of @tenant are ended. */
struct disk_size disk_hard_limit(const struct tenant *tenant);
