/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire/wire_commands.h"
#include "worker/commands/command_relay.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct command_ruleset;
struct network_tries;

/*
 * Whether an init can be made before its command is known. It must share the worker's memory for
 * that, and AddressSanitizer does not support a second process in the same memory.
 */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_ADDRESS__)
#define COMMAND_INIT_SHARES_MEMORY 1
#else
#define COMMAND_INIT_SHARES_MEMORY 0
#endif

#define COMMAND_INIT_STACK 65536 /* a multiple of every page size */

/*
 * The states of a waiting init. The worker releases it when start is complete; the init withdraws
 * if its set-up has failed. The first to change the state wins.
 */
enum {
	COMMAND_INIT_WAITS,
	COMMAND_INIT_GOES, /* start is complete and the init may begin */
	COMMAND_INIT_WITHDRAWN,
};

/*
 * Memory through which the worker and an init communicate. The command never has it, because the
 * exec removes it.
 */
struct command_report {
	_Atomic uint32_t go;         /* COMMAND_INIT_*; a futex(2) */
	_Atomic uint32_t told;       /* the worker sets it before it sends SIGTERM */
	_Atomic uint32_t signals;    /* a bit for each signal to send to the command */
	_Atomic uint32_t foreground; /* the same for its terminal's foreground process group */
	struct command_ended ended;  /* valid once over is set */
	_Atomic uint32_t over;       /* the shell has ended and only the init is left */
	_Atomic uint32_t reported;   /* the init has reported the end to cloisterd */
	_Atomic uint32_t
		/*
		 * the init has closed the input (gives_input): the worker must not close that
		 * number
		 */
		input_given;
	/* Landlock ruleset of the init, for the worker to close when it reaps the init; -1: none */
	int ruleset;
};

/*
 * The command that an init is to start. All that it points to must stay valid until the init is
 * reaped.
 */
struct command_start {
	const char *command;
	const char *cwd; /* NULL: the init's own */
	uint8_t shell;   /* enum command_shell */
	char *const *env;
	/* become 1, 2 and 0, in the order of COMMAND_FD_*; then the gate, -1: there is none */
	int fds[COMMAND_FDS];
	/*
	 * The init closes its copy of the input once the shell has it. Otherwise cloisterd would
	 * not notice that the command has closed its input.
	 */
	bool gives_input;
	bool no_network;
	uint8_t disk;     /* enum command_disk */
	int workspace_fd; /* O_PATH, of the worker */
	int cgroup_fd;    /* cgroup that the shell begins in; -1: the init's own */
	/*
	 * No cgroup counts refused forks: if the shell fails, the init finds out whether the kernel
	 * refuses one more process.
	 */
	bool tries_fork;
	uint64_t call;
	int report_fd; /* pipe to report the end to; -1: the worker reports it */
	/*
	 * fds are a terminal, which becomes the command's controlling terminal, and relay has the
	 * rest. The worker reports the end, when the init has passed on the rest of the output.
	 */
	bool has_terminal;
	struct relay_ends relay;
};

struct command_init {
	struct command_start start;
	struct command_report *report; /* MAP_SHARED */
	/* COMMAND_INIT_STACK bytes, in use until the init is reaped */
	char *stack;
	const struct command_ruleset *ruleset;
	const struct network_tries *tries; /* used with start.no_network */
	int inside;      /* user namespace that the shell enters; -1: none (root_inside) */
	uint64_t cookie; /* filter cookie: worker/filters/filter_cookie.h */
	unsigned before; /* the command's process ids begin after this one */
	pid_t pid;       /* pid of the init, a child of the worker */
};

/**
 * Clones the process of @init: pid 1 of new pid and mount namespaces, which waits for
 * command_init_go(). It shares the caller's descriptors, so those in start must stay open until it
 * is reaped, except the input that it closes itself. All signals must be blocked. The report must
 * be empty; or, if start is already complete, hold COMMAND_INIT_GOES. Without
 * COMMAND_INIT_SHARES_MEMORY start must be complete. Returns 0 or -errno; a later failure is in the
 * report. pid_namespaces(7).
 */
int command_init_make(struct command_init *init);

/**
 * Lets @init start its command. From then on command_init_tell() sends SIGTERM to every process of
 * the command, and SIGKILL to init->pid kills them all. When the shell has ended, the init kills
 * the others and reports the end; once the init is reaped no process is left. Returns false if the
 * init has withdrawn: it then exits without a report.
 */
bool command_init_go(struct command_init *init);

/** Sends SIGTERM to the command of @init, which has not been reaped. */
void command_init_tell(struct command_init *init);

/**
 * Sends the signal @number, at most 31, to every process of the command of @init, which has not
 * been reaped; with @foreground only to the foreground process group of its terminal, if it has
 * one. It does not count as an order to end.
 */
void command_init_signal(struct command_init *init, unsigned number, bool foreground);

/**
 * Writes the COMMAND_ENDED frame of @call to the pipe @fd. The write is atomic among several
 * writers (PIPE_BUF, pipe(7)). Makes raw system calls only. Returns 0 or -errno.
 */
int command_report_end(int fd, uint64_t call, const struct command_ended *ended);
