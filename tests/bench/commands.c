// SPDX-License-Identifier: Apache-2.0
/*
 * Measures run_command in the client against a bare posix_spawn(3) of the same shell and against
 * bubblewrap, interleaved in one run; then the rates of many commands of one workspace and of many
 * workspaces, and read_file while commands of another workspace flood cloisterd with output. Only
 * the ratios are meaningful.
 *
 * usage: bench_commands AGENT_SOCKET WORKSPACE OTHER_WORKSPACE [N [SHELL]]
 *
 * SHELL is the path of the shell that cloisterd is configured to run commands by (/bin/bash).
 *
 * The socket is that of a running cloisterd; run it as the user that cloisterd runs as.
 */
#include "common/cleanup.h"
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define IN_FLIGHT  8
#define WORKSPACES 16 /* in parallel, each with one command */
#define WARM_UP    10

static struct bench_server cloister;

static void send_call(const struct bench_server *server, int id, const char *arguments)
{
	char line[512];
	int len = snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tool.call\",\"params\":{%s}}\n", id,
		arguments);

	bench_send(server, line, (size_t)len);
}

#define RUN_TRUE  "\"tool\":\"run_command\",\"arguments\":{\"command\":\"true\"}"
#define RUN_YES   "\"tool\":\"run_command\",\"arguments\":{\"command\":\"yes\"}"
#define READ_FILE "\"tool\":\"read_file\",\"arguments\":{\"path\":\"bench-file\"}"

static void run_cloister(void)
{
	static int id;

	send_call(&cloister, ++id, RUN_TRUE);
	bench_take_answer(&cloister);
}

/* As commands have it: with LANG bash(1) loads the locale, a tenth of the time that it takes. */
static char *const environment[] = {
	(char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	(char *)"USER=agent",
	(char *)"LOGNAME=agent",
	(char *)"SHELL=/bin/sh",
	(char *)"LANG=C.UTF-8",
	(char *)"TMPDIR=/tmp",
	(char *)"TERM=dumb",
	(char *)"PAGER=cat",
	(char *)"GIT_PAGER=cat",
	(char *)"GIT_TERMINAL_PROMPT=0",
	(char *)"DEBIAN_FRONTEND=noninteractive",
	(char *)"HOME=/tmp",
	NULL,
};

static pid_t spawn(char *const argv[])
{
	pid_t pid;

	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environment) != 0)
		bench_die(argv[0]);
	return pid;
}

static void await(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) < 0 || status != 0)
		bench_die("wait");
}

/* The first word is SHELL. */
static char *shell[] = {(char *)"/bin/bash", (char *)"-c", (char *)"true", NULL};
static char *bubblewrap[] = {(char *)"/usr/bin/bwrap", (char *)"--unshare-all", (char *)"--ro-bind",
	(char *)"/usr", (char *)"/usr", (char *)"--symlink", (char *)"usr/bin", (char *)"/bin",
	(char *)"--symlink", (char *)"usr/lib", (char *)"/lib", (char *)"--symlink",
	(char *)"usr/lib64", (char *)"/lib64", (char *)"--proc", (char *)"/proc", (char *)"--dev",
	(char *)"/dev", (char *)"--tmpfs", (char *)"/tmp", (char *)"/bin/bash", (char *)"-c",
	(char *)"true", NULL};

static void use_shell(char *path)
{
	shell[0] = path;
	bubblewrap[ARRAY_SIZE(bubblewrap) - 4] = path;
}

static void run_bare(void)
{
	await(spawn(shell));
}

static void run_bubblewrap(void)
{
	await(spawn(bubblewrap));
}

struct candidate {
	const char *name;
	void (*run)(void);
	double *times;
};

static double *new_times(size_t n)
{
	double *times = calloc(n, sizeof(*times));

	if (!times)
		bench_die("calloc");
	return times;
}

/* Runs the two candidates alternately, so that each finds the caches as the other left them. */
static void measure_pair(struct candidate pair[2], size_t n)
{
	for (size_t c = 0; c < 2; c++)
		pair[c].times = new_times(n);
	for (size_t i = 0; i < n + WARM_UP; i++)
		for (size_t c = 0; c < 2; c++) {
			double start = bench_now_us();

			pair[c].run();
			if (i >= WARM_UP)
				pair[c].times[i - WARM_UP] = bench_now_us() - start;
		}
	for (size_t c = 0; c < 2; c++)
		bench_sort(pair[c].times, n);
	for (size_t c = 0; c < 2; c++)
		bench_row(pair[c].name, pair[c].times, n, pair[0].times[n / 2]);
	for (size_t c = 0; c < 2; c++)
		free(pair[c].times);
}

static void measure_one_in_flight(size_t n)
{
	enum { ROUNDS = 3 };

	for (int round = 0; round < ROUNDS; round++) {
		struct candidate with_bare[2] = {
			{"posix_spawn SHELL -c true", run_bare, NULL},
			{"cloister run_command true", run_cloister, NULL},
		};
		struct candidate with_bubblewrap[2] = {
			{"cloister run_command true", run_cloister, NULL},
			{"bwrap --unshare-all SHELL -c true", run_bubblewrap, NULL},
		};

		bench_row_head("one in flight, us");
		measure_pair(with_bare, n);
		if (access(bubblewrap[0], X_OK) == 0)
			measure_pair(with_bubblewrap, n);
	}
}

static double rate_bare(size_t n, size_t in_flight)
{
	double start = bench_now_us();
	size_t running = 0;

	for (size_t done = 0; done < n; done++) {
		while (running < in_flight && done + running < n) {
			spawn(shell);
			running++;
		}
		if (wait(NULL) < 0)
			bench_die("wait");
		running--;
	}
	return (double)n / (bench_now_us() - start) * 1e6;
}

static double rate_one_workspace(size_t n, size_t in_flight)
{
	double start = bench_now_us();
	size_t running = 0;

	for (size_t done = 0; done < n; done++) {
		while (running < in_flight && done + running < n)
			send_call(&cloister, (int)(1000000 + done + running++), RUN_TRUE);
		bench_take_answer(&cloister);
		running--;
	}
	return (double)n / (bench_now_us() - start) * 1e6;
}

static struct bench_server workspaces[WORKSPACES];

/* Opens workspaces below @workspace. */
static void open_workspaces(const char *socket_path, const char *workspace)
{
	char path[1024];

	for (size_t i = 0; i < WORKSPACES; i++) {
		snprintf(path, sizeof(path), "%s/%zu", workspace, i);
		if (mkdir(path, 0755) < 0)
			bench_die(path);
		workspaces[i] = bench_connect(socket_path, path);
	}
}

static double rate_workspaces(size_t n, size_t in_flight)
{
	struct pollfd fds[WORKSPACES];
	double start = bench_now_us();
	size_t sent = 0, done = 0;

	for (; sent < in_flight; sent++) {
		fds[sent] = (struct pollfd){.fd = workspaces[sent].in, .events = POLLIN};
		send_call(&workspaces[sent], 1, RUN_TRUE);
	}
	while (done < n) {
		if (poll(fds, in_flight, -1) < 0)
			bench_die("poll");
		for (size_t i = 0; i < in_flight; i++) {
			if (fds[i].revents == 0)
				continue;
			bench_take_answer(&workspaces[i]);
			done++;
			if (sent < n)
				send_call(&workspaces[i], (int)++sent, RUN_TRUE);
		}
	}
	return (double)n / (bench_now_us() - start) * 1e6;
}

static void measure_rate(
	const char *name, double (*rate)(size_t n, size_t in_flight), size_t in_flight, size_t n)
{
	enum { ROUNDS = 7 };
	double bare[ROUNDS], ours[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		bare[i] = rate_bare(n, in_flight);
		ours[i] = rate(n, in_flight);
	}
	bench_sort(bare, ROUNDS);
	bench_sort(ours, ROUNDS);
	printf("\n%zu in flight, a second (median of %d rounds of %zu; min and max)\n", in_flight,
		ROUNDS, n);
	printf("%-34s %10.0f (%.0f %.0f)\n", "posix_spawn", bare[ROUNDS / 2], bare[0],
		bare[ROUNDS - 1]);
	printf("%-34s %10.0f (%.0f %.0f) %8.2f\n", name, ours[ROUNDS / 2], ours[0],
		ours[ROUNDS - 1], ours[ROUNDS / 2] / bare[ROUNDS / 2]);
}

/* Keeps IN_FLIGHT writing commands running in another workspace until it is killed. */
static pid_t start_flood(const char *socket_path, const char *workspace)
{
	pid_t pid = fork();
	struct bench_server flood;
	size_t len;

	if (pid != 0)
		return pid;
	flood = bench_connect(socket_path, workspace);
	for (int i = 0; i < IN_FLIGHT; i++)
		send_call(&flood, i + 1, RUN_YES);
	for (int id = IN_FLIGHT + 1;; id++) {
		/* The command has reached its output limit and ended. */
		(void)bench_receive(&flood, &len);
		bench_drop_line(&flood, len);
		send_call(&flood, id, RUN_YES);
	}
}

static void measure_reads(double *times, size_t n)
{
	const struct timespec pause = {.tv_nsec = 500000};

	for (size_t i = 0; i < n; i++) {
		double start = bench_now_us();

		send_call(&cloister, (int)i, READ_FILE);
		bench_take_answer(&cloister);
		times[i] = bench_now_us() - start;
		nanosleep(&pause, NULL);
	}
}

static void measure_flood(const char *socket_path, const char *other, size_t n)
{
	enum { ROUNDS = 5 };
	const struct timespec settle = {.tv_nsec = 300000000};
	double *idle = new_times(n * ROUNDS), *flooded = new_times(n * ROUNDS);

	for (size_t round = 0; round < ROUNDS; round++) {
		pid_t pid;

		measure_reads(idle + round * n, n);
		pid = start_flood(socket_path, other);
		nanosleep(&settle, NULL);
		measure_reads(flooded + round * n, n);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		nanosleep(&settle, NULL);
	}
	bench_sort(idle, n * ROUNDS);
	bench_sort(flooded, n * ROUNDS);
	printf("\n");
	bench_row_head("read_file of 4 KiB, us");
	bench_row("nothing else", idle, n * ROUNDS, idle[n * ROUNDS / 2]);
	bench_row("while 8 commands run yes", flooded, n * ROUNDS, idle[n * ROUNDS / 2]);
	printf("p99 against p99 %.2f\n",
		flooded[n * ROUNDS * 99 / 100] / idle[n * ROUNDS * 99 / 100]);
}

static void make_file(const char *workspace)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/bench-file", workspace);
	file = fopen(path, "we");
	if (!file)
		bench_die(path);
	for (int i = 0; i < 4096 / 64; i++)
		fprintf(file, "%-63d\n", i);
	fclose(file);
}

int main(int argc, char **argv)
{
	size_t n = argc > 4 ? strtoul(argv[4], NULL, 10) : 500;

	if (argc < 4 || n < 100) {
		fprintf(stderr,
			"usage: bench_commands AGENT_SOCKET WORKSPACE OTHER_WORKSPACE [N, at least "
			"100 [SHELL]]\n");
		return 2;
	}
	if (argc > 5)
		use_shell(argv[5]);
	printf("SHELL is %s\n", shell[0]);
	make_file(argv[2]);
	cloister = bench_connect(argv[1], argv[2]);
	measure_one_in_flight(n);
	measure_rate("cloister", rate_one_workspace, IN_FLIGHT, n);
	open_workspaces(argv[1], argv[2]);
	measure_rate("cloister, each in its workspace", rate_workspaces, WORKSPACES, n);
	measure_flood(argv[1], argv[3], n);
	return 0;
}
