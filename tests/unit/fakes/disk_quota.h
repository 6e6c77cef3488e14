/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A file system with quotas, in the place of common/disk_quota.c. */

#include "common/disk_quota.h"

#define FAKE_QUOTAS 64

struct fake_quota {
	uid_t uid; /* 0: this entry is free */
	struct disk_quota quota;
};

struct fake_disk {
	struct fake_quota quotas[FAKE_QUOTAS];
	bool cannot_walk; /* Q_GETNEXTQUOTA is not there */
	int fails_at;     /* the number of sets that are made before one fails; 0: none does */
	unsigned asked, set;
};

extern struct fake_disk fake_disk;
