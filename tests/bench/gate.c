// SPDX-License-Identifier: Apache-2.0
/*
 * Measures calls through a gate (packaging/gate) beside calls to the agent socket itself, in turn.
 * tests/bench/gate starts all of it.
 *
 * usage: bench_gate [-n N] AGENT_SOCKET GATE_SOCKET WORKSPACE
 */
#include "tests/bench/bench.h"

#include <fcntl.h>

#define IN_FLIGHT 32
#define ROUNDS    9
#define SMALL     4096

static void send_read(const struct bench_server *server)
{
	static unsigned id;
	char line[256];
	int len = snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tool.call\",\"params\":{"
		"\"tool\":\"read_file\",\"arguments\":{\"path\":\"small\"},"
		"\"options\":{\"line_numbers\":false}}}\n",
		++id);

	bench_send(server, line, (size_t)len);
}

/* Returns calls a second. */
static double rate(struct bench_server *server, size_t calls)
{
	double start = bench_now_us();

	for (size_t sent = 0; sent < IN_FLIGHT; sent++)
		send_read(server);
	for (size_t done = 0; done < calls; done++) {
		bench_take_answer(server);
		if (done + IN_FLIGHT < calls)
			send_read(server);
	}
	return (double)calls / (bench_now_us() - start) * 1e6;
}

static double time_one(struct bench_server *server)
{
	double start = bench_now_us();

	send_read(server);
	bench_take_answer(server);
	return bench_now_us() - start;
}

static void make_file(const char *workspace)
{
	char path[4096], content[SMALL];
	int fd;

	snprintf(path, sizeof(path), "%s/small", workspace);
	memset(content, 'x', sizeof(content));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, content, sizeof(content)) != sizeof(content))
		bench_die(path);
	close(fd);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"the agent socket", "through a gate"};
	double *times[2], rates[2][ROUNDS];
	struct bench_server servers[2];
	size_t n = 2000;

	if (argc > 2 && strcmp(argv[1], "-n") == 0) {
		n = strtoul(argv[2], NULL, 10);
		argv += 2;
		argc -= 2;
	}
	if (argc != 4 || n < 100) {
		fprintf(stderr, "usage: bench_gate [-n N] AGENT_SOCKET GATE_SOCKET WORKSPACE\n");
		return 2;
	}
	make_file(argv[3]);
	for (size_t s = 0; s < 2; s++) {
		servers[s] = bench_connect(argv[1 + s], argv[3]);
		times[s] = calloc(n, sizeof(double));
		rate(&servers[s], n);
	}
	for (size_t i = 0; i < n; i++)
		for (size_t s = 0; s < 2; s++)
			times[(s + i) % 2][i] = time_one(&servers[(s + i) % 2]);
	for (size_t i = 0; i < ROUNDS; i++)
		for (size_t s = 0; s < 2; s++)
			rates[s][i] = rate(&servers[s], n);
	bench_row_head("read_file 4 KiB, one in flight, us");
	for (size_t s = 0; s < 2; s++)
		bench_sort(times[s], n);
	for (size_t s = 0; s < 2; s++)
		bench_row(names[s], times[s], n, times[0][n / 2]);
	printf("\n%d in flight, calls a second, %d rounds of %zu\n%-34s %8s %8s %8s %7s\n",
		IN_FLIGHT, ROUNDS, n, "", "min", "median", "max", "ratio");
	for (size_t s = 0; s < 2; s++)
		bench_sort(rates[s], ROUNDS);
	for (size_t s = 0; s < 2; s++)
		printf("%-34s %8.0f %8.0f %8.0f %7.2f\n", names[s], rates[s][0],
			rates[s][ROUNDS / 2], rates[s][ROUNDS - 1],
			rates[s][ROUNDS / 2] / rates[0][ROUNDS / 2]);
	return 0;
}
