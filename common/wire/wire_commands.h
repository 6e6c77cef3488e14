/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between cloisterd and the worker. Down, on a socketpair, goes COMMAND_RUN with the
 * command's standard descriptors, followed by the command's text and environment in COMMAND_BODY
 * frames. Up, on a socket, comes exactly one COMMAND_ENDED for each COMMAND_RUN, sent when no
 * process of the command is left.
 */

#include "common/cell_limits.h"
#include "common/text.h"
#include "common/wire/wire.h"

enum command_message {
	/* down */
	COMMAND_RUN = 1,
	COMMAND_BODY,
	COMMAND_TERMINATE, /* no payload: SIGTERM to every process of the command */
	COMMAND_KILL,      /* no payload: SIGKILL to all of them */
	COMMAND_GO,        /* no payload: a command that is held may begin */
	COMMAND_SIGNAL,    /* struct command_signal; it is no order to end */
	COMMAND_RESIZE,    /* struct command_terminal: the new size of its terminal */
	/*
	 * struct command_forward, with a client's socket: connects it to a port inside. The call is
	 * the number of the forward, which is none of a command.
	 */
	COMMAND_FORWARD,
	/*
	 * struct command_pause: stops all commands, or lets them go on. The call is the number of
	 * the pause, which is none of a command.
	 */
	COMMAND_PAUSE,
	/* up */
	COMMAND_READY = 32, /* set-up is complete */
	COMMAND_FAILED,     /* set-up failed, also after COMMAND_READY: struct setup_failure */
	COMMAND_ENDED,
	COMMAND_WAITS, /* no payload: it waits for input that never comes (input_wait.h) */
	/*
	 * struct command_held: a command with tells_cgroup has its cgroup, and begins with
	 * COMMAND_GO, so that cloister-egress knows the cgroup before it sees a connection from
	 * there; of a session, so that cloisterd knows which ports are its own
	 */
	COMMAND_HELD,
	COMMAND_FORWARD_ENDED, /* no payload: nothing is left of a forward */
	/* struct command_paused, once for each COMMAND_PAUSE that stops, if the pause lasts that
	 * long
	 */
	COMMAND_PAUSED,
};

/*
 * The order of the descriptors in COMMAND_RUN. The input is there only with has_stdin, and the gate
 * with has_gate.
 */
enum {
	COMMAND_FD_STDOUT,
	COMMAND_FD_STDERR,
	COMMAND_FD_STDIN,
	COMMAND_FD_GATE,
	COMMAND_FDS,
};

/*
 * The byte of a gate on which the shell is executed. At the socket's end without it, also that of a
 * cloisterd that died, nothing is.
 */
#define COMMAND_GATE_OPEN 'o'

/* The shell that runs a command's text. */
enum command_shell {
	COMMAND_SHELL_AUTO, /* bash where the workspace's root has it, sh otherwise */
	COMMAND_SHELL_SH,
	COMMAND_SHELL_BASH,
	COMMAND_SHELLS,
};

/* The mechanism that bounds the disk of a command's workspace. */
enum command_disk {
	COMMAND_DISK_FREE,  /* nothing that concerns the worker */
	COMMAND_DISK_QUOTA, /* the kernel's quota: report whether the command reaches it */
	COMMAND_DISK_OVER,  /* the command may remove files, and not write to any */
	/* besides: it may make none in the workspace, where Landlock can forbid that */
	COMMAND_DISK_OVER_FILES,
	COMMAND_DISKS,
};

/* The size of a command's terminal in characters. */
struct command_terminal {
	uint32_t rows, cols; /* 1 to LIMIT_TERMINAL_SIDE; 0 in struct command_run: no terminal */
};

/*
 * A command with a terminal has the three descriptors, too. They are pipes as ever, and belong to
 * its init, which passes on what goes over the terminal: command_relay.h.
 */
struct command_run {
	uint32_t command_len; /* bytes of the body that are the shell command */
	uint32_t env_len;     /* bytes after them: NAME=VALUE strings, each with a NUL at its end */
	/* bytes after these: the directory that it begins in, with a NUL at its end; 0: the root */
	uint32_t cwd_len;
	bool has_stdin; /* otherwise stdin is /dev/null */
	bool has_gate;  /* the command waits for a byte before it is executed */
	struct command_limits limits;
	uint32_t input_wait_ms; /* how long it may wait for input; 0: as long as it likes */
	uint8_t shell;          /* enum command_shell */
	bool no_network;        /* its workspace has none: clients need not try again */
	struct command_terminal terminal;
	uint8_t disk;      /* enum command_disk */
	bool tells_cgroup; /* COMMAND_HELD is to come before it begins, if it has a cgroup */
};

/* How a command came to its end, as the init process of the command saw it. */
enum command_end {
	COMMAND_END_EXIT,       /* the shell ended by itself; wait_status is the shell's */
	COMMAND_END_TERMINATED, /* it ended after COMMAND_TERMINATE or COMMAND_KILL had reached it
				 */
	COMMAND_END_NOT_BEGUN,  /* it could not be started: launch_error says why */
	COMMAND_END_COUNT,
};

/*
 * The counters of the command's cgroup. A counter that could not be measured is absent, not zero.
 */
struct command_cgroup_usage {
	bool has_memory_peak, has_io;
	uint64_t memory_peak_bytes; /* peak of all its processes together, page cache included */
	uint64_t io_read_bytes;     /* bytes read from and written to devices while it ran */
	uint64_t io_write_bytes;
	uint64_t oom_kills; /* processes that the kernel killed because memory was out */
	/*
	 * forks refused at the limit of processes; where no cgroup counts them, the one that the
	 * init tried when the shell had failed
	 */
	uint64_t refused_forks;
};

#define COMMAND_LAUNCH_CWD 0x10000U

struct command_ended {
	uint8_t end;          /* enum command_end */
	uint32_t wait_status; /* wait(2): an exit or a signal */
	/* errno, positive; chdir(2) has failed if COMMAND_LAUNCH_CWD is added */
	uint32_t launch_error;
	uint64_t user_us; /* CPU time of all its processes, getrusage(2) */
	uint64_t system_us;
	uint64_t max_rss_bytes; /* maximum resident set of the largest process */
	struct command_cgroup_usage cgroup;
	uint32_t left_over; /* processes that still ran when the shell ended, and were killed */
	/* it failed, and meanwhile its workspace tried to leave its network (network_tries.h) */
	bool network_tried;
	/*
	 * it failed, and the workspace's quota was used up then, and not before; or it had no right
	 * to write to files and was ended by SIGXFSZ
	 */
	bool disk_full;
};

struct command_signal {
	uint8_t number; /* that people send to programs: SIGHUP, INT, QUIT, KILL, USR1, USR2, TERM
			 */
	/* to the foreground process group of its terminal (tcgetpgrp(3)), otherwise to all of it */
	bool foreground;
};

struct command_held {
	uint64_t cgroup; /* inode of the command's cgroup; not 0 */
};

#define COMMAND_HELD_SIZE 8 /* size of the payload in bytes */

struct command_forward {
	uint16_t port;    /* not 0 */
	bool ipv6;        /* of ::1, otherwise of 127.0.0.1 */
	uint32_t idle_ms; /* it ends after so long without a byte either way; not 0 */
};

/* Commands that begin meanwhile begin stopped. The worker ends it when its time is over. */
struct command_pause {
	uint32_t ms; /* at most LIMIT_PAUSE_MAX_MS; 0: the commands go on */
};

struct command_paused {
	bool all; /* none of them runs; otherwise they all do again: they could not be stopped */
};

#define COMMAND_PAUSED_SIZE 1 /* size of the payload in bytes */

#define COMMAND_ENDED_SIZE 81 /* size of the payload in bytes */

WIRE_MESSAGE(command_run);
/** Returns how many descriptors come with @message. */
unsigned command_run_fds(const struct command_run *message);
WIRE_MESSAGE(command_held);
WIRE_MESSAGE(command_signal);
WIRE_MESSAGE(command_terminal);
WIRE_MESSAGE(command_forward);
WIRE_MESSAGE(command_pause);
WIRE_MESSAGE(command_paused);
WIRE_MESSAGE(command_ended);
