// SPDX-License-Identifier: Apache-2.0
/*
 * Measures what a key costs a call. tests/bench/keys starts the services for it.
 *
 * usage: bench_keyed [-n N] [-r ROUNDS] pairs AGENT_SOCKET WORKSPACE
 *        bench_keyed [-n N] [-r ROUNDS] flight AGENT_SOCKET WORKSPACE
 *        bench_keyed [-n N] fill AGENT_SOCKET WORKSPACE
 *
 * pairs: `true` with a key beside `true` without one, interleaved. flight: calls with a key, 32 in
 * flight, beside appends to a file of WORKSPACE that each wait for the disk. fill: makes N keys.
 */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <inttypes.h>

#define WARM_UP   20
#define IN_FLIGHT 32
#define RECORDS   700 /* bytes that a call's beginning and its result take in the journal */

static struct bench_server server;

/* Sends a call with a key of its own, or without one. */
static void send_call(const char *call, bool keyed)
{
	static uint64_t number;
	char line[512], options[64] = "";
	int len;

	number++;
	if (keyed)
		snprintf(options, sizeof(options), ",\"options\":{\"key\":\"b%d-%" PRIu64 "\"}",
			(int)getpid(), number);
	len = snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":%" PRIu64 ",\"method\":\"tool.call\","
		"\"params\":{%s%s}}\n",
		number, call, options);
	bench_send(&server, line, (size_t)len);
}

#define RUN_TRUE  "\"tool\":\"run_command\",\"arguments\":{\"command\":\"true\"}"
#define READ_FILE "\"tool\":\"read_file\",\"arguments\":{\"path\":\"bench-file\"}"

static double run_true(bool keyed)
{
	double start = bench_now_us();

	send_call(RUN_TRUE, keyed);
	bench_take_answer(&server);
	return bench_now_us() - start;
}

static void print_times(const char *name, const double *times, size_t n, double of)
{
	printf("%-34s %6zu %8.0f %8.0f %8.0f %8.0f %7.3f\n", name, n, times[n / 10], times[n / 2],
		times[n * 9 / 10], times[n * 99 / 100], times[n / 2] / of);
}

static void measure_pairs(size_t n)
{
	double *without = calloc(n, sizeof(double)), *with = calloc(n, sizeof(double)),
	       *more = calloc(n, sizeof(double));

	if (!without || !with || !more)
		bench_die("calloc");
	for (size_t i = 0; i < WARM_UP; i++)
		(void)run_true(i % 2);
	for (size_t i = 0; i < n; i++) {
		/* The order changes, because each leaves the caches changed. */
		double first = run_true(i % 2), second = run_true(!(i % 2));

		without[i] = i % 2 ? second : first;
		with[i] = i % 2 ? first : second;
		more[i] = with[i] - without[i];
	}
	bench_sort(without, n);
	bench_sort(with, n);
	bench_sort(more, n);
	bench_row_head("one in flight, us");
	print_times("run_command true", without, n, without[n / 2]);
	print_times("run_command true with a key", with, n, without[n / 2]);
	printf("median of what a key took longer in each pair: %.1f us\n", more[n / 2]);
	free(without);
	free(with);
	free(more);
}

/* Returns the calls with a key that are answered in a second. */
static double rate_in_flight(size_t n)
{
	double start = bench_now_us();

	for (size_t i = 0; i < n + IN_FLIGHT; i++) {
		if (i < n)
			send_call(READ_FILE, true);
		if (i >= IN_FLIGHT)
			bench_take_answer(&server);
	}
	return (double)n * 1e6 / (bench_now_us() - start);
}

/* Returns the appends, each of which waits for the disk, that are made in a second. */
static double rate_of_appends(int fd, size_t n)
{
	static const char records[RECORDS] = "";
	double start = bench_now_us();

	for (size_t i = 0; i < n; i++)
		if (write(fd, records, sizeof(records)) < 0 || fdatasync(fd) < 0)
			bench_die("append");
	return (double)n * 1e6 / (bench_now_us() - start);
}

static void measure_flight(size_t n)
{
	int fd = open("bench-appends", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	double appends, calls;

	if (fd < 0)
		bench_die("bench-appends");
	(void)rate_in_flight(IN_FLIGHT);
	appends = rate_of_appends(fd, n);
	calls = rate_in_flight(n);
	printf("%zu appends with fdatasync, one by one: %.0f a second; "
	       "%zu calls with a key, %d in flight: %.0f a second, %.2f of them\n",
		n, appends, n, IN_FLIGHT, calls, calls / appends);
	close(fd);
}

static void make_file(void)
{
	int fd = open("bench-file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, "text\n", 5) != 5 || close(fd) < 0)
		bench_die("bench-file");
}

int main(int argc, char **argv)
{
	int n = 700, rounds = 3, option;
	const char *what;

	while ((option = getopt(argc, argv, "n:r:")) != -1) {
		if (option == 'n')
			n = atoi(optarg);
		else
			rounds = option == 'r' ? atoi(optarg) : 0;
	}
	what = argc - optind == 3 ? argv[optind] : "";
	if (n < 20 || rounds < 1 || !strstr(" pairs flight fill ", what) || !*what) {
		fprintf(stderr, "usage: bench_keyed [-n N] [-r ROUNDS] pairs|flight|fill "
				"AGENT_SOCKET WORKSPACE\n");
		return 2;
	}
	server = bench_connect(argv[optind + 1], argv[optind + 2]);
	if (chdir(argv[optind + 2]) < 0)
		bench_die(argv[optind + 2]);
	make_file();
	if (strcmp(what, "fill") == 0)
		(void)rate_in_flight((size_t)n);
	for (int round = 0; round < rounds && strcmp(what, "fill") != 0; round++) {
		if (strcmp(what, "pairs") == 0)
			measure_pairs((size_t)n);
		else
			measure_flight((size_t)n);
	}
	return 0;
}
