/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The short methods of files in the files process: file.stat, file.list, file.make_directory,
 * file.move and file.remove. Each answers @reply with FILES_NODE frames and exactly one end. A move
 * and a removal act on the entry that the path names, also if that is a symbolic link; they resolve
 * the directory alone, and use the name in its descriptor.
 */

#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

void file_stat(const struct root *root, const struct files_ask *request, struct reply *reply);
void file_tree(const struct root *root, const struct files_ask *request, struct reply *reply);
void file_make_directory(
	const struct root *root, const struct files_ask *request, struct reply *reply);
void file_rename(const struct root *root, const struct files_ask *request, struct reply *reply);
void file_remove(const struct root *root, const struct files_ask *request, struct reply *reply);
