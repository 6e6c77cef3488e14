/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of a configuration: a main file and its drop-ins. They contain the policy, so a file or
 * directory that other users can write is refused.
 */

#include "common/config/config_reader.h"

struct config_files {
	int directory_fd;
	char *directory; /* as the caller named it */
	char *name;      /* name of the main file in the directory */
	char *drop_ins;  /* name of the drop-in directory in the directory */
};

/*
 * All file names in the order in which they are read, as messages show them. The part after the
 * last slash is the name in the directory.
 */
struct config_file_names {
	char **paths;
	size_t count;
};

/** Opens the directory of the configuration file @path. Returns 0 or -errno. */
int config_files_open(const char *path, struct config_files *ret);
void config_files_done(struct config_files *files);

/** Returns the path of the drop-in directory, malloc'ed, or NULL if memory is out. */
char *config_files_drop_ins(const struct config_files *files);

/**
 * Reads the main file and its drop-ins and passes their lines and mistakes to @reader. The reader
 * borrows file names from @names, so release @names after it. Mistakes are not errors: returns 0,
 * or -errno for a failure such as a lack of memory.
 */
int config_files_read(const struct config_files *files, struct config_reader *reader,
	struct config_file_names *names);

void config_file_names_done(struct config_file_names *names);
