// SPDX-License-Identifier: Apache-2.0
/*
 * Opens many workspaces. Measures the memory of each, the times to open and to close one, and how
 * calls in one workspace slow down with the number of others. Openings are interleaved with the
 * bare cells of bare_cell.h.
 *
 * usage: bench_scale [-u UID] [-g GID] [-n WORKSPACES] [-k CELLS_KEPT] AGENT_SOCKET DIRECTORY
 *
 * With -k, cloisterd keeps so many cells without a call. Then it measures the memory of an open
 * workspace without a cell, and a call in one, and no bare cells.
 *
 * DIRECTORY is empty and belongs to the user that cloisterd runs as. Run the benchmark as that
 * user, or as root with -u and -g: it then becomes that user, and a process that stays root sums up
 * the memory of cloister's processes, which only root may read.
 */
#include "tests/bench/bare_cell.h"

#include <ctype.h>
#include <dirent.h>
#include <grp.h>

#define PER_CONNECTION 200
#define READS          2000
#define PAUSE_US       50000 /* between openings, so that a spare cell is ready for each */
#define WARM           200

static const char *socket_path, *directory;
static int n_workspaces = 1000, n_kept;
static struct bench_server *connections;
static double *cold, *bare, *times;
static int program = -1;

/* Memory */

static const char *const meminfo_names[] = {
	"Slab:", "KernelStack:", "PageTables:", "Percpu:", "AnonPages:", "Shmem:"};
#define MEMINFO (sizeof(meminfo_names) / sizeof(*meminfo_names))

struct memory {
	long kib[MEMINFO];
	long workers, files, daemon; /* PSS, KiB */
	long n_workers, n_files;
};

static void read_meminfo(struct memory *memory)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char name[64];
	long value;

	if (!file)
		bench_die("meminfo");
	while (fscanf(file, "%63s %ld %*[^\n]", name, &value) == 2)
		for (size_t i = 0; i < MEMINFO; i++)
			if (strcmp(name, meminfo_names[i]) == 0)
				memory->kib[i] = value;
	fclose(file);
}

static long pss_of(const char *pid)
{
	char path[300], line[256];
	long pss = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/smaps_rollup", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Pss: %ld", &pss) == 1)
			break;
	if (file)
		fclose(file);
	return pss;
}

static bool is_of(const char *pid, uid_t uid, char *name, size_t size)
{
	char path[300];
	struct stat stat_buf;
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	if (stat(path, &stat_buf) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	ok = fgets(path, sizeof(path), file) && sscanf(path, "Name: %255[^\n]", name) == 1;
	while (ok && fgets(path, sizeof(path), file)) {
		unsigned found;

		if (sscanf(path, "Uid: %u", &found) == 1) {
			ok = found == uid;
			break;
		}
	}
	fclose(file);
	name[size - 1] = '\0';
	return ok;
}

/* Sums up cloister's processes of @uid. Without root, the counts are right and the memory is 0. */
static void read_processes(uid_t uid, struct memory *memory)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char name[256];

	while (proc && (entry = readdir(proc))) {
		if (!isdigit(entry->d_name[0]) || !is_of(entry->d_name, uid, name, sizeof(name)))
			continue;
		if (strcmp(name, "cloister-worker") == 0) {
			memory->workers += pss_of(entry->d_name);
			memory->n_workers++;
		} else if (strcmp(name, "cloister-files") == 0) {
			memory->files += pss_of(entry->d_name);
			memory->n_files++;
		} else if (strcmp(name, "cloisterd") == 0) {
			memory->daemon += pss_of(entry->d_name);
		}
	}
	if (proc)
		closedir(proc);
}

/* Runs in the process that stays root: answers each byte on @fd with the present memory. */
static void serve_memory(int fd, uid_t uid)
{
	char byte;

	while (read(fd, &byte, 1) == 1) {
		struct memory memory = {0};

		read_meminfo(&memory);
		read_processes(uid, &memory);
		if (write(fd, &memory, sizeof(memory)) != sizeof(memory))
			break;
	}
}

static int memory_fd = -1;

static struct memory look_at_memory(void)
{
	struct memory memory;

	if (write(memory_fd, "m", 1) != 1 ||
		read(memory_fd, &memory, sizeof(memory)) != sizeof(memory))
		bench_die("memory");
	return memory;
}

/* Calls */

static void request(struct bench_server *server, const char *line)
{
	bench_send(server, line, strlen(line));
	bench_take_answer(server);
}

static struct bench_server connect_only(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		bench_die(socket_path);
	return bench_server("cloister", fd, fd);
}

static double timed_us(struct bench_server *server, const char *line)
{
	double began = bench_now_us();

	request(server, line);
	return bench_now_us() - began;
}

static double open_us(struct bench_server *server, int i)
{
	char line[512];

	snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"workspace.open\",\"params\":{\"root\":"
		"\"%s/%d\"}}\n",
		directory, i);
	return timed_us(server, line);
}

static void close_workspace(struct bench_server *server, int i)
{
	char line[512];

	snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"workspace.close\",\"params\":{"
		"\"workspace\":\"%s/%d\"}}\n",
		directory, i);
	request(server, line);
}

static double read_us(struct bench_server *server, int i)
{
	char line[512];

	snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\",\"params\":{\"workspace\":"
		"\"%s/%d\",\"tool\":\"read_file\",\"arguments\":{\"path\":\"f\"}}}\n",
		directory, i);
	return timed_us(server, line);
}

static struct bench_server *connection_of(int i)
{
	return &connections[i / PER_CONNECTION];
}

static void make_directories(void)
{
	char path[512];

	for (int i = 0; i < n_workspaces; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%d", directory, i);
		if (mkdir(path, 0755) < 0)
			bench_die(path);
		snprintf(path, sizeof(path), "%s/%d/f", directory, i);
		file = fopen(path, "we");
		if (!file)
			bench_die(path);
		for (int line = 0; line < 64; line++)
			fprintf(file, "line %d of a small file of workspace %d.........\n", line,
				i);
		fclose(file);
	}
	snprintf(path, sizeof(path), "%s/root", directory);
	if (mkdir(path, 0755) < 0)
		bench_die(path);
}

/* Sections of the report */

static void measure_reads(const char *name, double *reference)
{
	for (int i = 0; i < READS; i++)
		times[i] = read_us(&connections[0], 0);
	bench_sort(times, READS);
	if (*reference == 0)
		*reference = times[READS / 2];
	bench_row(name, times, READS, *reference);
}

static double bare_us(void)
{
	char root[512], workspace[512];

	snprintf(root, sizeof(root), "%s/root", directory);
	snprintf(workspace, sizeof(workspace), "%s/0", directory);
	return bare_cell_us(program, root, workspace);
}

static void row_of(const char *name, const double *all, int from, int n, double reference)
{
	memcpy(times, all + from, (size_t)n * sizeof(*times));
	bench_sort(times, (size_t)n);
	bench_row(name, times, (size_t)n, reference == 0 ? times[n / 2] : reference);
}

static void open_all(void)
{
	int tenth = n_workspaces / 10;
	double reference;

	for (int i = 1; i < n_workspaces; i++) {
		cold[i - 1] = open_us(connection_of(i), i);
		bare[i - 1] = bare_us();
	}
	memcpy(times, bare, (size_t)(n_workspaces - 1) * sizeof(*times));
	bench_sort(times, (size_t)(n_workspaces - 1));
	reference = times[n_workspaces / 2];
	row_of("bare cell", bare, 0, n_workspaces - 1, reference);
	row_of("workspace.open, one at once", cold, 0, n_workspaces - 1, reference);
	row_of("  the first tenth", cold, 0, tenth, reference);
	row_of("  the last tenth", cold, n_workspaces - 1 - tenth, tenth, reference);
	row_of("bare cell, in the first tenth", bare, 0, tenth, reference);
	row_of("bare cell, in the last tenth", bare, n_workspaces - 1 - tenth, tenth, reference);
}

static void print_memory(const struct memory *before, const struct memory *after)
{
	long n = after->n_workers - before->n_workers, kernel = 0, workers, files, daemon;

	if (n <= 0)
		return;
	workers = after->workers - before->workers;
	files = after->files - before->files;
	daemon = after->daemon - before->daemon;
	printf("\nKiB of each of %ld more workspaces: PSS of worker %ld, files process %ld, in "
	       "cloisterd "
	       "%ld; kernel:",
		n, workers / n, files / n, daemon / n);
	for (size_t i = 0; i < MEMINFO; i++) {
		long delta = (after->kib[i] - before->kib[i]) / n;

		printf(" %s %ld", meminfo_names[i], delta);
		if (i < 4)
			kernel += delta;
	}
	printf("; all told %ld\n", (workers + files + daemon) / n + kernel);
}

static void close_all(const struct memory *before)
{
	double began = bench_now_us(), closed;

	for (int i = 1; i < n_workspaces; i++)
		close_workspace(connection_of(i), i);
	closed = bench_now_us();
	while (look_at_memory().n_workers > before->n_workers)
		usleep(10000);
	printf("\nclosing %d workspaces: %.0f us each until answered, %.0f us each until their "
	       "processes "
	       "are gone\n",
		n_workspaces - 1, (closed - began) / (n_workspaces - 1),
		(bench_now_us() - began) / (n_workspaces - 1));
}

/* Opens one workspace at a time, with pauses in which cloisterd can make a spare cell. */
static void open_with_pauses(double reference)
{
	for (int i = 0; i < WARM; i++) {
		usleep(PAUSE_US);
		cold[i] = open_us(&connections[0], 1 + i % (n_workspaces - 1));
		close_workspace(&connections[0], 1 + i % (n_workspaces - 1));
		bare[i] = bare_us();
	}
	row_of("bare cell", bare, 0, WARM, 0);
	memcpy(times, bare, WARM * sizeof(*times));
	bench_sort(times, WARM);
	reference = times[WARM / 2];
	row_of("workspace.open, after a pause", cold, 0, WARM, reference);
}

/* Opens the workspaces from @from on, and waits until no more cells live than are kept. */
static struct memory open_from(int from, int to)
{
	struct memory memory;

	for (int i = from; i < to; i++)
		open_us(connection_of(i), i);
	do {
		sleep(1);
		memory = look_at_memory();
	} while (memory.n_workers > n_kept);
	return memory;
}

/* Calls in workspaces that have no cell, the longest unused first, with a spare cell for each. */
static void measure_without_cells(void)
{
	for (int i = 0; i < WARM; i++) {
		usleep(PAUSE_US);
		times[i] = read_us(connection_of(1 + i), 1 + i);
	}
	bench_sort(times, WARM);
	bench_row("read_file, first without a cell", times, WARM, times[WARM / 2]);
}

static void print_kept(const struct memory *live, const struct memory *all)
{
	int n = n_workspaces - n_kept - 1;
	long kernel = 0;

	printf("\n%d open, %ld with a cell. KiB of each of %d more workspaces, whose cells have "
	       "ended: in cloisterd %.1f; kernel:",
		n_workspaces, all->n_workers, n, (double)(all->daemon - live->daemon) / n);
	for (size_t i = 0; i < MEMINFO; i++) {
		printf(" %s %.1f", meminfo_names[i], (double)(all->kib[i] - live->kib[i]) / n);
		if (i < 4)
			kernel += all->kib[i] - live->kib[i];
	}
	printf("; all told %.1f\n", (double)(all->daemon - live->daemon + kernel) / n);
}

/* @reference is the time of a read with one workspace open. */
static void measure_kept(double reference)
{
	struct memory before = look_at_memory(), live, all, closed;

	live = open_from(1, n_kept + 1);
	print_memory(&before, &live);
	all = open_from(n_kept + 1, n_workspaces);
	print_kept(&live, &all);
	bench_row_head("us");
	measure_without_cells();
	measure_reads("read_file, all of them open", &reference);
	measure_reads("read_file, all of them open", &reference);
	for (int i = 1; i < n_workspaces; i++)
		close_workspace(connection_of(i), i);
	while (look_at_memory().n_workers > before.n_workers)
		usleep(10000);
	sleep(5);
	closed = look_at_memory();
	printf("\nSlab, KiB: %ld before, %ld with all of them open, %ld after they were closed\n",
		before.kib[0], all.kib[0], closed.kib[0]);
}

static void measure(void)
{
	int n_connections = n_workspaces / PER_CONNECTION + 1;
	struct memory before, after;
	double reference = 0;

	make_directories();
	connections = calloc((size_t)n_connections, sizeof(*connections));
	cold = calloc((size_t)n_workspaces + READS, sizeof(*cold));
	bare = calloc((size_t)n_workspaces + READS, sizeof(*bare));
	times = calloc((size_t)n_workspaces + READS, sizeof(*times));
	if (!connections || !cold || !bare || !times)
		bench_die("calloc");
	for (int i = 0; i < n_connections; i++)
		connections[i] = connect_only();
	open_us(&connections[0], 0);
	read_us(&connections[0], 0);
	bench_row_head("us");
	if (n_kept > 0) {
		measure_reads("read_file, 1 workspace open", &reference);
		measure_kept(reference);
		return;
	}
	open_with_pauses(0);
	printf("\n");
	sleep(1);
	before = look_at_memory();
	measure_reads("read_file, 1 workspace open", &reference);
	open_all();
	measure_reads("read_file, all of them open", &reference);
	measure_reads("read_file, all of them open", &reference);
	sleep(1);
	after = look_at_memory();
	print_memory(&before, &after);
	close_all(&before);
	sleep(2);
	before = look_at_memory();
	print_memory(&before, &after);
	reference = 0;
	bench_row_head("us");
	measure_reads("read_file, 1 workspace open", &reference);
}

static int misused(void)
{
	fprintf(stderr,
		"usage: bench_scale [-u UID] [-g GID] [-n WORKSPACES] [-k CELLS_KEPT] "
		"AGENT_SOCKET DIRECTORY\n"
		"WORKSPACES is more than %d, and more than that beside CELLS_KEPT\n",
		WARM);
	return 2;
}

int main(int argc, char **argv)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	int option, pair[2];
	pid_t pid;

	/* Here this program runs inside a bare cell. */
	if (argc == 1)
		return write(BARE_READY_FD, "r", 1) == 1 ? pause() : 1;
	while ((option = getopt(argc, argv, "u:g:n:k:")) != -1) {
		if (option == 'u')
			uid = (uid_t)atoi(optarg);
		else if (option == 'g')
			gid = (gid_t)atoi(optarg);
		else if (option == 'n')
			n_workspaces = atoi(optarg);
		else if (option == 'k')
			n_kept = atoi(optarg);
		else
			return misused();
	}
	if (n_kept < 0 || (n_kept > 0 && n_workspaces <= n_kept + WARM))
		return misused();
	if (argc - optind != 2 || n_workspaces <= WARM)
		return misused();
	socket_path = argv[optind];
	directory = argv[optind + 1];
	program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	if (program < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		bench_die("socketpair");
	pid = fork();
	if (pid == 0) {
		close(pair[1]);
		serve_memory(pair[0], uid);
		_exit(0);
	}
	close(pair[0]);
	memory_fd = pair[1];
	if (getuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
				     setresuid(uid, uid, uid) < 0))
		bench_die("setresuid");
	/* setresuid(2) cleared it; without it, the uid maps of child processes cannot be written.
	 */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	measure();
	close(memory_fd);
	waitpid(pid, NULL, 0);
	return 0;
}
