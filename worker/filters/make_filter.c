// SPDX-License-Identifier: Apache-2.0
/*
 * Runs only in the build: "make_filter SET FILE" compiles a set of filters (filters.h) to a header
 * with an array of sock_filter for each. It trusts its build directory.
 */
#include "worker/filters/filters.h"

#include "common/cleanup.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const struct filter_set *const sets[] = {
	&commands_filters, &files_filters, &spawner_filters};

int filter_add(scmp_filter_ctx filter, uint32_t action, const int *numbers, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = seccomp_rule_add(filter, action, numbers[i], 0);
	return r;
}

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

static int print_program(FILE *out, const char *name, int program)
{
	struct sock_filter instruction;
	ssize_t n;

	if (lseek(program, 0, SEEK_SET) < 0)
		return -errno;
	fprintf(out, "static const struct sock_filter %s[] = {\n", name);
	while ((n = read(program, &instruction, sizeof(instruction))) == sizeof(instruction))
		fprintf(out, "\t{0x%02x, %u, %u, 0x%08xU},\n", instruction.code, instruction.jt,
			instruction.jf, instruction.k);
	fprintf(out, "};\n");
	return n < 0 ? -errno : 0;
}

static int compile(FILE *out, const struct filter_source *source)
{
	_cleanup_(release_filter) scmp_filter_ctx filter = seccomp_init(source->otherwise);
	_cleanup_close_ int program = memfd_create(source->name, MFD_CLOEXEC);
	int r = !filter ? -ENOMEM : program < 0 ? -errno : 0;

	/* x86-64 kernels also accept x32 calls and, through int 0x80, i386 calls. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* Use a binary search: every allowed call passes through this filter. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = source->add_rules(filter);
	if (r == 0)
		r = seccomp_export_bpf(filter, program);
	return r == 0 ? print_program(out, source->name, program) : r;
}

static const struct filter_set *find_set(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		if (strcmp(sets[i]->name, name) == 0)
			return sets[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct filter_set *set = argc == 3 ? find_set(argv[1]) : NULL;
	FILE *out = set ? fopen(argv[2], "we") : NULL;
	int r = 0;

	if (!out) {
		fprintf(stderr, "usage: make_filter SET FILE\n");
		return 2;
	}
	fprintf(out, "/* Made by worker/filters/make_filter.c. */\n#pragma once\n\n"
		     "#include <linux/filter.h>\n");
	for (size_t i = 0; r == 0 && i < set->n_sources; i++)
		r = compile(out, &set->sources[i]);
	if (fclose(out) != 0 && r == 0)
		r = -errno;
	if (r < 0)
		fprintf(stderr, "make_filter: %s: %s\n", set->name, strerror(-r));
	return r < 0 ? 1 : 0;
}
