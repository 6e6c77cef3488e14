/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire_commands.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct command_wall;

/* Whether an init can be made before it is known what it will start: only where it has the worker's
 * memory. AddressSanitizer's does not survive a second process in it. */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_ADDRESS__)
#define COMMAND_INIT_SHARES_MEMORY 1
#else
#define COMMAND_INIT_SHARES_MEMORY 0
#endif

#define COMMAND_INIT_STACK 65536 /* a multiple of every page size */

/* An init waits until the worker lets it go, or withdraws where it could not be one. Whoever is
 * first. */
enum {
	COMMAND_INIT_WAITS,
	COMMAND_INIT_GOES, /* start is complete */
	COMMAND_INIT_WITHDRAWN,
};

/* What the worker and an init say to each other: memory that both have and that the command never
 * has, since it is gone with the exec. */
struct command_report {
	_Atomic uint32_t go;        /* COMMAND_INIT_*, futex(2) */
	_Atomic uint32_t told;      /* set before SIGTERM is sent */
	struct command_ended ended; /* valid once over is set */
	_Atomic uint32_t over;      /* the shell has ended and nothing but the init is left */
	_Atomic uint32_t reported;  /* and cloisterd has been told */
	_Atomic uint32_t
		input_given; /* start's gives_input is done: that number is not the caller's */
	int wall;            /* the init's, for whoever reaps it to close; -1: none */
};

/* What an init is to start. Whatever it points to stays until the init is reaped. */
struct command_start {
	const char *command; /* for /bin/sh -c */
	char *const *env;
	int fds[COMMAND_FDS]; /* COMMAND_FD_*: become 1, 2 and 0 */
	/* The init closes the input once the shell has it: if the command closes it too, whoever
	 * writes is to know. */
	bool gives_input;
	int cgroup_fd; /* that the shell begins in; -1: the init's */
	uint64_t call;
	int report_fd; /* where its end is reported; -1: the caller does it */
};

struct command_init {
	struct command_start start;
	struct command_report *report; /* MAP_SHARED */
	char *stack;                   /* COMMAND_INIT_STACK bytes of its own until it is reaped */
	const struct command_wall *wall;
	uint64_t pass; /* of the system call filter: command_filter.h */
	pid_t pid;     /* the caller's child */
};

/**
 * Makes @init's process: pid 1 of new pid and mount namespaces, which waits for command_init_go. It
 * shares the caller's descriptors: those in start must stay until it is reaped, but for the input
 * that it closes. 0 or -errno; what
 * fails after that is in the report. Without COMMAND_INIT_SHARES_MEMORY, start must be complete.
 * All signals must be blocked. The report must be empty, or COMMAND_INIT_GOES in it and start
 * complete. pid_namespaces(7).
 */
int command_init_make(struct command_init *init);

/**
 * Lets @init start its command. From then on command_init_tell sends SIGTERM to every process of
 * the command, and SIGKILL to init->pid ends all of them. When the shell has ended, the init ends
 * the others and reports. Reaping it means that none is left. False: it has withdrawn, ends and
 * reports nothing.
 */
bool command_init_go(struct command_init *init);

/** Ends the command of @init, which is not reaped, by SIGTERM. */
void command_init_tell(struct command_init *init);

/** Writes the one COMMAND_ENDED of @call to the pipe @fd, in one piece however many write to it
 * (PIPE_BUF, pipe(7)). Raw system calls only. 0 or -errno. */
int command_report_end(int fd, uint64_t call, const struct command_ended *ended);
