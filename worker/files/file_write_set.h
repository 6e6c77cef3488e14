/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes of which all are published or none: everything that may fail or take long is done before
 * the first of them gets its name, and one that has its name can be taken back. Runs in the files
 * process.
 */

#include "worker/files/file_write.h"

#include <sys/stat.h>

/**
 * Makes a complete write ready: only its name is missing then. @like is the file whose attributes
 * it gets, @name in the directory @parent, if it replaces none and @like is not NULL. Returns
 * TOOL_OK or an error. With @absent there must be no file of its name: otherwise STALE_FILE.
 */
enum tool_error file_write_prepare(struct file_write *staged, bool absent, int parent,
	const char *name, const struct stat *like);

/**
 * Takes a published write back, which has @content: the file that it has replaced gets its name
 * again. Returns 0, or -errno with the new file in its place: -ECANCELED if another process has
 * changed it.
 */
int file_write_revert(struct file_write *staged, struct text content);

/** Writes the name of a published write to disk. Returns 0 or -errno. */
int file_write_sync(const struct file_write *staged);
