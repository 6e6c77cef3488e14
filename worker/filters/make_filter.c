// SPDX-License-Identifier: Apache-2.0
/*
 * Runs only in the build, on the machine that builds. "make_filter PROCESSOR SET FILE" compiles a
 * set of filters (filters.h) for PROCESSOR, named as by uname(2), to a header with an array of
 * sock_filter for each. "make_filter PROCESSOR checks FILE" writes a C file that fails to compile
 * for PROCESSOR if a number in the filters is not that of its headers (filter_checks.c). The kernel
 * that it runs on needs no seccomp(2). It trusts its build directory.
 */
#include "worker/filters/filters.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* SCMP_ACT_NOTIFY is valid from this level on, seccomp_api_set(3). */
#define API_LEVEL 5

static const struct filter_set *const sets[] = {
	&commands_filters, &files_filters, &spawner_filters, &unpack_filters};

int filter_add(scmp_filter_ctx filter, uint32_t action, const int *numbers, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = seccomp_rule_add(filter, action, numbers[i], 0);
	return r;
}

int filter_allow_modes(scmp_filter_ctx filter)
{
	static const struct {
		int number;
		unsigned mode; /* number of the argument */
	} calls[] = {
		{SCMP_SYS(openat), 3},
		{SCMP_SYS(fchmod), 1},
		{SCMP_SYS(fchmodat), 2},
	};
	/* Without one of these flags the mode argument is undefined. */
	const unsigned creates = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
		SCMP_CMP64(2, SCMP_CMP_MASKED_EQ, creates, 0));

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(calls); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i].number, 1,
			SCMP_CMP64(calls[i].mode, SCMP_CMP_MASKED_EQ, S_ISUID | S_ISGID, 0));
	return r;
}

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

/* A filter while it is made. */
struct program {
	struct sock_filter at[BPF_MAXINSNS];
	size_t length;
};

static int add_filter_instruction(struct program *program, struct sock_filter instruction)
{
	if (program->length == ARRAY_SIZE(program->at))
		return -E2BIG;
	program->at[program->length++] = instruction;
	return 0;
}

/* Offset of the lower half of an argument in seccomp_data. */
static uint32_t low_half(uint32_t processor, unsigned argument)
{
	uint32_t offset =
		(uint32_t)(offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t));

	return processor & __AUDIT_ARCH_LE ? offset : offset + (uint32_t)sizeof(uint32_t);
}

/* Number of instructions of the rule of @call. */
static uint8_t rule_length(const struct filter_new_call *call)
{
	return call->mask == 0 ? 2 : call->second_mask == 0 ? 5 : 7;
}

/* Adds the rule of @call. The call's number is in the accumulator; another number skips the
 * rule. */
static int add_new_call(
	struct program *program, uint32_t processor, const struct filter_new_call *call)
{
	const uint8_t length = rule_length(call);
	const struct sock_filter rule[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->number, 0, (uint8_t)(length - 1)),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half(processor, call->argument)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, call->mask, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, call->if_any),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, call->second_mask, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, call->if_second),
	};
	const size_t n = length - 1U; /* the last is for a call that no mask chooses */
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_filter_instruction(program, rule[i]);
	return r < 0 ? r
		     : add_filter_instruction(program,
			       (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, call->if_none));
}

/* Adds what comes before libseccomp's program. It also kills calls of other architectures. */
static int add_new_calls(
	struct program *program, uint32_t processor, const struct filter_part *part)
{
	size_t length = 0;
	int r = 0;

	for (size_t i = 0; i < part->n_new_calls; i++)
		length += rule_length(&part->new_calls[i]);
	if (length == 0)
		return 0;
	/* A jump can skip at most so many instructions. */
	if (length + 2 > UINT8_MAX)
		return -E2BIG;
	const struct sock_filter is_new[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, processor, 0, (uint8_t)(length + 2)),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, CALL_NEW, 0, (uint8_t)length),
	};
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(is_new); i++)
		r = add_filter_instruction(program, is_new[i]);
	for (size_t i = 0; r == 0 && i < part->n_new_calls; i++)
		r = add_new_call(program, processor, &part->new_calls[i]);
	return r;
}

static int add_exported(struct program *program, int exported)
{
	struct sock_filter instruction;
	ssize_t n;
	int r = lseek(exported, 0, SEEK_SET) < 0 ? -errno : 0;

	while (r == 0 && (n = read(exported, &instruction, sizeof(instruction))) != 0)
		r = n == sizeof(instruction) ? add_filter_instruction(program, instruction) : -EIO;
	return r;
}

/* Makes @filter one for @processor only. At first it is for the machine that builds. */
static int set_processor(scmp_filter_ctx filter, uint32_t processor)
{
	int r;

	if (processor == seccomp_arch_native())
		return 0;
	r = seccomp_arch_add(filter, processor);
	return r < 0 ? r : seccomp_arch_remove(filter, SCMP_ARCH_NATIVE);
}

static int add_part(struct program *program, uint32_t processor, const struct filter_part *part)
{
	_cleanup_(release_filter) scmp_filter_ctx filter = seccomp_init(part->otherwise);
	_cleanup_close_ int exported = memfd_create("filter", MFD_CLOEXEC);
	int r = !filter ? -ENOMEM : exported < 0 ? -errno : 0;

	/* x86-64 kernels also accept x32 calls and, through int 0x80, i386 calls. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* Use a binary search: every allowed call passes through this filter. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = set_processor(filter, processor);
	if (r == 0)
		r = part->add_rules(filter);
	if (r == 0)
		r = seccomp_export_bpf(filter, exported);
	if (r == 0)
		r = add_new_calls(program, processor, part);
	return r < 0 ? r : add_exported(program, exported);
}

/* What the part from @first on allows, the part behind it is to decide. */
static void go_on_after(struct program *program, size_t first)
{
	for (size_t i = first; i < program->length; i++) {
		struct sock_filter *at = &program->at[i];

		if (at->code == (BPF_RET | BPF_K) && at->k == SECCOMP_RET_ALLOW)
			*at = (struct sock_filter)BPF_STMT(
				BPF_JMP | BPF_JA, (uint32_t)(program->length - i - 1));
	}
}

static int compile_filter(FILE *out, uint32_t processor, const struct filter_source *source)
{
	static struct program program;
	int r = 0;

	program.length = 0;
	for (size_t i = 0; r == 0 && i < FILTER_PARTS && source->parts[i].add_rules; i++) {
		size_t first = program.length;

		r = add_part(&program, processor, &source->parts[i]);
		if (r == 0 && i + 1 < FILTER_PARTS && source->parts[i + 1].add_rules)
			go_on_after(&program, first);
	}
	fprintf(out, "static const struct sock_filter %s[] = {\n", source->name);
	for (size_t i = 0; i < program.length; i++)
		fprintf(out, "\t{0x%02x, %u, %u, 0x%08xU},\n", program.at[i].code, program.at[i].jt,
			program.at[i].jf, program.at[i].k);
	fprintf(out, "};\n");
	return r;
}

static int print_filters(FILE *out, uint32_t processor, const struct filter_set *set)
{
	int r = 0;

	fprintf(out, "/* Made by worker/filters/make_filter.c. */\n#pragma once\n\n"
		     "#include <linux/filter.h>\n");
	for (size_t i = 0; r == 0 && i < set->n_sources; i++)
		r = compile_filter(out, processor, &set->sources[i]);
	return r;
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
	const struct filter_set *set = argc == 4 ? find_set(argv[2]) : NULL;
	bool checks = argc == 4 && strcmp(argv[2], "checks") == 0;
	uint32_t processor;
	FILE *out;
	int r;

	if (!set && !checks) {
		fprintf(stderr, "usage: make_filter PROCESSOR SET|checks FILE\n");
		return 2;
	}
	processor = seccomp_arch_resolve_name(argv[1]);
	if (processor == 0) {
		fprintf(stderr,
			"make_filter: libseccomp knows no processor \"%s\": set "
			"CMAKE_SYSTEM_PROCESSOR "
			"to what \"uname -m\" prints on it\n",
			argv[1]);
		return 1;
	}
	out = fopen(argv[3], "we");
	if (!out) {
		fprintf(stderr, "make_filter: %s: %s\n", argv[3], strerror(errno));
		return 1;
	}
	/* Without an API level, libseccomp would ask the building machine's kernel which actions
	 * are valid. */
	r = seccomp_api_set(API_LEVEL);
	if (r == 0)
		r = checks ? print_checks(out, processor) : print_filters(out, processor, set);
	if (fclose(out) != 0 && r == 0)
		r = -errno;
	if (r < 0)
		fprintf(stderr, "make_filter: %s: %s\n", argv[2], strerror(-r));
	return r < 0 ? 1 : 0;
}
