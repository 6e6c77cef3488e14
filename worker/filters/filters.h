/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The system call filters of the programs that touch workspaces, as they are written down. They
 * are compiled when cloister is built (make_filter.c): libseccomp takes a millisecond and half a
 * megabyte for each, which every workspace would pay, and what is done beforehand cannot be done
 * wrong by a process that has met a workspace. seccomp(2), seccomp_rule_add(3).
 */

#include <errno.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* What is forbidden. The tests have a build whose filters kill there, in which nothing of
 * cloister's own may die: it never relies on being refused. */
#define FILTER_REFUSE (CLOISTER_FILTER_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM))

struct filter_source {
	const char *name; /* of the compiled array */
	uint32_t otherwise;
	/* Adds its rules. 0 or -errno. */
	int (*add_rules)(scmp_filter_ctx filter);
};

/* One program's filters. The one that is installed last is asked first, and of two errors its own
 * is the answer. */
struct filter_set {
	const char *name;
	const struct filter_source *sources;
	size_t n_sources;
};

extern const struct filter_set commands_filters, files_filters, spawner_filters;

/** Adds @action for each of the @n system calls at @numbers. Those that this architecture does not
 * have are passed over. 0 or -errno. */
int filter_add(scmp_filter_ctx filter, uint32_t action, const int *numbers, size_t n);

/** A comparison of an argument that the kernel takes as 32 bits: the caller chooses the upper ones,
 * and they must not matter. */
#define FILTER_LOW_EQUALS(argument, value) \
	SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)(value))

/** A comparison of an argument that is a mask: whether it has the one bit @bit. */
#define FILTER_HAS(argument, bit) SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, bit, bit)
