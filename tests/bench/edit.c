// SPDX-License-Identifier: Apache-2.0
/*
 * Measures an edit of a file of 4 KiB beside a write_file call with the same content, interleaved,
 * and read_file of 1 MiB beside the digest alone that makes the file's version.
 *
 * usage: bench_edit [-n N] AGENT_SOCKET WORKSPACE
 *
 * The socket is that of a running cloisterd; run it as the user that cloisterd runs as. WORKSPACE
 * is an empty directory, in which the files are made.
 */
#include "tests/bench/bench.h"

#include <unistd.h>
#include <xxhash.h>

#define LINES      93 /* of 44 bytes: 4 KiB */
#define LINE       "int value = 17; return compute(a, b) + c;\\n"
#define READ_BYTES (1 << 20)
#define WARM_UP    20

#define BEGIN "{\"jsonrpc\":\"2.0\",\"params\":{\"arguments\":{"

static struct bench_server server;
static char line[1 << 20];

static double call(const char *tool, size_t len)
{
	static int id;
	double start = bench_now_us();

	len += (size_t)snprintf(line + len, sizeof(line) - len,
		"},\"options\":{\"durability\":\"fast\"},\"tool\":\"%s\"},\"id\":%d,"
		"\"method\":\"tool.call\"}\n",
		tool, ++id);
	bench_send(&server, line, len);
	bench_take_answer(&server);
	return bench_now_us() - start;
}

/* Writes the file @path with @mark as its middle line. */
static double write_file(const char *path, int mark)
{
	size_t len =
		(size_t)snprintf(line, sizeof(line), BEGIN "\"path\":\"%s\",\"content\":\"", path);

	for (int i = 0; i < LINES; i++)
		len += (size_t)(i == LINES / 2
					? snprintf(line + len, sizeof(line) - len, "mark %d\\n",
						  mark)
					: snprintf(line + len, sizeof(line) - len, "%s", LINE));
	len += (size_t)snprintf(line + len, sizeof(line) - len, "\"");
	return call("write_file", len);
}

/* Replaces the middle line of the file "edited". */
static double edit_file(int mark)
{
	size_t len = (size_t)snprintf(line, sizeof(line),
		BEGIN
		"\"path\":\"edited\",\"edits\":[{\"old\":\"mark %d\\n\",\"new\":\"mark %d\\n\"}]",
		mark - 1, mark);

	return call("edit_file", len);
}

static double read_file(void)
{
	return call("read_file", (size_t)snprintf(line, sizeof(line), BEGIN "\"path\":\"large\""));
}

static double digest(const char *content)
{
	double start = bench_now_us();
	volatile uint64_t low = XXH3_128bits(content, READ_BYTES).low64;

	(void)low;
	return bench_now_us() - start;
}

static double print_times(const char *name, double *times, int n, double of)
{
	double median;

	bench_sort(times, (size_t)n);
	median = times[n / 2];
	printf("| %s | %d | %.0f | %.0f | %.0f | %.3f |\n", name, n, times[n / 10], median,
		times[n * 9 / 10], median / (of > 0 ? of : median));
	return median;
}

static void print_head(const char *title, const char *last)
{
	printf("\n%s\n\n| | n | p10 | median | p90 | %s |\n|---|---|---|---|---|---|\n", title,
		last);
}

static void measure_edits(int n, double *first, double *second)
{
	double median;
	int mark = 1;

	(void)write_file("edited", mark);
	for (int i = -WARM_UP; i < n; i++) {
		/* The order changes, because each leaves the caches changed. */
		double before = i % 2 ? write_file("written", ++mark) : edit_file(++mark);
		double after = i % 2 ? edit_file(mark) : write_file("written", mark);

		if (i < 0)
			continue;
		first[i] = i % 2 ? before : after;
		second[i] = i % 2 ? after : before;
	}
	print_head("a file of 4 KiB, fast, us (target: 1.3 of the write)", "to the write");
	median = print_times("write_file", first, n, 0);
	(void)print_times("edit_file of one line", second, n, median);
}

static void measure_reads(int n, double *first, double *second)
{
	char *content = malloc(READ_BYTES);
	FILE *out = fopen("large", "w");
	double read_us, digest_us;

	if (!content || !out)
		bench_die("large");
	for (int i = 0; i < READ_BYTES; i++)
		content[i] = i % 64 == 63 ? '\n' : (char)('a' + i % 26);
	fwrite(content, 1, READ_BYTES, out);
	fclose(out);
	for (int i = -WARM_UP; i < n; i++) {
		double whole = read_file(), of_it = digest(content);

		if (i < 0)
			continue;
		first[i] = whole;
		second[i] = of_it;
	}
	print_head("a file of 1 MiB, us (target: a read takes 1.1 of one without a version)",
		"to the read");
	read_us = print_times("read_file", first, n, 0);
	digest_us = print_times("the digest of its version", second, n, read_us);
	printf("\na read takes %.3f of what it would take without the digest\n",
		read_us / (read_us - digest_us));
	free(content);
}

int main(int argc, char **argv)
{
	int n = 500, option;
	double *first, *second;

	while ((option = getopt(argc, argv, "n:")) != -1)
		n = option == 'n' ? atoi(optarg) : 0;
	if (argc - optind != 2 || n < 20) {
		fprintf(stderr, "usage: bench_edit [-n N] AGENT_SOCKET WORKSPACE\n");
		return 2;
	}
	first = calloc((size_t)n, sizeof(double));
	second = calloc((size_t)n, sizeof(double));
	server = bench_connect(argv[optind], argv[optind + 1]);
	if (!first || !second || chdir(argv[optind + 1]) < 0)
		bench_die(argv[optind + 1]);
	measure_edits(n, first, second);
	measure_reads(n, first, second);
	free(first);
	free(second);
	return 0;
}
