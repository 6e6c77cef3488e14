/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of a configuration: one, and its drop-ins. Who may write them decides who may do what,
 * so files and directories that others can write are refused.
 */

#include "common/config/config_reader.h"

struct config_files {
	int directory_fd;
	char *directory; /* as it was named */
	char *name;      /* of the file in it */
	char *drop_ins;  /* of the directory in it */
};

/* The names of all files in their order, as messages show them; what comes after the last slash is
 * the name in its directory. */
struct config_file_names {
	char **paths;
	size_t count;
};

/** Opens the directory of the configuration file @path. 0 or -errno. */
int config_files_open(const char *path, struct config_files *ret);
void config_files_done(struct config_files *files);

/** The path of the drop-ins' directory, malloc'ed; NULL: out of memory. */
char *config_files_drop_ins(const struct config_files *files);

/**
 * Reads the file and its drop-ins: their lines, and what is wrong with them, go to @reader. What it
 * remembers of places are names in @names, to be released after it. Only what is no mistake, such
 * as a lack of memory, is -errno.
 */
int config_files_read(const struct config_files *files, struct config_reader *reader,
	struct config_file_names *names);

void config_file_names_done(struct config_file_names *names);
