// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program. "probe NAME ..." prints a line for each probe: its
 * name, a space and the result. Each probe runs in a process of its own, because the kernel kills
 * some.
 */
#include "probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define AS_ROOT       "root-"
#define ARGUMENTS_MAX 128

char **probe_environment;

/* The compiler may generate calls of these. */
void *memset(void *to, int byte, size_t len);
void *memcpy(void *restrict to, const void *restrict from, size_t len);

#if RAW_SYSCALL
void *memset(void *to, int byte, size_t len)
{
	for (char *at = to; len > 0; len--)
		*at++ = (char)byte;
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t len)
{
	const char *source = from;

	for (char *at = to; len > 0; len--)
		*at++ = *source++;
	return to;
}
#endif

size_t probe_length(const char *string)
{
	size_t len = 0;

	while (string[len])
		len++;
	return len;
}

int probe_begins(const char *string, const char *beginning)
{
	while (*beginning && *string == *beginning) {
		string++;
		beginning++;
	}
	return *beginning == '\0';
}

int probe_equal(const char *a, const char *b)
{
	return probe_begins(a, b) && probe_length(a) == probe_length(b);
}

const char *probe_number(long number)
{
	static char digits[24];
	char *at = digits + sizeof(digits) - 1;
	unsigned long left = number < 0 ? 0UL - (unsigned long)number : (unsigned long)number;

	do {
		*--at = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (number < 0)
		*--at = '-';
	return at;
}

const char *probe_answer(long result)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {
		{EPERM, "EPERM"},
		{ENOENT, "ENOENT"},
		{ESRCH, "ESRCH"},
		{EIO, "EIO"},
		{ENXIO, "ENXIO"},
		{EBADF, "EBADF"},
		{EAGAIN, "EAGAIN"},
		{ENOMEM, "ENOMEM"},
		{EACCES, "EACCES"},
		{EFAULT, "EFAULT"},
		{ENOTSOCK, "ENOTSOCK"},
		{ENOPROTOOPT, "ENOPROTOOPT"},
		{EBUSY, "EBUSY"},
		{EEXIST, "EEXIST"},
		{EXDEV, "EXDEV"},
		{ENODEV, "ENODEV"},
		{ENOTDIR, "ENOTDIR"},
		{EISDIR, "EISDIR"},
		{EINVAL, "EINVAL"},
		{ENOTTY, "ENOTTY"},
		{ETXTBSY, "ETXTBSY"},
		{ENOSPC, "ENOSPC"},
		{EROFS, "EROFS"},
		{ELOOP, "ELOOP"},
		{ENOSYS, "ENOSYS"},
		{ENODATA, "ENODATA"},
		{EOVERFLOW, "EOVERFLOW"},
		{EOPNOTSUPP, "EOPNOTSUPP"},
		{EAFNOSUPPORT, "EAFNOSUPPORT"},
		{EPROTONOSUPPORT, "EPROTONOSUPPORT"},
		{EADDRNOTAVAIL, "EADDRNOTAVAIL"},
		{ENETUNREACH, "ENETUNREACH"},
		{EHOSTUNREACH, "EHOSTUNREACH"},
		{ECONNREFUSED, "ECONNREFUSED"},
		{EDQUOT, "EDQUOT"},
	};

	if (result >= 0)
		return "OK";
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].error == -result)
			return names[i].name;
	return probe_number(result);
}

const char *probe_open(const char *path, int flags)
{
	return probe_answer(RAW4(SYS_openat, AT_FDCWD, path, flags, 0600));
}

const char *probe_read(const char *path)
{
	static char bytes[4096];
	long fd = RAW4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0), n;

	if (fd < 0)
		return probe_answer(fd);
	n = RAW3(SYS_read, fd, bytes, sizeof(bytes) - 1);
	RAW1(SYS_close, fd);
	if (n < 0)
		return probe_answer(n);
	bytes[n] = '\0';
	while (n > 0 && bytes[n - 1] == '\n')
		bytes[--n] = '\0';
	return bytes;
}

/* One write(2) a line, so that the output of a process that is killed does not mix with others'. */
static void say_probe_result(const char *name, const char *answer)
{
	char line[256];
	size_t len = 0;

	for (; *name && len < 100; name++)
		line[len++] = *name;
	line[len++] = ' ';
	for (; *answer && *answer != '\n' && len < sizeof(line) - 1; answer++)
		line[len++] = *answer;
	line[len++] = '\n';
	RAW3(SYS_write, 1, line, len);
}

static const struct probe *find(const char *name)
{
	static const struct probe *const lists[] = {probes_of_processes, probes_of_files,
		probes_of_calls, probes_of_budgets, probes_of_egress, probes_of_layers,
		probes_of_archives, probes_of_forks};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct probe *probe = lists[i]; probe->name; probe++)
			if (probe_equal(probe->name, name))
				return probe;
	/* The same attempt, by one that is uid 0 inside. */
	return probe_begins(name, AS_ROOT) ? find(name + sizeof(AS_ROOT) - 1) : NULL;
}

static const char *signal_name(int number)
{
	switch (number) {
	case SIGSYS:
		return "SIGSYS";
	case SIGKILL:
		return "SIGKILL";
	case SIGSEGV:
		return "SIGSEGV";
	default:
		return "a signal";
	}
}

static void run_probe(const char *name)
{
	const struct probe *probe = find(name);
	int status = 0;
	long pid;

	if (!probe) {
		say_probe_result(name, "no such probe");
		return;
	}
	pid = RAW5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		say_probe_result(name, probe->run());
		RAW1(SYS_exit_group, 0);
	}
	if (pid < 0)
		say_probe_result(name, probe_answer(pid));
	else if (RAW4(SYS_wait4, pid, &status, 0, 0) == pid && WIFSIGNALED(status))
		say_probe_result(name, signal_name(WTERMSIG(status)));
}

static int run_all(char **arguments)
{
	for (; *arguments; arguments++)
		run_probe(*arguments);
	return 0;
}

/*
 * Takes the place of the shell in a whole root where there is no other program: of "sh -c COMMAND"
 * the command "./probe NAME ...".
 */
static int run_as_shell(char *command)
{
	static char *words[ARGUMENTS_MAX + 1];
	unsigned count = 0;

	while (*command && count < ARGUMENTS_MAX) {
		words[count++] = command;
		while (*command && *command != ' ')
			command++;
		if (*command)
			*command++ = '\0';
	}
	return count > 0 ? run_all(words + 1) : 0;
}

static int begin_probe(char **arguments)
{
	return arguments[0] && probe_equal(arguments[0], "-c") && arguments[1]
		       ? run_as_shell(arguments[1])
		       : run_all(arguments);
}

#if RAW_SYSCALL

/* Reads the stack as execve(2) leaves it: the count, the arguments, a NULL, the environment. */
__attribute__((used)) _Noreturn void probe_start(long *stack);

_Noreturn void probe_start(long *stack)
{
	char **arguments = (char **)(stack + 1);

	probe_environment = arguments + stack[0] + 1;
	RAW1(SYS_exit_group, begin_probe(arguments + 1));
	__builtin_unreachable();
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall "
	"probe_start\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x0, sp\n\tb probe_start\n");
#endif

#else

extern char **environ;

int main(int argc, char **argv)
{
	probe_environment = environ;
	return argc > 0 ? begin_probe(argv + 1) : 1;
}

#endif
