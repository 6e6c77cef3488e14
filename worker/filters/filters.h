/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Source of the system call filters of the programs that touch workspaces. make_filter.c compiles
 * them when cloister is built: libseccomp would need a millisecond and half a megabyte for each
 * filter in every workspace, and a process that has met a workspace cannot interfere with a filter
 * compiled before. seccomp(2), seccomp_rule_add(3).
 */

#include <errno.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The action for forbidden calls. One build of the tests kills the process instead, which shows
 * that cloister's own processes never depend on a refusal.
 */
#define FILTER_REFUSE (CLOISTER_FILTER_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM))

struct filter_source {
	const char *name; /* name of the compiled array */
	uint32_t otherwise;
	/* Adds the rules. Returns 0 or -errno. */
	int (*add_rules)(scmp_filter_ctx filter);
};

/*
 * The filters of one program. The kernel evaluates the one installed last first; if two filters
 * return an error, the first evaluated gives the errno.
 */
struct filter_set {
	const char *name;
	const struct filter_source *sources;
	size_t n_sources;
};

extern const struct filter_set commands_filters, files_filters, spawner_filters;

/**
 * Adds @action for each of the @n system calls at @numbers. Skips those that this architecture does
 * not have. Returns 0 or -errno.
 */
int filter_add(scmp_filter_ctx filter, uint32_t action, const int *numbers, size_t n);

/**
 * Compares an argument that the kernel reads as 32 bits. The caller chooses the upper 32 bits, so
 * they are masked out.
 */
#define FILTER_LOW_EQUALS(argument, value) \
	SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)(value))

/** Tests whether an argument that is a bit mask has the bit @bit. */
#define FILTER_HAS(argument, bit) SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, bit, bit)
