// SPDX-License-Identifier: Apache-2.0
/*
 * Measures a patch of 20 files of 4 KiB, of which it changes a line each, beside 20 write_file
 * calls with the same contents, one after the other, interleaved in one run.
 *
 * usage: bench_patch [-n N] AGENT_SOCKET WORKSPACE
 *
 * The socket is that of a running cloisterd; run it as the user that cloisterd runs as. WORKSPACE
 * is an empty directory, in which the files are made.
 */
#include "tests/bench/bench.h"

#include <sys/stat.h>
#include <unistd.h>

#define FILES   20
#define LINES   93 /* of 44 bytes: 4 KiB */
#define LINE    "int value = 17; return compute(a, b) + c;\\n"
#define WARM_UP 10
#define TARGET  1.1

static struct bench_server server;
static char line[1 << 20];

static void call(const char *tool, const char *durability, size_t len)
{
	static int id;

	len += (size_t)snprintf(line + len, sizeof(line) - len,
		"\"},\"options\":{\"durability\":\"%s\"},\"tool\":\"%s\"},\"id\":%d,"
		"\"method\":\"tool.call\"}\n",
		durability, tool, ++id);
	bench_send(&server, line, len);
	bench_take_answer(&server);
}

#define BEGIN "{\"jsonrpc\":\"2.0\",\"params\":{\"arguments\":{"

/* Writes each file with @mark as its middle line. */
static double write_all(const char *durability, int mark)
{
	double start = bench_now_us();

	for (int file = 0; file < FILES; file++) {
		size_t len = (size_t)snprintf(
			line, sizeof(line), BEGIN "\"path\":\"w/%d\",\"content\":\"", file);

		for (int i = 0; i < LINES; i++)
			len += (size_t)(i == LINES / 2 ? snprintf(line + len, sizeof(line) - len,
								 "mark %d\\n", mark)
						       : snprintf(line + len, sizeof(line) - len,
								 "%s", LINE));
		call("write_file", durability, len);
	}
	return bench_now_us() - start;
}

/* Replaces the middle line of each file, with three lines of context on both sides. */
static double patch_all(const char *durability, int mark)
{
	double start = bench_now_us();
	size_t len = (size_t)snprintf(line, sizeof(line), BEGIN "\"patch\":\"*** Begin Patch\\n");

	for (int file = 0; file < FILES; file++)
		len += (size_t)snprintf(line + len, sizeof(line) - len,
			"*** Update File: p/%d\\n@@\\n %s %s %s-mark %d\\n+mark %d\\n %s %s %s",
			file, LINE, LINE, LINE, mark - 1, mark, LINE, LINE, LINE);
	len += (size_t)snprintf(line + len, sizeof(line) - len, "*** End Patch");
	call("apply_patch", durability, len);
	return bench_now_us() - start;
}

static void make_files(void)
{
	char name[4096];

	for (int file = 0; file < FILES; file++) {
		FILE *out;

		snprintf(name, sizeof(name), "p/%d", file);
		out = fopen(name, "w");
		if (!out)
			bench_die(name);
		for (int i = 0; i < LINES; i++)
			fputs(i == LINES / 2 ? "mark 0\n"
					     : "int value = 17; return compute(a, b) + c;\n",
				out);
		fclose(out);
	}
}

static void print_times(const char *name, double *times, int n, double of)
{
	bench_sort(times, (size_t)n);
	printf("| %s | %d | %.0f | %.0f | %.0f | %.2f |\n", name, n, times[n / 10], times[n / 2],
		times[n * 9 / 10], times[n / 2] / of);
}

static void measure(const char *durability, int n, int *mark)
{
	double *writes = calloc((size_t)n, sizeof(double)),
	       *patches = calloc((size_t)n, sizeof(double));
	double median;

	for (int i = -WARM_UP; i < n; i++) {
		/* The order changes, because each leaves the caches changed. */
		double first =
			i % 2 ? write_all(durability, ++*mark) : patch_all(durability, ++*mark);
		double second = i % 2 ? patch_all(durability, *mark) : write_all(durability, *mark);

		if (i < 0)
			continue;
		writes[i] = i % 2 ? first : second;
		patches[i] = i % 2 ? second : first;
	}
	printf("\n20 files of 4 KiB, %s, us (target: %.1f of the writes)\n\n"
	       "| | n | p10 | median | p90 | to the writes |\n|---|---|---|---|---|---|\n",
		durability, TARGET);
	bench_sort(writes, (size_t)n);
	median = writes[n / 2];
	print_times("20 write_file", writes, n, median);
	print_times("apply_patch of 20 files", patches, n, median);
	free(writes);
	free(patches);
}

int main(int argc, char **argv)
{
	int n = 300, option, mark = 0;

	while ((option = getopt(argc, argv, "n:")) != -1)
		n = option == 'n' ? atoi(optarg) : 0;
	if (argc - optind != 2 || n < 20) {
		fprintf(stderr, "usage: bench_patch [-n N] AGENT_SOCKET WORKSPACE\n");
		return 2;
	}
	server = bench_connect(argv[optind], argv[optind + 1]);
	if (chdir(argv[optind + 1]) < 0 || mkdir("p", 0755) < 0)
		bench_die(argv[optind + 1]);
	make_files();
	measure("fast", n, &mark);
	measure("durable", n / 3, &mark);
	return 0;
}
