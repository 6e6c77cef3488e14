// SPDX-License-Identifier: Apache-2.0
/*
 * What a run_command costs, client to client, against the bare posix_spawn(3) of the same shell and
 * against bubblewrap, interleaved in one run. Only the ratios mean something. usage: bench_commands
 * AGENT_SOCKET WORKSPACE [N]
 *
 * The socket is that of a running cloisterd; run it as the user that cloisterd runs as.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IN_FLIGHT 8

static int connection;
static char buffer[1 << 16];
static size_t buffered;

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

static void send_line(const char *line)
{
	size_t len = strlen(line);

	if (write(connection, line, len) != (ssize_t)len)
		die("write");
}

/* Takes one line off the connection; it must say success. */
static void receive_line(void)
{
	char *newline;
	ssize_t n;

	while (!(newline = memchr(buffer, '\n', buffered))) {
		n = read(connection, buffer + buffered, sizeof(buffer) - buffered);
		if (n <= 0)
			die("read");
		buffered += (size_t)n;
	}
	*newline = '\0';
	if (strstr(buffer, "\"error\":{")) {
		fprintf(stderr, "%s\n", buffer);
		exit(1);
	}
	buffered -= (size_t)(newline + 1 - buffer);
	memmove(buffer, newline + 1, buffered);
}

static void connect_to(const char *path, const char *workspace)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char line[4096];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof(address)) < 0)
		die(path);
	snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"workspace.open\",\"params\":{\"root\":"
		"\"%s\","
		"\"kind\":\"directory\"}}\n",
		workspace);
	send_line(line);
	receive_line();
}

static void send_call(int id)
{
	char line[256];

	snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tool.call\",\"params\":{\"tool\":"
		"\"run_command\","
		"\"arguments\":{\"command\":\"true\"}}}\n",
		id);
	send_line(line);
}

static void run_cloister(void)
{
	static int id;

	send_call(++id);
	receive_line();
}

static pid_t spawn(char *const argv[])
{
	static char *const env[] = {(char *)"PATH=/usr/bin:/bin", NULL};
	pid_t pid;

	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, env) != 0)
		die(argv[0]);
	return pid;
}

static void await(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) < 0 || status != 0)
		die("wait");
}

static char *const shell[] = {(char *)"/bin/sh", (char *)"-c", (char *)"true", NULL};
static char *const bubblewrap[] = {(char *)"/usr/bin/bwrap", (char *)"--unshare-all",
	(char *)"--ro-bind", (char *)"/usr", (char *)"/usr", (char *)"--symlink", (char *)"usr/bin",
	(char *)"/bin", (char *)"--symlink", (char *)"usr/lib", (char *)"/lib", (char *)"--symlink",
	(char *)"usr/lib64", (char *)"/lib64", (char *)"--proc", (char *)"/proc", (char *)"--dev",
	(char *)"/dev", (char *)"--tmpfs", (char *)"/tmp", (char *)"/bin/sh", (char *)"-c",
	(char *)"true", NULL};

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

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_one_in_flight(int n)
{
	struct candidate candidates[] = {
		{"posix_spawn /bin/sh -c true", run_bare, NULL},
		{"cloister run_command true", run_cloister, NULL},
		{"bwrap --unshare-all sh -c true", run_bubblewrap, NULL},
	};
	size_t count = sizeof(candidates) / sizeof(candidates[0]);
	double bare;

	if (access(bubblewrap[0], X_OK) < 0)
		count--;
	for (size_t c = 0; c < count; c++)
		candidates[c].times = calloc((size_t)n, sizeof(double));
	for (int i = -10; i < n; i++)
		for (size_t c = 0; c < count; c++) {
			double start = now_us();

			candidates[c].run();
			if (i >= 0)
				candidates[c].times[i] = now_us() - start;
		}
	for (size_t c = 0; c < count; c++)
		qsort(candidates[c].times, (size_t)n, sizeof(double), compare);
	bare = candidates[0].times[n / 2];
	printf("%-32s %6s %10s %10s %10s %10s %8s\n", "one in flight, us", "n", "p10", "median",
		"p90", "p99", "ratio");
	for (size_t c = 0; c < count; c++) {
		double *t = candidates[c].times;

		printf("%-32s %6d %10.0f %10.0f %10.0f %10.0f %8.2f\n", candidates[c].name, n,
			t[n / 10], t[n / 2], t[n * 9 / 10], t[n * 99 / 100], t[n / 2] / bare);
	}
}

static double rate_bare(int n)
{
	double start = now_us();
	int running = 0;

	for (int done = 0; done < n;) {
		while (running < IN_FLIGHT && done + running < n) {
			spawn(shell);
			running++;
		}
		if (wait(NULL) < 0)
			die("wait");
		running--;
		done++;
	}
	return n / (now_us() - start) * 1e6;
}

static double rate_cloister(int n)
{
	double start = now_us();
	int running = 0;

	for (int done = 0; done < n; done++) {
		while (running < IN_FLIGHT && done + running < n)
			send_call(1000000 + done + running++);
		receive_line();
		running--;
	}
	return n / (now_us() - start) * 1e6;
}

static void measure_rate(int n)
{
	enum { ROUNDS = 5 };
	double bare[ROUNDS], ours[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		bare[i] = rate_bare(n);
		ours[i] = rate_cloister(n);
	}
	qsort(bare, ROUNDS, sizeof(double), compare);
	qsort(ours, ROUNDS, sizeof(double), compare);
	printf("\n%d in flight, a second (median of %d rounds of %d; min and max)\n", IN_FLIGHT,
		ROUNDS, n);
	printf("%-32s %10.0f (%.0f %.0f)\n", "posix_spawn", bare[ROUNDS / 2], bare[0],
		bare[ROUNDS - 1]);
	printf("%-32s %10.0f (%.0f %.0f) %8.2f\n", "cloister", ours[ROUNDS / 2], ours[0],
		ours[ROUNDS - 1], ours[ROUNDS / 2] / bare[ROUNDS / 2]);
}

int main(int argc, char **argv)
{
	int n = argc > 3 ? atoi(argv[3]) : 500;

	if (argc < 3 || n < 10) {
		fprintf(stderr, "usage: bench_commands AGENT_SOCKET WORKSPACE [N]\n");
		return 2;
	}
	connect_to(argv[1], argv[2]);
	measure_one_in_flight(n);
	measure_rate(n);
	return 0;
}
