/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The messages of two generations of cloisterd during a take-over, by a Unix socket in the state
 * directory, which no other user can reach. The old daemon serves until the new daemon is ready,
 * and then only completes its work. daemon/old_daemon.c and daemon/new_daemon.c say what each
 * message leads to.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum handover_type {
	HANDOVER_ASK = 1,  /* new daemon: wants the sockets; dev and ino are of its program */
	HANDOVER_REFUSED,  /* old daemon: does not give them, for the reason in the text */
	HANDOVER_GIVEN,    /* old daemon: gives them; it begins nothing new meanwhile */
	HANDOVER_READY,    /* new daemon: would serve now */
	HANDOVER_HELD,     /* old daemon: the directory is still used here */
	HANDOVER_GO,       /* old daemon: all of them were sent; the new daemon may serve */
	HANDOVER_RELEASED, /* old daemon: the directory is not used here any more */
	HANDOVER_COMMANDS, /* old daemon: so many commands run here */
	HANDOVER_KEY,      /* old daemon: the text is a record of the journal of keys */
	HANDOVER_AUDIT,    /* old daemon: the text is a line of the audit log, without its chain */
	HANDOVER_END,      /* new daemon: end now, a third generation is ready */
	HANDOVER_COPIES,   /* old daemon: so many copies for templates and forks are made here */
	HANDOVER_TYPES,
};

/* The descriptors of HANDOVER_GIVEN, in this order. */
enum handover_fd {
	HANDOVER_FD_LOCK,  /* of the state directory */
	HANDOVER_FD_LINK,  /* the socket that generations connect to */
	HANDOVER_FD_AGENT, /* the agent socket */
	HANDOVER_FD_MORE,  /* the control socket, the delegated cgroup, the socket of
			      cloister-egress, in this order, as flags say */
	HANDOVER_FDS_MOST = HANDOVER_FD_MORE + 3,
};

/* A flag of HANDOVER_ASK, and of the HANDOVER_REFUSED that answers it with nothing else. */
enum { HANDOVER_IF_REPLACED = 1 << 0 };

/* The flags of HANDOVER_GIVEN. */
enum {
	HANDOVER_HAS_CONTROL = 1 << 0,
	HANDOVER_HAS_CGROUP = 1 << 1,
	HANDOVER_OWNS_SOCKETS =
		1 << 2, /* cloisterd made the sockets, and removes them at its end */
	HANDOVER_HAS_EGRESS = 1 << 3,
	HANDOVER_OWNS_EGRESS = 1 << 4, /* the same of the socket of cloister-egress */
};

struct handover_message {
	enum handover_type type;
	uint64_t dev, ino, uid; /* of a directory, or a program */
	uint64_t number;        /* flags, or how many */
	uint64_t watchdog_us;   /* with HANDOVER_GIVEN: of the service manager; 0: none */
	struct text text;       /* received: valid until the next one */
	pid_t pid; /* the sender's credentials by the kernel, for the process that connected */
	int fds[HANDOVER_FDS_MOST];
	unsigned n_fds;
};

/** Finds which file this process's program is. Call it before lock-down. Returns 0 or -errno. */
int handover_program(uint64_t *ret_dev, uint64_t *ret_ino);

/** Makes the socket in the state directory. Call it as the holder of the state's lock. */
int handover_listen(int directory_fd, int *ret_fd);

/**
 * Connects to the generation that serves. The socket may be older than the process that serves, so
 * only a message tells which process that is. Returns 0, -ENOENT or -ECONNREFUSED: there is none.
 * */
int handover_connect(int directory_fd, int *ret_fd);

/** Accepts the next generation. Returns 0; -EPERM if the peer is not of this process's user; or
 * another -errno. */
int handover_accept(int listener, int *ret_fd, pid_t *ret_pid);

/** Sends one message. Returns 0, -EAGAIN (the socket does not wait) or another -errno. */
int handover_send(int fd, const struct handover_message *message);

/**
 * Receives one message. Its descriptors are the caller's. Returns 1; 0 at the end; -EAGAIN;
 * -EBADMSG for an invalid message; or another -errno.
 */
int handover_receive(int fd, struct handover_message *ret);

/** The same, but waits for it at most @ms milliseconds: -ETIMEDOUT. */
int handover_await(int fd, int ms, struct handover_message *ret);

/** Closes the descriptors of a received message. */
void handover_drop(struct handover_message *message);

/**
 * Whether @fd is a listening Unix stream socket with a name in the file system, and @path (NULL:
 * any) is that name, which is stored.
 */
bool handover_is_listener(int fd, const char *path, char *ret_path, size_t size);
