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
#include <stdio.h>

/*
 * The action for forbidden calls. One build of the tests kills the process instead, which shows
 * that cloister's own processes never depend on a refusal.
 */
#define FILTER_REFUSE (CLOISTER_FILTER_KILL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM))

/*
 * System calls that libseccomp 2.5, Debian 12's, has no names for. It translates the build
 * machine's numbers to the target's by name, so make_filter.c compiles the rules of these calls
 * itself. Since Linux 5.1 a new call has the same number on every processor but alpha.
 */
#define CALL_NEW              451 /* the first of them */
#define CALL_CACHESTAT        451
#define CALL_FCHMODAT2        452
#define CALL_MAP_SHADOW_STACK 453
#define CALL_FUTEX_WAKE       454
#define CALL_FUTEX_WAIT       455
#define CALL_FUTEX_REQUEUE    456
#define CALL_MSEAL            462
#define CALL_SETXATTRAT       463
#define CALL_GETXATTRAT       464
#define CALL_LISTXATTRAT      465
#define CALL_REMOVEXATTRAT    466

/*
 * Chooses by whether any of the bits @mask, or else of @second_mask (0: no such), is set in the
 * lower half of an argument.
 */
struct filter_new_call {
	unsigned number, argument;
	uint32_t mask, second_mask;
	uint32_t if_any, if_second, if_none;
};

struct filter_part {
	uint32_t otherwise; /* the action for all that no rule names */
	/* Adds the rules. Returns 0 or -errno. */
	int (*add_rules)(scmp_filter_ctx filter);
	const struct filter_new_call *new_calls;
	size_t n_new_calls;
};

/*
 * A filter of one or more parts: what a part allows, the next one decides. It is one program of
 * the kernel's, whatever its parts: each cell has its own, and the host has room for a bounded
 * number (bpf_jit_limit, decision 0173).
 */
#define FILTER_PARTS 3
struct filter_source {
	const char *name; /* name of the compiled array */
	struct filter_part parts[FILTER_PARTS];
};

/* The filters of one program, of which a process installs one. */
struct filter_set {
	const char *name;
	const struct filter_source *sources;
	size_t n_sources;
};

extern const struct filter_set commands_filters, files_filters, spawner_filters, unpack_filters;

/**
 * Adds @action for each of the @n system calls at @numbers. Skips those that this architecture does
 * not have. Returns 0 or -errno.
 */
int filter_add(scmp_filter_ctx filter, uint32_t action, const int *numbers, size_t n);

/**
 * Allows openat(2), fchmod(2) and fchmodat(2) with modes that have no set-user-ID and set-group-ID
 * bits. openat2's mode is in memory, where a filter cannot look; but the file that it creates is
 * empty, and writing to it clears the bits. Returns 0 or -errno.
 */
int filter_allow_modes(scmp_filter_ctx filter);

/**
 * Writes C whose assertions fail to compile for @processor if its headers have other numbers than
 * the filters. Returns 0.
 */
int print_checks(FILE *out, uint32_t processor);

/**
 * Compares an argument that the kernel reads as 32 bits. The caller chooses the upper 32 bits, so
 * they are masked out.
 */
#define FILTER_LOW_EQUALS(argument, value) \
	SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)(value))

/** Tests whether an argument that is a bit mask has the bit @bit. */
#define FILTER_HAS(argument, bit) SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, bit, bit)
