/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which TCP ports listen in a cell's network namespace, as the kernel says. Runs in cloisterd. The
 * socket by which it is asked, of sock_diag(7), was made there before any program was executed, and
 * no process of the workspace ever has it; so an answer cannot be forged, but a hostile workspace
 * can have very many sockets that listen. The rate of questions and the cost of each have bounds.
 *
 * Ports below 1024 are omitted: only cloister's sockets (worker/spawner/cell/cell_sockets.c) listen
 * there.
 */

#include "common/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct listening;
struct workspace;

#define LISTENING_PORT_MIN 1024

enum listens {
	LISTENS_UNKNOWN, /* not asked now: too many requests, or there is no socket */
	LISTENS_NOT,
	LISTENS_AT_IPV4, /* a connection to 127.0.0.1 would be accepted */
	LISTENS_AT_IPV6, /* one to ::1, and none to 127.0.0.1 */
};

/* The ports that listen, each once. */
struct listening_ports {
	uint16_t ports[LIMIT_PORTS_LISTED]; /* the first ports that the kernel lists */
	size_t n;
};

/**
 * Takes @fd, the socket; -1: there is none. Returns NULL if there is no socket or memory is out;
 * then no port is known.
 */
struct listening *listening_new(int fd);
/** NULL is allowed. */
void listening_free(struct listening *listening);

/**
 * Asks whether a socket listens at @port that a process of the cgroup with the inode @cgroup has
 * created. If @cgroup is 0, or the kernel does not tell cgroups, any process counts. An answer for
 * the same port that is younger than LIMIT_PORT_ASK_MS is used again.
 */
enum listens listening_ask(struct listening *listening, uint16_t port, uint64_t cgroup);

/**
 * Lists the ports of sockets that a process of the cgroup with the inode @cgroup has created. If
 * @cgroup is 0, or the kernel does not tell cgroups, it lists the ports of all processes. The list
 * may be LIMIT_PORTS_LIST_MS old. Returns false if it is not known.
 */
bool listening_list(struct listening *listening, uint64_t cgroup, struct listening_ports *ret);

/* The same of the cell that @workspace has now, without the port of cloister-egress. */

/** Whether each command has a cgroup. */
bool workspace_has_cgroups(const struct workspace *workspace);
/** Whether the kernel tells which ports listen; also true while there is no cell. */
bool workspace_tells_ports(const struct workspace *workspace);
enum listens workspace_listens(struct workspace *workspace, uint16_t port, uint64_t cgroup);
bool workspace_ports(struct workspace *workspace, uint64_t cgroup, struct listening_ports *ret);
/** Whether @port is the one at which its commands reach cloister-egress. */
bool workspace_is_proxy(const struct workspace *workspace, int64_t port);
/** The cell ends. */
void workspace_end_listening(struct workspace *workspace);
