/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The attributes that a file keeps when a new file replaces it. */

#include "common/text.h"

struct stat;

/**
 * Gives the new file that @new_fd has open the attributes of the file @name in the directory
 * @parent, as far as possible: permissions without set-user-ID and set-group-ID bits, group, user.*
 * attributes and POSIX ACL (acl(5), xattr(7)). @old is that file's status when it was looked at. A
 * file that has taken the name since gives no attributes. Only the permissions are mandatory.
 * Returns 0, or -errno if they could not be set.
 */
int file_attributes_keep(int new_fd, int parent, const char *name, const struct stat *old);

/**
 * Gives @fd the attributes user.* that @attributes has (struct files_node), and no other ones.
 * Returns 0 or -errno.
 */
int file_attributes_set(int fd, struct text attributes);

/** Returns whether two files or directories have different user.* attributes, or -errno. */
int file_attributes_differ(int before, int after);
