// SPDX-License-Identifier: Apache-2.0
/*
 * Measures how long a key takes from a terminal through a program and back: the program itself on a
 * pseudoterminal, and what is given on the command line, each on one as well. One key is in flight;
 * the candidates take turns with every key. pty(7).
 *
 * usage: bench_echo [-n KEYS] [-w WAIT_US] [NAME COMMAND]...
 *        bench_echo --program
 *
 * A COMMAND is run by sh(1) and runs, at its end, this program with --program. It makes its
 * terminal raw, says that it is ready, and writes each byte that it reads. The waits between keys
 * are those of a person if they are long: then every process on the way sleeps.
 */
#include "tests/bench/bench.h"

#include <errno.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>

#define CANDIDATES 8
#define WARM_UP    100

static const char ready[] = "bench-echo-is-ready";

struct candidate {
	const char *name, *command; /* NULL: the program itself */
	int master;
	pid_t pid;
	double *times;
};

static int run_program(void)
{
	struct termios modes;
	char byte;

	if (tcgetattr(STDIN_FILENO, &modes) < 0)
		bench_die("tcgetattr");
	cfmakeraw(&modes);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &modes) < 0)
		bench_die("tcsetattr");
	if (write(STDOUT_FILENO, ready, strlen(ready)) < 0)
		return 1;
	while (read(STDIN_FILENO, &byte, 1) == 1)
		if (write(STDOUT_FILENO, &byte, 1) != 1)
			return 1;
	return 0;
}

static void begin(struct candidate *candidate)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};
	char text[65536];
	size_t len = 0;

	candidate->pid = forkpty(&candidate->master, NULL, NULL, &size);
	if (candidate->pid < 0)
		bench_die("forkpty");
	if (candidate->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGHUP, 0, 0, 0);
		if (candidate->command)
			execl("/bin/sh", "sh", "-c", candidate->command, NULL);
		else
			_exit(run_program());
		bench_die("sh");
	}
	while (!memmem(text, len, ready, strlen(ready))) {
		ssize_t n = read(candidate->master, text + len, sizeof(text) - 1 - len);

		if (n <= 0) {
			fprintf(stderr, "%s: %s\n", candidate->name, text);
			exit(1);
		}
		len += (size_t)n;
		text[len] = '\0';
	}
}

/* Returns how long the key takes. A program in between may write more than the key. */
static double key_us(const struct candidate *candidate, char key)
{
	double began = bench_now_us();
	char text[4096];
	ssize_t n;

	if (write(candidate->master, &key, 1) != 1)
		bench_die(candidate->name);
	do {
		n = read(candidate->master, text, sizeof(text));
		if (n <= 0)
			bench_die(candidate->name);
	} while (!memchr(text, key, (size_t)n));
	return bench_now_us() - began;
}

static void measure(struct candidate *candidates, size_t count, size_t keys, useconds_t wait_us)
{
	for (size_t i = 0; i < keys + WARM_UP; i++)
		for (size_t c = 0; c < count; c++) {
			double us;

			if (wait_us > 0)
				usleep(wait_us);
			us = key_us(&candidates[c], (char)('a' + i % 26));
			if (i >= WARM_UP)
				candidates[c].times[i - WARM_UP] = us;
		}
}

int main(int argc, char **argv)
{
	struct candidate candidates[CANDIDATES] = {{.name = "a pseudoterminal"}};
	size_t count = 1, keys = 2000;
	useconds_t wait_us = 0;
	int option;

	if (argc == 2 && strcmp(argv[1], "--program") == 0)
		return run_program();
	while ((option = getopt(argc, argv, "+n:w:")) != -1) {
		if (option == 'n')
			keys = (size_t)atol(optarg);
		else if (option == 'w')
			wait_us = (useconds_t)atol(optarg);
		else
			return 2;
	}
	if (keys == 0 || (argc - optind) % 2 != 0 || (argc - optind) / 2 >= CANDIDATES)
		return 2;
	for (int i = optind; i + 1 < argc; i += 2)
		candidates[count++] = (struct candidate){.name = argv[i], .command = argv[i + 1]};
	for (size_t c = 0; c < count; c++) {
		candidates[c].times = calloc(keys, sizeof(double));
		if (!candidates[c].times)
			bench_die("calloc");
		begin(&candidates[c]);
	}
	measure(candidates, count, keys, wait_us);
	bench_row_head("a key and its echo, us");
	for (size_t c = 0; c < count; c++)
		bench_sort(candidates[c].times, keys);
	for (size_t c = 0; c < count; c++)
		bench_row(candidates[c].name, candidates[c].times, keys,
			candidates[0].times[keys / 2]);
	for (size_t c = 0; c < count; c++) {
		kill(-candidates[c].pid, SIGTERM); /* also what a shell has started */
		close(candidates[c].master);
		waitpid(candidates[c].pid, NULL, 0);
	}
	return 0;
}
