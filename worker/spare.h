/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A worker or files process that was started before it is known for which workspace: in its
 * namespaces, with nothing of any workspace, it waits for the spawner to say. It becomes one
 * workspace's and never another's. In user mode, where all have the same id, that is mapped before,
 * otherwise then. user_namespaces(7), unix(7).
 */

#include "common/wire_spawner.h"

#include <limits.h>
#include <string.h>

enum spare_kind {
	SPARE_NONE, /* it is known for which workspace */
	SPARE_WITHOUT_IDS,
	SPARE_WITH_IDS,
};

/** What a command line says in place of a workspace's kind. */
const char *spare_kind_name(enum spare_kind kind);
/** What @argv, of at least two words, says. Names the process as it is: "cloister-spare", until
 * setup_for_workspace. */
enum spare_kind spare_kind(char **argv);

struct spare_assignment {
	uint8_t kind;                        /* enum workspace_kind */
	uint64_t tmp_bytes, file_size_bytes; /* struct workspace_limits; the worker's */
	/* The workspace's path, NUL, and the worker's: the read-only paths, one a line, NUL. */
	char path[PATH_MAX + LIMIT_READONLY_BYTES];
};

static inline const char *spare_readonly_paths(const struct spare_assignment *assignment)
{
	return assignment->path + strlen(assignment->path) + 1;
}

/** The spawner's side: sends what @request asks for, the workspace's @path, @readonly paths and its
 * mount @tree. 0 or -errno. */
int spare_assign(int socket, const struct spawner_open *request, const char *path,
	const char *readonly, int tree);

/**
 * For which workspace a program is: what its command line says (kind, path and, for a worker, the
 * two limits and the read-only paths), or, for one that was made ahead, what comes at @fd, where
 * the mount then is in place of the socket; it becomes the namespace's one user, if it is not, and
 * gets its name. @ret is static. 0 or -errno; -EPIPE: it is not needed any more.
 */
int setup_for_workspace(int argc, char **argv, int fd, const struct spare_assignment **ret);
