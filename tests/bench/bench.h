/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the benchmarks: a clock, a client of cloisterd, and rows of figures. */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BENCH_BUFFER (8 << 20)

/* A server that answers each line with a line. */
struct bench_server {
	const char *name;
	int in, out;
	char *buffer;
	size_t buffered;
};

static inline double bench_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static inline _Noreturn void bench_die(const char *what)
{
	perror(what);
	exit(1);
}

static inline void bench_send(const struct bench_server *server, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(server->out, data, len);

		if (n <= 0)
			bench_die(server->name);
		data += n;
		len -= (size_t)n;
	}
}

/* Returns the next line without its newline. It is valid until bench_drop_line(). */
static inline char *bench_receive(struct bench_server *server, size_t *ret_len)
{
	size_t scanned = 0;
	char *newline;

	if (!server->buffer)
		bench_die(server->name);
	while (!(newline = memchr(server->buffer + scanned, '\n', server->buffered - scanned))) {
		ssize_t n;

		scanned = server->buffered;
		n = read(server->in, server->buffer + server->buffered,
			BENCH_BUFFER - server->buffered);
		if (n <= 0)
			bench_die(server->name);
		server->buffered += (size_t)n;
	}
	*newline = '\0';
	*ret_len = (size_t)(newline - server->buffer);
	return server->buffer;
}

static inline void bench_drop_line(struct bench_server *server, size_t len)
{
	server->buffered -= len + 1;
	memmove(server->buffer, server->buffer + len + 1, server->buffered);
}

/* Reads one answer of the server, and ends the program if it is an error. */
static inline void bench_take_answer(struct bench_server *server)
{
	size_t len;
	char *line = bench_receive(server, &len);

	/* Only short answers are searched for an error; MCP's isError is near the end. */
	if ((len < 4096 && strstr(line, "\"error\":{")) ||
		strstr(line + (len > 64 ? len - 64 : 0), "\"isError\":true")) {
		fprintf(stderr, "%s: %.300s\n", server->name, line);
		exit(1);
	}
	bench_drop_line(server, len);
}

static inline struct bench_server bench_server(const char *name, int in, int out)
{
	struct bench_server server = {name, in, out, malloc(BENCH_BUFFER), 0};

	if (!server.buffer)
		bench_die("malloc");
	return server;
}

/* Connects to the cloisterd at @path and opens @workspace. */
static inline struct bench_server bench_connect(const char *path, const char *workspace)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct bench_server server = bench_server("cloister", fd, fd);
	char line[4096];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		bench_die(path);
	snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"workspace.open\",\"params\":{\"root\":"
		"\"%s\",\"kind\":\"directory\"}}\n",
		workspace);
	bench_send(&server, line, strlen(line));
	bench_take_answer(&server);
	return server;
}

static inline int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline void bench_sort(double *times, size_t n)
{
	qsort(times, n, sizeof(*times), bench_compare);
}

static inline void bench_row_head(const char *title)
{
	printf("%-34s %6s %8s %8s %8s %8s %7s\n", title, "n", "p10", "median", "p90", "p99",
		"ratio");
}

/* Prints a row for @times, which are sorted. The ratio is that of the medians. */
static inline void bench_row(const char *name, const double *times, size_t n, double reference)
{
	printf("%-34s %6zu %8.0f %8.0f %8.0f %8.0f %7.2f\n", name, n, times[n / 10], times[n / 2],
		times[n * 9 / 10], times[n * 99 / 100], times[n / 2] / reference);
}
