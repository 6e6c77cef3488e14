// SPDX-License-Identifier: Apache-2.0
/*
 * Measures the file tools in the client, interleaved in one run with a minimal server (one_hop.c),
 * with the same system calls made directly, and with the MCP filesystem server if its command is
 * given. Only the ratios are meaningful.
 *
 * usage: bench_files [-n N] [-r REFERENCE] [-p PID] AGENT_SOCKET WORKSPACE [MCP_COMMAND ...]
 *
 * PID is the process id of cloisterd: then the processor time of a call is measured, too, over 100
 * times N calls.
 * The socket is that of a running cloisterd; run it as the user that cloisterd runs as. WORKSPACE
 * is an empty directory, in which the files are made. The MCP command is given WORKSPACE as its
 * last argument.
 */
#include "tests/bench/bench.h"
#include "tests/bench/cpu_time.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>

#define LINE      "int value = 17; return compute(a, b) + c;\n"
#define SMALL     4096
#define LARGE     (1 << 20)
#define IN_FLIGHT 32
#define ENTRIES   1000
#define ROUNDS    9
#define BATCH     2000 /* calls of one round of a rate */
#define WARM_UP   10

extern char **environ;

enum { CLOISTER, REFERENCE, TWO_HOPS, MCP, SERVERS };

static struct bench_server servers[SERVERS];
static pid_t pids[SERVERS]; /* of the processes that serve; 0: not known */
static size_t n_servers;
static const char *workspace;
static int workspace_fd;
static char content[SMALL * 2]; /* SMALL bytes of file content, escaped for a JSON string */

static struct bench_server *add_server(struct bench_server server)
{
	servers[n_servers] = server;
	return &servers[n_servers++];
}

static bool is_cloister(const struct bench_server *server)
{
	return server == &servers[CLOISTER];
}

static struct bench_server *start(const char *name, char **argv)
{
	posix_spawn_file_actions_t actions;
	int down[2], up[2];
	pid_t pid;

	if (pipe2(down, O_CLOEXEC) < 0 || pipe2(up, O_CLOEXEC) < 0)
		bench_die("pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
		bench_die(argv[0]);
	close(down[0]);
	close(up[1]);
	pids[n_servers] = pid;
	return add_server(bench_server(name, up[0], down[1]));
}

static void start_mcp(char **argv)
{
	static const char initialize[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":"
		"{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
		"\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";
	static const char initialized[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
	struct bench_server *server = start("MCP filesystem server", argv);

	bench_send(server, initialize, sizeof(initialize) - 1);
	bench_take_answer(server);
	bench_send(server, initialized, sizeof(initialized) - 1);
}

/* One kind of call: its tool and arguments for cloister and for an MCP server. */
struct request {
	const char *tool, *options, *mcp_tool;
	const char *arguments; /* a format with one %s: the workspace's path and a slash, or "" */
	bool with_content;
};

static void send_request(const struct bench_server *server, const struct request *request)
{
	static char line[SMALL * 4], arguments[SMALL * 3];
	static int id = 100;
	char prefix[512] = "";
	size_t len;

	if (!is_cloister(server))
		snprintf(prefix, sizeof(prefix), "%s/", workspace);
	len = (size_t)snprintf(
		arguments, sizeof(arguments), "{\"path\":\"%s%s\"", prefix, request->arguments);
	if (request->with_content)
		len += (size_t)snprintf(
			arguments + len, sizeof(arguments) - len, ",\"content\":\"%s\"", content);
	snprintf(arguments + len, sizeof(arguments) - len, "}");
	if (is_cloister(server))
		len = (size_t)snprintf(line, sizeof(line),
			"{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tool.call\",\"params\":"
			"{\"tool\":\"%s\",\"arguments\":%s,\"options\":{%s}}}\n",
			++id, request->tool, arguments, request->options);
	else
		len = (size_t)snprintf(line, sizeof(line),
			"{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":"
			"{\"name\":\"%s\",\"arguments\":%s}}\n",
			++id, request->mcp_tool, arguments);
	bench_send(server, line, len);
}

static void list_directly(void)
{
	static char batch[1 << 16];
	int fd = openat(workspace_fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t len;

	while ((len = getdents64(fd, batch, sizeof(batch))) > 0)
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *dirent = (const void *)(batch + at);
			struct stat st;

			if (fstatat(fd, dirent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
				bench_die("fstatat");
			at += dirent->d_reclen;
		}
	close(fd);
}

/* Replaces a file by write and rename; with @durable also by fsync(2). */
static void write_directly(bool durable)
{
	static char data[SMALL];
	int fd = openat(workspace_fd, "direct.tmp", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, data, sizeof(data)) != sizeof(data) || (durable && fsync(fd) < 0) ||
		close(fd) < 0 || renameat(workspace_fd, "direct.tmp", workspace_fd, "direct") < 0)
		bench_die("write");
	if (durable && fsync(workspace_fd) < 0)
		bench_die("fsync");
}

static void write_durably(void)
{
	write_directly(true);
}

static void write_fast(void)
{
	write_directly(false);
}

struct measurement {
	const char *name;
	struct request request;
	void (*direct)(void); /* the reference instead of the one-hop server; may be NULL */
	const char *direct_name;
	double target; /* target of the ratio, for the report; 0: none */
	int divisor;   /* N is divided by it, to measure slow calls less often */
};

static double time_one(struct bench_server *server, const struct request *request)
{
	double start = bench_now_us();

	send_request(server, request);
	bench_take_answer(server);
	return bench_now_us() - start;
}

static double time_direct(void (*direct)(void))
{
	double start = bench_now_us();

	direct();
	return bench_now_us() - start;
}

static void print_times(const char *name, double *times, int n, double of)
{
	bench_sort(times, (size_t)n);
	printf("| %s | %d | %.1f | %.1f | %.1f | %.1f | %.2f |\n", name, n, times[n / 10],
		times[n / 2], times[n * 9 / 10], times[n * 99 / 100], times[n / 2] / of);
}

static void measure(const struct measurement *measurement, int n)
{
	const struct request *request = &measurement->request;
	/* One column for each server or its stand-in, and one for the additional time of cloister.
	 */
	enum { LONGER = SERVERS, COLUMNS };
	double *times[COLUMNS], median;
	size_t candidates[SERVERS] = {CLOISTER, REFERENCE}, n_candidates = 2;

	if (!measurement->direct)
		candidates[n_candidates++] = TWO_HOPS;
	if (n_servers > MCP && request->mcp_tool)
		candidates[n_candidates++] = MCP;
	n /= measurement->divisor;
	for (size_t c = 0; c < COLUMNS; c++)
		times[c] = calloc((size_t)n, sizeof(double));
	for (int i = -WARM_UP; i < n; i++) {
		double taken[SERVERS] = {0};

		/* The order changes, because each candidate leaves the caches changed. */
		for (size_t turn = 0; turn < n_candidates; turn++) {
			size_t c = candidates[(turn + (size_t)(i + WARM_UP)) % n_candidates];

			if (c == REFERENCE && measurement->direct)
				taken[c] = time_direct(measurement->direct);
			else
				taken[c] = time_one(&servers[c], request);
		}
		if (i < 0)
			continue;
		for (size_t c = 0; c < SERVERS; c++)
			times[c][i] = taken[c];
		times[LONGER][i] = taken[CLOISTER] - taken[REFERENCE];
	}
	printf("\n%s, one in flight, us", measurement->name);
	if (measurement->target > 0)
		printf(" (target: %.2f of the reference)", measurement->target);
	printf("\n\n| | n | p10 | median | p90 | p99 | to the reference |\n"
	       "|---|---|---|---|---|---|---|\n");
	bench_sort(times[REFERENCE], (size_t)n);
	median = times[REFERENCE][n / 2];
	if (measurement->direct)
		print_times(measurement->direct_name, times[REFERENCE], n, median);
	for (size_t i = 0; i < n_candidates; i++)
		if (candidates[i] != REFERENCE || !measurement->direct)
			print_times(servers[candidates[i]].name, times[candidates[i]], n, median);
	bench_sort(times[LONGER], (size_t)n);
	printf("\nmedian of what cloister took longer in each pair: %.1f us\n",
		times[LONGER][n / 2]);
	for (size_t c = 0; c < COLUMNS; c++)
		free(times[c]);
}

static double rate(struct bench_server *server, const struct request *request, int calls)
{
	double start = bench_now_us();

	for (int sent = 0; sent < IN_FLIGHT; sent++)
		send_request(server, request);
	for (int done = 0; done < calls; done++) {
		bench_take_answer(server);
		if (done + IN_FLIGHT < calls)
			send_request(server, request);
	}
	return calls / (bench_now_us() - start) * 1e6;
}

static void measure_rate(const struct measurement *measurement)
{
	double rates[SERVERS][ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		for (size_t s = 0; s < n_servers; s++)
			rates[s][i] = rate(
				&servers[s], &measurement->request, s == MCP ? BATCH / 10 : BATCH);
	printf("\n%s, %d in flight, calls a second, %d rounds of %d\n\n"
	       "| | min | median | max | to the reference |\n|---|---|---|---|---|\n",
		measurement->name, IN_FLIGHT, ROUNDS, BATCH);
	for (size_t s = 0; s < n_servers; s++)
		bench_sort(rates[s], ROUNDS);
	for (size_t s = 0; s < n_servers; s++)
		printf("| %s | %.0f | %.0f | %.0f | %.2f |\n", servers[s].name, rates[s][0],
			rates[s][ROUNDS / 2], rates[s][ROUNDS - 1],
			rates[s][ROUNDS / 2] / rates[REFERENCE][ROUNDS / 2]);
}

/* Processor time of one call in microseconds, the servers' beside the client's. */
struct cpu_time {
	double server, client;
};

static double cpu_time_all(const struct cpu_time *time)
{
	return time->server + time->client;
}

static int compare_cpu_times(const void *a, const void *b)
{
	double x = cpu_time_all(a), y = cpu_time_all(b);

	return (x > y) - (x < y);
}

static struct cpu_time cpu_time_of_calls(
	size_t s, const struct request *request, int calls, bool many)
{
	struct cpu_time before = {cpu_time_of_tree_us(pids[s]), cpu_time_own_us()};

	if (many)
		rate(&servers[s], request, calls);
	else
		for (int i = 0; i < calls; i++)
			time_one(&servers[s], request);
	return (struct cpu_time){(cpu_time_of_tree_us(pids[s]) - before.server) / calls,
		(cpu_time_own_us() - before.client) / calls};
}

/* Beside the bare second hop, which has as many processes as cloister. */
static void measure_cpu_time(const struct measurement *measurement, int calls, bool many)
{
	struct cpu_time times[SERVERS][ROUNDS];
	double reference;

	for (int i = 0; i < ROUNDS; i++)
		for (size_t s = 0; s <= TWO_HOPS; s++)
			times[s][i] =
				cpu_time_of_calls(s, &measurement->request, calls / ROUNDS, many);
	printf("\n%s, %d in flight, processor time of a call in us, %d rounds of %d\n\n"
	       "| | min | median | max | of it the client | to the second hop |\n"
	       "|---|---|---|---|---|---|\n",
		measurement->name, many ? IN_FLIGHT : 1, ROUNDS, calls / ROUNDS);
	for (size_t s = 0; s <= TWO_HOPS; s++)
		qsort(times[s], ROUNDS, sizeof(times[s][0]), compare_cpu_times);
	reference = cpu_time_all(&times[TWO_HOPS][ROUNDS / 2]);
	for (size_t s = 0; s <= TWO_HOPS; s++) {
		const struct cpu_time *median = &times[s][ROUNDS / 2];

		printf("| %s | %.1f | %.1f | %.1f | %.1f | %.2f |\n", servers[s].name,
			cpu_time_all(&times[s][0]), cpu_time_all(median),
			cpu_time_all(&times[s][ROUNDS - 1]), median->client,
			cpu_time_all(median) / reference);
	}
}

static void make_file(const char *name, size_t size)
{
	FILE *file = fdopen(openat(workspace_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644), "w");
	size_t line_len = strlen(LINE);

	if (!file)
		bench_die(name);
	for (size_t at = 0; at < size; at += line_len)
		fwrite(LINE, 1, size - at < line_len ? size - at : line_len, file);
	if (fclose(file) != 0)
		bench_die(name);
}

static void make_tree(void)
{
	char name[64];
	size_t len = 0;

	workspace_fd = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (workspace_fd < 0)
		bench_die(workspace);
	make_file("small", SMALL);
	make_file("large", LARGE);
	(void)mkdirat(workspace_fd, "d", 0755);
	for (int i = 0; i < ENTRIES; i++) {
		snprintf(name, sizeof(name), "d/entry-%04d.c", i);
		make_file(name, (size_t)i);
	}
	for (size_t at = 0; at + strlen(LINE) <= SMALL; at += strlen(LINE))
		len += (size_t)snprintf(content + len, sizeof(content) - len, "%.*s\\n",
			(int)strlen(LINE) - 1, LINE);
}

#define PLAIN "\"line_numbers\":false"

static const struct measurement measurements[] = {
	{"read_file 4 KiB", {"read_file", PLAIN, "read_text_file", "small", false}, NULL, NULL,
		1.75, 1},
	{"read_file 4 KiB with line numbers", {"read_file", "", "read_text_file", "small", false},
		NULL, NULL, 0, 1},
	{"read_file 1 MiB", {"read_file", PLAIN, "read_text_file", "large", false}, NULL, NULL, 1.2,
		5},
	{"read_file 1 MiB with line numbers", {"read_file", "", "read_text_file", "large", false},
		NULL, NULL, 0, 5},
	{"list_directory 1,000 entries", {"list_directory", "", "list_directory", "d", false},
		list_directly, "getdents64 and fstatat", 1.5, 2},
	{"write_file 4 KiB, durable (target: at most 60 us longer)",
		{"write_file", "\"durability\":\"durable\"", "write_file", "written", true},
		write_durably, "open, write, fsync, rename, fsync of the directory", 0, 2},
	{"write_file 4 KiB, fast (target: 350 us)",
		{"write_file", "\"durability\":\"fast\"", "write_file", "written", true},
		write_fast, "open, write, rename", 0, 2},
};

int main(int argc, char **argv)
{
	char beside[4096], *reference = NULL, *reference_argv[4] = {NULL}, *mcp_argv[32];
	char two[] = "two";
	int n = 1000, option, words;

	while ((option = getopt(argc, argv, "+n:r:p:")) != -1) {
		if (option == 'n')
			n = atoi(optarg);
		else if (option == 'p')
			pids[CLOISTER] = atoi(optarg);
		else
			reference = option == 'r' ? optarg : NULL;
	}
	words = argc - optind - 2;
	if (words < 0 || words > 30 || n < 100) {
		fprintf(stderr,
			"usage: bench_files [-n N] [-r REFERENCE] [-p PID] AGENT_SOCKET WORKSPACE "
			"[MCP_COMMAND ...]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	workspace = argv[optind + 1];
	make_tree();
	add_server(bench_connect(argv[optind], workspace));
	snprintf(beside, sizeof(beside), "%s/bench_one_hop", dirname(argv[0]));
	reference_argv[0] = reference ? reference : beside;
	reference_argv[1] = argv[optind + 1];
	start(reference ? reference : "one hop, least server", reference_argv);
	reference_argv[0] = beside;
	reference_argv[2] = two;
	start("the same behind a bare second hop", reference_argv);
	if (words > 0) {
		memcpy(mcp_argv, argv + optind + 2, (size_t)words * sizeof(char *));
		mcp_argv[words] = argv[optind + 1];
		mcp_argv[words + 1] = NULL;
		start_mcp(mcp_argv);
	}
	measure_rate(&measurements[0]);
	if (pids[CLOISTER] > 0) {
		measure_cpu_time(&measurements[0], 100 * n, false);
		measure_cpu_time(&measurements[0], 100 * n, true);
		measure_cpu_time(&measurements[2], n, false);
	}
	for (size_t i = 0; i < sizeof(measurements) / sizeof(measurements[0]); i++)
		measure(&measurements[i], n);
	return 0;
}
