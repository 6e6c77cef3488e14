/* links: PkgConfig::SECCOMP filters-of-both */
// SPDX-License-Identifier: Apache-2.0
/* The filters of x86-64 and arm64 are interpreted, and must give the same verdict. */
#include "tests/lib/rounds.h"
#include "tests/lib/unit.h"
#include "worker/filters/filter_cookie.h"
#include "worker/filters/filters.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define commands_plain          x86_commands_plain
#define commands_inside         x86_commands_inside
#define commands_nesting        x86_commands_nesting
#define commands_inside_nesting x86_commands_inside_nesting
#define files_allowed           x86_files_allowed
#define spawner_refused         x86_spawner_refused
#define unpack_allowed          x86_unpack_allowed
#include "x86_64/commands_filters.h"
#include "x86_64/files_filters.h"
#include "x86_64/spawner_filters.h"
#include "x86_64/unpack_filters.h"
#undef commands_plain
#undef commands_inside
#undef commands_nesting
#undef commands_inside_nesting
#undef files_allowed
#undef spawner_refused
#undef unpack_allowed
#include "aarch64/commands_filters.h"
#include "aarch64/files_filters.h"
#include "aarch64/spawner_filters.h"
#include "aarch64/unpack_filters.h"

#define CALLS       512
#define VECTORS     rounds(150, 3000) /* how many sets of arguments each call is tried with */
#define ALLOW       SECCOMP_RET_ALLOW
#define NOTIFY      SECCOMP_RET_USER_NOTIF
#define KILL        SECCOMP_RET_KILL_PROCESS
#define FAIL(error) (SECCOMP_RET_ERRNO | (error))

struct program {
	const struct sock_filter *code;
	size_t n;
};

#define PROGRAM(array)                   \
	{                                \
		array, ARRAY_SIZE(array) \
	}

enum { X86, ARM, PROCESSORS };
enum { COMMANDS, INSIDE, NESTING, INSIDE_NESTING, FILES, SPAWNER, UNPACK, PROCESSES };

static const uint32_t processors[] = {[X86] = SCMP_ARCH_X86_64, [ARM] = SCMP_ARCH_AARCH64};

/* One for each process. What the spawner's own refuses, its children are refused too. */
static const struct program programs[PROCESSORS][PROCESSES] = {
	[X86] = {[COMMANDS] = PROGRAM(x86_commands_plain),
		[INSIDE] = PROGRAM(x86_commands_inside),
		[NESTING] = PROGRAM(x86_commands_nesting),
		[INSIDE_NESTING] = PROGRAM(x86_commands_inside_nesting),
		[FILES] = PROGRAM(x86_files_allowed),
		[SPAWNER] = PROGRAM(x86_spawner_refused),
		[UNPACK] = PROGRAM(x86_unpack_allowed)},
	[ARM] = {[COMMANDS] = PROGRAM(commands_plain),
		[INSIDE] = PROGRAM(commands_inside),
		[NESTING] = PROGRAM(commands_nesting),
		[INSIDE_NESTING] = PROGRAM(commands_inside_nesting),
		[FILES] = PROGRAM(files_allowed),
		[SPAWNER] = PROGRAM(spawner_refused),
		[UNPACK] = PROGRAM(unpack_allowed)},
};

static uint32_t load(const struct seccomp_data *data, uint32_t offset)
{
	uint32_t value;

	assert_true(offset % sizeof(value) == 0 && offset + sizeof(value) <= sizeof(*data));
	memcpy(&value, (const char *)data + offset, sizeof(value));
	return value;
}

/* bpf(4), as far as the filters use it. */
static uint32_t interpret(const struct program *program, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t i = 0; i < program->n; i++) {
		const struct sock_filter *at = &program->code[i];
		bool holds;

		switch (at->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load(data, at->k);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= at->k;
			continue;
		case BPF_RET | BPF_K:
			return at->k;
		case BPF_JMP | BPF_JA:
			i += at->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			holds = a == at->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			holds = a > at->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			holds = a >= at->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			holds = (a & at->k) != 0;
			break;
		default:
			fail_msg("instruction %#x", at->code);
			return KILL;
		}
		i += holds ? at->jt : at->jf;
	}
	fail_msg("a program without an end");
	return KILL;
}

static uint32_t verdict(int processor, int process, const struct seccomp_data *data)
{
	return interpret(&programs[processor][process], data);
}

static uint32_t refused(void)
{
	return CLOISTER_FILTER_KILL ? KILL : FAIL(EPERM);
}

/* The numbers are those of Linux's tables; -1: the processor does not have the call. */
static const struct row {
	const char *name;
	int numbers[PROCESSORS];
	uint64_t args[6];
	uint32_t commands, files, unpack; /* EINVAL: command_filters = allow permits it */
} rows[] = {
	{"read", {0, 63}, {0}, ALLOW, ALLOW, ALLOW},
	{"open", {2, -1}, {0}, ALLOW, KILL, KILL},
	{"stat", {4, -1}, {0}, ALLOW, KILL, KILL},
	{"fork", {57, -1}, {0}, ALLOW, KILL, KILL},
	{"epoll_wait", {232, -1}, {0}, ALLOW, KILL, KILL},
	{"epoll_pwait", {281, 22}, {0}, ALLOW, KILL, KILL},
	{"openat", {257, 56}, {0}, ALLOW, ALLOW, ALLOW},
	{"openat with set-user-id", {257, 56}, {0, 0, O_CREAT, S_ISUID}, FAIL(EPERM), KILL, KILL},
	{"newfstatat", {262, 79}, {0}, ALLOW, ALLOW, ALLOW},
	{"renameat2", {316, 276}, {0}, ALLOW, ALLOW, ALLOW},
	{"execve", {59, 221}, {0}, ALLOW, KILL, KILL},
	{"fcntl that asks for flags", {72, 25}, {0, F_GETFL}, ALLOW, ALLOW, ALLOW},
	{"fcntl that locks", {72, 25}, {0, F_SETLK}, ALLOW, ALLOW, KILL},
	{"fcntl that sets an owner", {72, 25}, {0, F_SETOWN}, ALLOW, ALLOW, KILL},
	{"fcntl that asks for notices", {72, 25}, {0, 1026}, ALLOW, ALLOW, KILL},
	{"ioctl", {16, 29}, {0, 0x5401}, ALLOW, KILL, KILL},
	{"ioctl that makes a subvolume", {16, 29}, {0, 0x50009418}, FAIL(ENOTTY), KILL, KILL},
	{"ioctl that makes one, as it was", {16, 29}, {0, 0x5000940e}, FAIL(ENOTTY), KILL, KILL},
	{"ioctl that makes a snapshot", {16, 29}, {0, 0x50009417}, FAIL(ENOTTY), KILL, KILL},
	{"ioctl that makes one read-only", {16, 29}, {0, 0x4008941a}, FAIL(ENOTTY), KILL, KILL},
	{"clone", {56, 220}, {SIGCHLD}, ALLOW, ALLOW, KILL},
	{"clone of a user namespace", {56, 220}, {CLONE_NEWUSER}, FAIL(EPERM), KILL, KILL},
	{"clone3", {435, 435}, {0}, FAIL(ENOSYS), FAIL(ENOSYS), KILL},
	{"socket", {41, 198}, {AF_UNIX, SOCK_STREAM}, ALLOW, KILL, KILL},
	{"a socket of the kernel", {41, 198}, {AF_NETLINK, SOCK_RAW, 4}, FAIL(EPERM), KILL, KILL},
	{"a socket of NETLINK_ROUTE", {41, 198}, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC}, NOTIFY,
		KILL, KILL},
	{"a packet socket of it", {41, 198}, {AF_NETLINK, SOCK_SEQPACKET}, FAIL(EPERM), KILL, KILL},
	{"mount", {165, 40}, {0}, FAIL(EPERM), KILL, KILL},
	{"setns", {308, 268}, {0, CLONE_NEWUSER}, FAIL(EPERM), KILL, KILL},
	{"umount2", {166, 39}, {0}, FAIL(EPERM), KILL, KILL},
	{"bpf", {321, 280}, {0}, FAIL(EPERM), KILL, KILL},
	{"io_uring_setup", {425, 425}, {0}, FAIL(EPERM), KILL, KILL},
	{"openat2", {437, 437}, {0}, FAIL(ENOSYS), ALLOW, ALLOW},
	{"cachestat", {451, 451}, {0}, ALLOW, KILL, KILL},
	{"fchmodat2", {452, 452}, {0, 0, 0644}, ALLOW, ALLOW, KILL},
	{"fchmodat2 with set-group-id", {452, 452}, {0, 0, S_ISGID | 0755}, NOTIFY, KILL, KILL},
	{"fchmodat2 with both", {452, 452}, {0, 0, S_ISUID | S_ISGID}, FAIL(EPERM), KILL, KILL},
	{"fchmodat with set-group-id", {268, 53}, {0, 0, S_ISGID | 0755}, NOTIFY, KILL, KILL},
	{"removexattrat", {466, 466}, {0}, ALLOW, KILL, KILL},
	{"a call that is not there yet", {467, 467}, {0}, FAIL(ENOSYS), KILL, KILL},
	{"io_setup", {206, 0}, {0}, FAIL(ENOSYS), KILL, KILL},
	{"arch_prctl", {158, -1}, {0}, ALLOW, KILL, KILL},
	{"x32's read", {0x40000000, -1}, {0}, KILL, KILL, KILL},
	{"mmap", {9, 222}, {0, 0, PROT_WRITE}, ALLOW, ALLOW, ALLOW},
	{"mmap of what can be executed", {9, 222}, {0, 0, PROT_EXEC}, ALLOW, ALLOW, KILL},
	{"fchown", {93, 55}, {0}, ALLOW, ALLOW, KILL},
	{"fsetxattr", {190, 7}, {0}, ALLOW, ALLOW, KILL},
	{"fchmod", {91, 52}, {0, 0755}, ALLOW, ALLOW, ALLOW},
	{"fchmod with set-user-id", {91, 52}, {0, 04755}, FAIL(EPERM), KILL, KILL},
	{"kill", {62, 129}, {0}, ALLOW, ALLOW, KILL},
	{"mknodat", {259, 33}, {0, 0, S_IFCHR}, ALLOW, KILL, KILL},
	{"seccomp, a filter", {317, 277}, {1}, FAIL(EINVAL), KILL, KILL},
	{"seccomp, the strict mode", {317, 277}, {0}, FAIL(EINVAL), KILL, KILL},
	{"seccomp, which actions there are", {317, 277}, {2}, ALLOW, KILL, KILL},
	{"seccomp, sizes", {317, 277}, {3}, ALLOW, KILL, KILL},
	{"prctl, a filter", {157, 167}, {PR_SET_SECCOMP, 2}, FAIL(EINVAL), KILL, KILL},
	{"prctl, the strict mode", {157, 167}, {PR_SET_SECCOMP, 1}, FAIL(EINVAL), KILL, KILL},
	{"prctl, which mode", {157, 167}, {PR_GET_SECCOMP}, ALLOW, KILL, KILL},
	{"setsockopt", {54, 208}, {3, SOL_SOCKET, SO_KEEPALIVE}, ALLOW, KILL, KILL},
	{"setsockopt, a filter", {54, 208}, {3, SOL_SOCKET, SO_ATTACH_FILTER}, FAIL(ENOPROTOOPT),
		KILL, KILL},
	{"setsockopt, a group's filter", {54, 208}, {3, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF},
		FAIL(ENOPROTOOPT), KILL, KILL},
	{"setsockopt, a key", {54, 208}, {3, IPPROTO_TCP, 14}, FAIL(ENOPROTOOPT), KILL, KILL},
	{"setsockopt, a group of IPv4", {54, 208}, {3, IPPROTO_IP, 35}, FAIL(ENODEV), KILL, KILL},
	{"setsockopt, a group of IPv6", {54, 208}, {3, IPPROTO_IPV6, 20}, FAIL(ENODEV), KILL, KILL},
	{"setsockopt, leaving one", {54, 208}, {3, IPPROTO_IPV6, 21}, ALLOW, KILL, KILL},
	{"setsockopt, another protocol", {54, 208}, {3, IPPROTO_TCP, 31}, FAIL(EPERM), KILL, KILL},
};

TEST(test_numbers)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		uint32_t wanted = row->commands == FAIL(EPERM) ? refused() : row->commands;

		for (int processor = 0; processor < PROCESSORS; processor++) {
			struct seccomp_data data = {
				.nr = row->numbers[processor], .arch = processors[processor]};

			if (data.nr < 0)
				continue;
			memcpy(data.args, row->args, sizeof(data.args));
			if (verdict(processor, COMMANDS, &data) != wanted)
				fail_msg("commands, processor %d: %s", processor, row->name);
			if (verdict(processor, INSIDE, &data) != wanted)
				fail_msg("inside, processor %d: %s", processor, row->name);
			for (int nesting = NESTING; nesting <= INSIDE_NESTING; nesting++)
				if (verdict(processor, nesting, &data) !=
					(wanted == FAIL(EINVAL) ? ALLOW : wanted))
					fail_msg("nesting, processor %d: %s", processor, row->name);
			if (verdict(processor, FILES, &data) != row->files)
				fail_msg("files, processor %d: %s", processor, row->name);
			if (verdict(processor, UNPACK, &data) != row->unpack)
				fail_msg("unpack, processor %d: %s", processor, row->name);
		}
	}
}

/* With root_inside only a process that knows the number may enter a user namespace. */
TEST(test_root_inside)
{
	const uint64_t cookie = (uint64_t)FILTER_COOKIE_HIGH << 32 | FILTER_COOKIE_LOW;
	static const int setns_numbers[PROCESSORS] = {308, 268};

	for (int processor = 0; processor < PROCESSORS; processor++) {
		const uint64_t kinds[] = {
			0, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNS};

		for (size_t i = 0; i < ARRAY_SIZE(kinds) * 2; i++) {
			struct seccomp_data data = {.nr = setns_numbers[processor],
				.arch = processors[processor],
				.args = {3, kinds[i / 2], i % 2 ? cookie : cookie + 1}};
			bool may = kinds[i / 2] == CLONE_NEWUSER && i % 2;

			assert_int_equal(verdict(processor, COMMANDS, &data), refused());
			assert_int_equal(
				verdict(processor, INSIDE, &data), may ? ALLOW : refused());
		}
	}
}

/* A call of another architecture is not looked up in this one's table. */
TEST(test_other_processors)
{
	static const uint32_t others[PROCESSORS][2] = {[X86] = {SCMP_ARCH_X86, SCMP_ARCH_AARCH64},
		[ARM] = {SCMP_ARCH_ARM, SCMP_ARCH_X86_64}};

	for (int processor = 0; processor < PROCESSORS; processor++)
		for (size_t i = 0; i < ARRAY_SIZE(others[0]); i++)
			for (int nr = 0; nr < CALLS; nr++) {
				struct seccomp_data data = {.nr = nr, .arch = others[processor][i]};

				for (int process = 0; process < PROCESSES; process++)
					assert_int_equal(verdict(processor, process, &data), KILL);
			}
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

/* Returns a value that rules compare with, a single bit, or any other value. */
static uint64_t any_argument(uint64_t *state)
{
	static const uint64_t values[] = {0, 1, 2, 3, 4, 5, 6, 16, 31, 0x5412, 0x541c, 0x5423,
		04000, 02000, 06755, 0100, 020200000, 0x40000, 0xfffff, UINT32_MAX, 14,
		(uint64_t)UINT32_MAX << 32, 0x8d1c52e7b3604f9bULL};

	switch (next_random(state) % 4) {
	case 0:
		return 1ULL << next_random(state) % 64;
	case 1:
		return next_random(state) << 33 ^ next_random(state);
	default:
		return values[next_random(state) % ARRAY_SIZE(values)];
	}
}

/* Compares two processors' filters for one call. Returns whether any arguments are allowed. */
static bool compare(const char *name, int process, const int *numbers, uint64_t *random)
{
	const size_t vectors = VECTORS;
	bool allowed = false;

	for (size_t i = 0; i < vectors; i++) {
		struct seccomp_data data = {0};
		uint32_t verdicts[PROCESSORS];

		for (size_t j = 0; j < ARRAY_SIZE(data.args); j++)
			data.args[j] = any_argument(random);
		for (int processor = 0; processor < PROCESSORS; processor++) {
			data.nr = numbers[processor];
			data.arch = processors[processor];
			verdicts[processor] = verdict(processor, process, &data);
		}
		if (verdicts[X86] != verdicts[ARM])
			fail_msg("process %d, %s: %#x on x86-64, %#x on arm64", process, name,
				verdicts[X86], verdicts[ARM]);
		allowed |= verdicts[X86] == ALLOW;
	}
	return allowed;
}

TEST(test_same_verdicts)
{
	uint64_t random = 1;
	unsigned common = 0, allowed[PROCESSES] = {0};

	for (int number = 0; number < CALLS; number++) {
		_cleanup_free_ char *known =
			seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, number);
		const char *name = known ? known : "without a name";
		/* From Linux 5.1 on, all processors have the same numbers. */
		int numbers[] = {number, number >= 424 ? number : -1};

		if (known && number < 424)
			numbers[ARM] = seccomp_syscall_resolve_name_arch(SCMP_ARCH_AARCH64, known);
		if (numbers[ARM] < 0)
			continue;
		common++;
		for (int process = 0; process < PROCESSES; process++)
			allowed[process] += compare(name, process, numbers, &random);
	}
	/* The loop compared some calls that are allowed and some that are not. */
	assert_true(common > 300 && allowed[COMMANDS] > 200 && allowed[COMMANDS] < common);
	assert_true(allowed[FILES] > 50 && allowed[FILES] < 100);
	assert_true(allowed[SPAWNER] > 250 && allowed[SPAWNER] < common);
}
