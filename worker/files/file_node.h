/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs in the files process: what stat(2), readlink(2) and listxattr(2) tell of an entry of the
 * workspace, as the methods of files answer it.
 */

#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "worker/files/walk/root_open.h"

#include <sys/stat.h>

/* A name that was looked up: a tree has few owners. */
struct node_name {
	bool known;
	uint32_t id;
	size_t len;
	char text[LIMIT_NAME_BYTES];
};

/* The texts of a node, and the names of the last one; zeroed for each request. */
struct node_texts {
	struct node_name owner, group;
	char target[LIMIT_PATH_BYTES];
	uint8_t attributes[FILES_ATTRIBUTE_BYTES];
};

/** Returns the node of an entry at @path with the status @st. Names are written to @texts. */
struct files_node file_node(
	const struct root *root, const struct stat *st, struct text path, struct node_texts *texts);

/** Adds the target of the link @name in @dir; @name "": of the link that @dir is open at. */
void file_node_link(struct files_node *node, int dir, const char *name, struct node_texts *texts);

/**
 * Adds the attributes user.* of @fd, which is open for reading and was @st when it was looked at;
 * another entry has none. An entry that cannot be read has none to show.
 */
void file_node_attributes(
	struct files_node *node, int fd, const struct stat *st, struct node_texts *texts);

/** The type of an entry by its mode. */
uint8_t file_node_type(mode_t mode);

/** When an entry was modified, in nanoseconds since the epoch; 0: before it. */
uint64_t file_node_mtime_ns(const struct stat *st);
