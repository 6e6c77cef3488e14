/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A directory that root names and whose owner root is about to become. Nobody but that owner and
 * root may have had a say in which directory it is: otherwise the one who had it would choose as
 * whom a program runs, and in whose files.
 */

#include <sys/types.h>

struct owned_directory {
	int fd;     /* O_PATH; keeps the inode, so that its number stays its own */
	char *path; /* canonical, as the kernel names it */
	dev_t dev;
	ino_t ino;
	uid_t uid; /* never 0 */
};

/**
 * Opens the directory at @path, each component from a descriptor of the one before it. Every
 * directory and link on the way must belong to root or to the owner of the directory itself, and
 * none may lie on FUSE, whose server says who owns what. 0 and @ret, to be released with
 * owned_directory_done(), or -errno after printing why not.
 */
int owned_directory_open(const char *path, struct owned_directory *ret);

void owned_directory_done(struct owned_directory *directory);
