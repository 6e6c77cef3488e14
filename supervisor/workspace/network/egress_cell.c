// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The cells that have a network, their sockets, and the calls in them. The
 * spawner made the sockets before anything of the workspace ran; cloisterd only keeps them and
 * passes duplicates on.
 */
#include "supervisor/workspace/network/egress_cell_state.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(
	EGRESS_PROXY == 1 << CELL_SOCKET_PROXY && EGRESS_DNS == 1 << CELL_SOCKET_DNS &&
		EGRESS_HTTP == 1 << CELL_SOCKET_HTTP && EGRESS_HTTPS == 1 << CELL_SOCKET_HTTPS &&
		EGRESS_DNS_TCP == 1 << CELL_SOCKET_DNS_TCP && EGRESS_DIAG == 1 << CELL_SOCKET_DIAG,
	"a cell's sockets come and go on in one order");

void egress_cell_send(struct egress_link *link, uint8_t type, uint64_t cell, struct text payload,
	int *fds, unsigned n)
{
	if (!link->has_channel) {
		for (unsigned i = 0; i < n; i++)
			close_fd(&fds[i]);
		return;
	}
	/* A message that there is no memory for must not be missed: flush() gives up the link. */
	if (channel_send(&link->channel, type, cell, payload, fds, n) < 0)
		link->is_torn = true;
	/* Sent before the worker may begin the command. */
	loop_turn_defer_first(&link->flush);
}

static void close_all(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		close_fd(&fds[i]);
}

void egress_cell_refuse(struct egress_cell *cell, const char *why)
{
	char what[LIMIT_TROUBLE_BYTES];

	if (why && cell->troubled) {
		snprintf(what, sizeof(what), "its network cannot be served: %s", why);
		cell->troubled(cell->context, what);
	}
	close_all(cell->sockets, CELL_SOCKETS_EGRESS);
	cell->state = EGRESS_CELL_REFUSED;
}

static unsigned count_sockets(const struct egress_cell *cell)
{
	return cell->sockets[CELL_SOCKET_DIAG] >= 0 ? CELL_SOCKETS_EGRESS : CELL_SOCKETS_LEAST;
}

/* Duplicates all of the cell's sockets, or none. Returns 0 or -errno. */
static int duplicate(const struct egress_cell *cell, int ret[CELL_SOCKETS_EGRESS])
{
	for (unsigned i = 0; i < count_sockets(cell); i++) {
		ret[i] = fcntl(cell->sockets[i], F_DUPFD_CLOEXEC, 0);
		if (ret[i] < 0) {
			int r = -errno;

			close_all(ret, i);
			return r;
		}
	}
	return 0;
}

static void send_call(const struct network_use *use)
{
	const struct egress_call message = {
		.call = use->call, .address = use->address, .cgroup = use->cgroup};
	uint8_t payload[32];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	egress_call_put(&writer, &message);
	egress_cell_send(use->cell->link, EGRESS_CALL, use->cell->number,
		(struct text){(char *)payload, writer.len}, NULL, 0);
}

/*
 * A message has names, and a directory is called by its path, which may be longer. The name of a
 * tenant in a configuration fits; that of user mode, a user's, may not, and nothing depends on it.
 */
void egress_cell_tell(struct egress_cell *cell)
{
	const unsigned n_sockets = count_sockets(cell);
	const struct egress_open message = {.sockets = (uint8_t)((1U << n_sockets) - 1),
		.tenant = utf8_cut(text_from(cell->tenant), LIMIT_CONFIG_NAME_BYTES),
		.workspace = utf8_cut(text_from(cell->workspace), LIMIT_NAME_BYTES),
		.is_narrowed = cell->allow != NULL,
		.allow = text_from(cell->allow)};
	static uint8_t payload[WIRE_PAYLOAD_MAX];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct network_use *use;
	int fds[CELL_SOCKETS_EGRESS], r;

	egress_open_put(&writer, &message);
	r = wire_writer_ok(&writer) ? duplicate(cell, fds) : -EMSGSIZE;
	if (r < 0) {
		egress_cell_refuse(cell, strerror(-r));
		return;
	}
	cell->state = EGRESS_CELL_TOLD;
	egress_cell_send(cell->link, EGRESS_OPEN, cell->number,
		(struct text){(char *)payload, writer.len}, fds, n_sockets);
	LIST_FOREACH (use, &cell->uses, entry)
		send_call(use);
}

struct network_use *egress_cell_use(const struct egress_cell *cell, uint64_t call)
{
	struct network_use *use;

	LIST_FOREACH (use, &cell->uses, entry)
		if (use->call == call)
			return use;
	return NULL;
}

static void leave_egress_cell(struct network_use *use)
{
	LIST_REMOVE(use, entry);
	use->cell = NULL;
}

void egress_use_over(struct network_use *use)
{
	bool waited = use->is_ending;

	leave_egress_cell(use);
	if (waited)
		use->ended(use->context);
}

static char *copy_egress_text(const char *text, bool *failed)
{
	char *made = text ? strdup(text) : NULL;

	*failed |= text && !made;
	return made;
}

struct egress_cell *egress_cell_new(
	struct egress_link *link, const struct egress_cell_words *words, const int *sockets)
{
	struct egress_cell *cell = calloc(1, sizeof(*cell));
	struct sockaddr_in address = {0};
	socklen_t size = sizeof(address);
	bool failed = false;

	if (!cell) {
		for (unsigned i = 0; i < CELL_SOCKETS_EGRESS && sockets[i] >= 0; i++)
			close(sockets[i]);
		return NULL;
	}
	LIST_INIT(&cell->uses);
	cell->link = link;
	memcpy(cell->sockets, sockets, sizeof(cell->sockets));
	cell->troubled = words->troubled;
	cell->context = words->context;
	cell->number = ++link->last_cell;
	if (getsockname(sockets[CELL_SOCKET_PROXY], (struct sockaddr *)&address, &size) == 0)
		cell->port = ntohs(address.sin_port);
	cell->tenant = copy_egress_text(words->tenant, &failed);
	cell->workspace = copy_egress_text(words->workspace, &failed);
	cell->allow = copy_egress_text(words->allow, &failed);
	LIST_INSERT_HEAD(&link->cells, cell, entry);
	LIST_INSERT_HEAD(&link->numbered[cell->number % EGRESS_CELL_LISTS], cell, numbered);
	if (failed) {
		egress_cell_free(cell);
		return NULL;
	}
	if (link->gone)
		egress_cell_refuse(cell, NULL);
	else if (link->ready)
		egress_cell_tell(cell);
	return cell;
}

void egress_cell_end(struct egress_cell *cell)
{
	struct network_use *use, *next;

	if (!cell)
		return;
	for (use = LIST_FIRST(&cell->uses); use; use = next) {
		next = LIST_NEXT(use, entry);
		egress_use_over(use);
	}
	egress_cell_free(cell);
}

void egress_cell_free(struct egress_cell *cell)
{
	if (!cell)
		return;
	while (!LIST_EMPTY(&cell->uses))
		leave_egress_cell(LIST_FIRST(&cell->uses));
	if (cell->state == EGRESS_CELL_TOLD)
		egress_cell_send(
			cell->link, EGRESS_CLOSE, cell->number, (struct text){NULL, 0}, NULL, 0);
	LIST_REMOVE(cell, entry);
	LIST_REMOVE(cell, numbered);
	close_all(cell->sockets, CELL_SOCKETS_EGRESS);
	free(cell->tenant);
	free(cell->workspace);
	free(cell->allow);
	free(cell);
}

const char *egress_cell_tenant(const struct egress_cell *cell)
{
	return cell->tenant;
}

const char *egress_cell_workspace(const struct egress_cell *cell)
{
	return cell->workspace;
}

uint16_t egress_cell_port(const struct egress_cell *cell)
{
	return cell->port;
}

static bool is_address_used(const struct egress_cell *cell, uint16_t address)
{
	struct network_use *use;

	LIST_FOREACH (use, &cell->uses, entry)
		if (use->address == address)
			return true;
	return false;
}

/* Addresses count up, so that one is used again only when 65,535 calls have had others. */
void egress_use_begin(struct egress_cell *cell, struct network_use *use, uint64_t call)
{
	do
		cell->last_address++;
	while (cell->last_address == 0 || is_address_used(cell, cell->last_address));
	use->cell = cell;
	use->call = call;
	use->address = cell->last_address;
	use->port = cell->port;
	LIST_INSERT_HEAD(&cell->uses, use, entry);
	if (cell->state == EGRESS_CELL_TOLD)
		send_call(use);
}

void egress_use_cgroup(struct network_use *use, uint64_t cgroup)
{
	use->cgroup = cgroup;
	if (use->cell && use->cell->state == EGRESS_CELL_TOLD)
		send_call(use);
}

bool egress_use_end(struct network_use *use)
{
	const struct egress_call_end message = {.call = use->call};
	uint8_t payload[16];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	if (!use->cell)
		return false;
	if (use->cell->state != EGRESS_CELL_TOLD) {
		leave_egress_cell(use);
		return false;
	}
	use->is_ending = true;
	egress_call_end_put(&writer, &message);
	egress_cell_send(use->cell->link, EGRESS_CALL_END, use->cell->number,
		(struct text){(char *)payload, writer.len}, NULL, 0);
	return true;
}

void egress_use_forget(struct network_use *use)
{
	if (!use->cell)
		return;
	if (use->cell->state == EGRESS_CELL_TOLD && !use->is_ending)
		(void)egress_use_end(use);
	leave_egress_cell(use);
}
