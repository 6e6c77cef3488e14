/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opens a directory that root names and whose owner root is about to become. Only that owner and
 * root may have had influence on which directory the path leads to. Otherwise a third user could
 * choose the user as whom a program runs, and the files that it uses.
 */

#include <sys/types.h>

struct owned_directory {
	int fd;     /* O_PATH; keeps the inode, so that its number is not reused */
	char *path; /* canonical path, from the kernel */
	dev_t dev;
	ino_t ino;
	uid_t uid; /* never 0 */
};

/**
 * Opens the directory at @path, each component from the descriptor of the one before. Every
 * directory and link on the way must belong to root or to the owner of the final directory, and
 * none may lie on FUSE, whose server reports owners. Returns 0 and @ret, to be released with
 * owned_directory_done(), or -errno after printing why.
 */
int owned_directory_open(const char *path, struct owned_directory *ret);

void owned_directory_done(struct owned_directory *directory);
