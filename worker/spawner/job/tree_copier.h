/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The copier: a child of the spawner that copies one tree to another, for a template or a fork. It
 * reads with CAP_DAC_READ_SEARCH, because a workspace's owner may have taken permissions away, and
 * writes as the id that the copy is to belong to. Its root has the two trees and nothing else, so
 * that no name in them leads anywhere.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_copier {
	int from, to; /* detached mounts of the directories; both are taken */
	uid_t uid;    /* owner of the copy and of @to */
	gid_t gid;
	bool unprivileged; /* it reads with the rights of that id alone */
	uint64_t max_bytes, max_files;
	bool to_memory; /* @to is a tmpfs (tree_copy.h) */
};

/**
 * Starts a copier, which the caller ends if it takes too long (job.h). Returns its pid or -errno.
 */
pid_t tree_copier_start(struct tree_copier *copier);
