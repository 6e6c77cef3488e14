// SPDX-License-Identifier: Apache-2.0
/*
 * usage: bench_tunnels [-n N] [-r ROUNDS] [-m MIB] [-i IDLE] NAME:PORT:PID ...
 *
 * Tunnels through proxies at 127.0.0.1, to a host of this program's own. The proxies take turns;
 * the first row is without one. For each: the time from connect(2) to the host's first byte, what
 * the proxy's processor time for it was, bytes a second of one tunnel, and the memory of tunnels
 * without traffic. tests/bench/egress starts the proxies.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#define PROXIES_MAX 8
#define PIECE       (256 << 10)

struct proxy {
	const char *name;
	in_port_t port; /* 0: there is none */
	pid_t pid;
	double *us;   /* of each connection */
	double *gbps; /* of each round */
	double cpu_us, stream_cpu_us, idle_bytes;
};

static struct proxy proxies[PROXIES_MAX + 1] = {{.name = "no proxy"}};
static size_t n_proxies = 1;
static in_port_t host_port;
static size_t stream_bytes;

/* Sends what one tunnel is measured by, and closes. */
static void stream(int fd)
{
	static char piece[PIECE];

	for (size_t left = stream_bytes; left > 0;) {
		ssize_t n = send(fd, piece, left < PIECE ? left : PIECE, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		left -= (size_t)n;
	}
	close(fd);
}

/* The host: greets each client with a byte, and sends much to one that sends a byte. */
static _Noreturn void be_host(int listener)
{
	int loop = epoll_create1(0), fd;
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};

	epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
	while (epoll_wait(loop, &event, 1, -1) > 0) {
		char byte;

		if (event.data.fd == listener) {
			fd = accept(listener, NULL, NULL);
			event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
			if (fd >= 0 && (send(fd, "x", 1, MSG_NOSIGNAL) != 1 ||
					       epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) < 0))
				close(fd);
		} else if (recv(event.data.fd, &byte, 1, 0) == 1) {
			stream(event.data.fd);
		} else {
			close(event.data.fd);
		}
	}
	_exit(1);
}

static int listen_at(in_port_t *ret_port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) < 0 || listen(fd, 4096) < 0 ||
		getsockname(fd, (struct sockaddr *)&at, &size) < 0)
		bench_die("listen");
	*ret_port = ntohs(at.sin_port);
	return fd;
}

static void expect(int fd, const char *until, const char *name)
{
	char got[4096];
	size_t len = 0;

	do {
		ssize_t n = recv(fd, got + len, 1, 0);

		if (n != 1 || ++len == sizeof(got) - 1) {
			got[len] = '\0';
			fprintf(stderr, "%s: %s\n", name, got);
			exit(1);
		}
		got[len] = '\0';
	} while (len < strlen(until) || strcmp(got + len - strlen(until), until) != 0);
}

/* Returns a connection whose host has greeted. */
static int open_tunnel(const struct proxy *proxy)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(proxy->port ? proxy->port : host_port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	const int one = 1;
	char head[64];

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		bench_die(proxy->name);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (proxy->port) {
		int len = snprintf(head, sizeof(head), "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n",
			(unsigned)host_port);

		if (send(fd, head, (size_t)len, MSG_NOSIGNAL) != len)
			bench_die(proxy->name);
		expect(fd, "\r\n\r\n", proxy->name);
	}
	expect(fd, "x", proxy->name);
	return fd;
}

/* The processor time that a process has used, in microseconds. */
static double cpu_of(const struct proxy *proxy)
{
	struct timespec used;
	clockid_t clock;

	if (!proxy->pid || clock_getcpuclockid(proxy->pid, &clock) != 0 ||
		clock_gettime(clock, &used) < 0)
		return 0;
	return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

/* The memory of a process's own, without files. */
static double memory_of(const struct proxy *proxy)
{
	char path[32], line[128];
	unsigned long kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)proxy->pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %lu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return (double)kib * 1024;
}

static void measure_connections(size_t n)
{
	for (size_t p = 0; p < n_proxies; p++) {
		proxies[p].us = calloc(n, sizeof(double));
		for (int i = 0; i < 50; i++)
			close(open_tunnel(&proxies[p]));
		proxies[p].cpu_us = -cpu_of(&proxies[p]);
	}
	for (size_t i = 0; i < n; i++)
		for (size_t p = 0; p < n_proxies; p++) {
			double begun = bench_now_us();
			int fd = open_tunnel(&proxies[p]);

			proxies[p].us[i] = bench_now_us() - begun;
			close(fd);
			/* The proxy sees the end before the next one's turn. */
			usleep(200);
		}
	usleep(100000);
	for (size_t p = 0; p < n_proxies; p++)
		proxies[p].cpu_us = (proxies[p].cpu_us + cpu_of(&proxies[p])) / (double)n;
}

static void measure_bytes(size_t rounds)
{
	static char piece[PIECE];

	for (size_t p = 0; p < n_proxies; p++)
		proxies[p].gbps = calloc(rounds, sizeof(double));
	for (size_t i = 0; i < rounds; i++)
		for (size_t p = 0; p < n_proxies; p++) {
			int fd = open_tunnel(&proxies[p]);
			double begun = bench_now_us(), cpu = cpu_of(&proxies[p]);
			size_t got = 0;
			ssize_t n;

			if (send(fd, "g", 1, MSG_NOSIGNAL) != 1)
				bench_die("send");
			while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
				got += (size_t)n;
			if (got != stream_bytes)
				bench_die(proxies[p].name);
			proxies[p].gbps[i] = (double)got / 1e3 / (bench_now_us() - begun);
			proxies[p].stream_cpu_us += cpu_of(&proxies[p]) - cpu;
			close(fd);
		}
}

static void measure_idle(size_t count)
{
	int *fds = calloc(count, sizeof(int));

	for (size_t p = 1; p < n_proxies; p++) {
		double before = memory_of(&proxies[p]);

		for (size_t i = 0; i < count; i++)
			fds[i] = open_tunnel(&proxies[p]);
		proxies[p].idle_bytes = (memory_of(&proxies[p]) - before) / (double)count;
		for (size_t i = 0; i < count; i++)
			close(fds[i]);
	}
	free(fds);
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(size_t n, size_t rounds, size_t idle)
{
	double direct = 0, relay = 0, relay_gbps = 0;

	printf("%-28s %8s %8s %8s %8s %8s %9s %8s %8s %9s %9s\n", "", "p10 us", "median", "p90",
		"p99", "added", "of relay", "CPU us", "GB/s", "of relay", "CPU ms/GB");
	for (size_t p = 0; p < n_proxies; p++) {
		struct proxy *proxy = &proxies[p];
		double median, gbps;

		qsort(proxy->us, n, sizeof(double), compare);
		qsort(proxy->gbps, rounds, sizeof(double), compare);
		median = proxy->us[n / 2];
		gbps = proxy->gbps[rounds / 2];
		if (p == 0)
			direct = median;
		if (p == 1) {
			relay = median - direct;
			relay_gbps = gbps;
		}
		printf("%-28s %8.0f %8.0f %8.0f %8.0f", proxy->name, proxy->us[n / 10], median,
			proxy->us[n * 9 / 10], proxy->us[n * 99 / 100]);
		if (p == 0)
			printf(" %8s %9s %8s %8.2f\n", "", "", "", gbps);
		else
			printf(" %8.0f %9.2f %8.0f %8.2f %9.2f %9.0f\n", median - direct,
				(median - direct) / relay, proxy->cpu_us, gbps, gbps / relay_gbps,
				proxy->stream_cpu_us / 1e3 /
					((double)stream_bytes * (double)rounds / 1e9));
	}
	for (size_t p = 1; p < n_proxies && idle > 0; p++)
		printf("%-28s %8.0f bytes of memory for each of %zu idle tunnels\n",
			proxies[p].name, proxies[p].idle_bytes, idle);
}

int main(int argc, char **argv)
{
	size_t n = 2000, rounds = 9, mib = 256, idle = 0;
	const struct rlimit many = {1 << 20, 1 << 20};
	struct rlimit limit;
	int option, listener;
	pid_t host;

	while ((option = getopt(argc, argv, "n:r:m:i:")) != -1)
		*(option == 'n'         ? &n
			: option == 'r' ? &rounds
			: option == 'm' ? &mib
					: &idle) = strtoul(optarg, NULL, 10);
	for (; optind < argc && n_proxies <= PROXIES_MAX; optind++, n_proxies++) {
		char *name = argv[optind], *port = strchr(name, ':'), *rest;

		if (!port)
			bench_die("NAME:PORT:PID");
		*port++ = '\0';
		proxies[n_proxies] = (struct proxy){.name = name};
		proxies[n_proxies].port = (in_port_t)strtoul(port, &rest, 10);
		proxies[n_proxies].pid = (pid_t)strtol(rest + 1, NULL, 10);
	}
	if (n == 0 || rounds == 0)
		return 2;
	if (setrlimit(RLIMIT_NOFILE, &many) < 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	signal(SIGPIPE, SIG_IGN);
	stream_bytes = mib << 20;
	listener = listen_at(&host_port);
	host = fork();
	if (host < 0)
		bench_die("fork");
	if (host == 0)
		be_host(listener);
	close(listener);
	measure_connections(n);
	measure_bytes(rounds);
	if (idle > 0)
		measure_idle(idle);
	print(n, rounds, idle);
	kill(host, SIGKILL);
	return 0;
}
