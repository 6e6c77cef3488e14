// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. A cell's sockets come from cloisterd, which says whose they are; here is
 * checked what can be: the tenant's policy, the sockets' kinds and their owner.
 */
#include "common/cleanup.h"
#include "common/links.h"
#include "common/monotonic.h"
#include "common/tenant_log.h"
#include "egress/conn.h"
#include "egress/egress.h"
#include "egress/resolver.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define RESUME_US 100000
#define DNS_BYTES (104 * KIB) /* of questions that wait; twice it is the usual default */

struct cell *cell_find(struct egress *egress, uint64_t number)
{
	struct cell *cell;

	LIST_FOREACH (cell, &egress->cells, entry)
		if (cell->number == number)
			return cell;
	return NULL;
}

static struct tenant *find_tenant(struct egress *egress, struct text name)
{
	struct tenant *tenant;

	LIST_FOREACH (tenant, &egress->tenants, entry)
		if (text_equal(text_from(tenant->name), name))
			return tenant;
	return NULL;
}

static struct tenant *have_tenant(
	struct egress *egress, struct text name, const struct egress_tenant *policy)
{
	struct tenant *tenant = find_tenant(egress, name);

	if (tenant) {
		tenant->policy = policy;
		return tenant;
	}
	tenant = calloc(1, sizeof(*tenant));
	if (!tenant)
		return NULL;
	snprintf(tenant->name, sizeof(tenant->name), "%.*s", (int)name.len, name.data);
	tenant->policy = policy;
	LIST_INSERT_HEAD(&egress->tenants, tenant, entry);
	return tenant;
}

/* A tenant without cells keeps what it has used: another cell must not give it all again. */
static void leave_tenant(struct egress *egress, struct tenant *tenant)
{
	if (--tenant->n_cells == 0)
		egress->n_tenants--;
}

static void forget_tenant(struct egress *egress, struct tenant *tenant)
{
	resolver_forget(egress->resolver, &tenant->usage.left);
	LIST_REMOVE(tenant, entry);
	free(tenant);
}

uint64_t cell_share(const struct cell *cell, uint64_t limit)
{
	return cell->tenant->n_cells > 1 ? (limit + 1) / 2 : limit;
}

/*
 * A tenant's connections, with some beyond its limit that are accepted to be refused, and of these
 * a workspace's share: clients that ask for nothing must not keep out those of other workspaces. If
 * most of all descriptors are in use, no tenant gets more than its equal share.
 */
static bool cell_has_room(const struct cell *cell)
{
	const struct egress *egress = cell->egress;
	const struct tenant *tenant = cell->tenant;
	uint64_t limit = tenant->policy ? tenant->policy->connections : 0;
	uint64_t accepted = limit > 0 ? limit + LIMIT_EGRESS_EXTRA : egress->max_open / 4 * 3;

	if (egress_is_behind(egress) || egress->open + egress->n_sockets / 2 >= egress->max_open)
		return false;
	if (cell->usage.open >= cell_share(cell, accepted))
		return false;
	if (limit > 0 && tenant->usage.open >= accepted)
		return false;
	return egress->open < egress->max_open / 4 * 3 ||
	       tenant->usage.open < egress->max_open / egress->n_tenants;
}

static void pause_accepting(struct door *door)
{
	event_del(&door->accept);
	if (door->is_paused)
		return;
	door->is_paused = true;
	TAILQ_INSERT_TAIL(&door->cell->egress->paused, door, paused);
}

static void pause_no_more(struct door *door)
{
	if (door->is_paused)
		TAILQ_REMOVE(&door->cell->egress->paused, door, paused);
	door->is_paused = false;
}

/* The kernel is short of descriptors, memory or watches, for now. */
static void try_later(struct door *door)
{
	static const struct timeval pause = {0, RESUME_US};

	pause_accepting(door);
	event_add(&door->cell->egress->resume, &pause);
}

static void accept_again(struct door *door)
{
	pause_no_more(door);
	if (event_add(&door->accept, NULL) < 0)
		try_later(door);
}

void cell_pause_dns(struct cell *cell)
{
	cell->egress->n_dns_paused += !cell->is_dns_paused;
	cell->is_dns_paused = true;
	event_del(&cell->questions);
}

static void dns_pause_no_more(struct cell *cell)
{
	cell->egress->n_dns_paused -= cell->is_dns_paused;
	cell->is_dns_paused = false;
}

static void resume_dns(struct egress *egress)
{
	struct cell *cell;

	LIST_FOREACH (cell, &egress->cells, entry) {
		if (!cell->is_dns_paused)
			continue;
		dns_pause_no_more(cell);
		event_add(&cell->questions, NULL);
	}
}

void cells_resume(struct egress *egress)
{
	struct door_queue paused = TAILQ_HEAD_INITIALIZER(paused);
	struct door *door;

	/* Apart, because one that is paused again comes behind them. */
	TAILQ_CONCAT(&paused, &egress->paused, paused);
	while ((door = TAILQ_FIRST(&paused))) {
		TAILQ_REMOVE(&paused, door, paused);
		TAILQ_INSERT_TAIL(&egress->paused, door, paused);
		if (cell_has_room(door->cell))
			accept_again(door);
	}
	if (egress->n_dns_paused > 0 && !egress_is_behind(egress))
		resume_dns(egress);
}

void cell_calls_ended(struct cell *cell)
{
	if (!wake_cost_add_both(&cell->tenant->cost, &cell->cost, wake_cost_stop()) ||
		cell->dear_until_ms > 0)
		return;
	cell->dear_until_ms = monotonic_ms() + LIMIT_DEAR_CELL_MS;
	if (!tenant_log_may(text_from(cell->tenant->name)))
		return;
	fprintf(stderr,
		"cloister-egress: tenant %s, workspace %s: system calls on its connections took "
		"too much CPU time, since its programs have too many waiters there, such as "
		"watches of epoll(7); it has no connections for %d s\n",
		cell->tenant->name, cell->workspace, LIMIT_DEAR_CELL_MS / 1000);
}

bool cell_is_dear(struct cell *cell)
{
	if (cell->dear_until_ms > 0 && monotonic_ms() >= cell->dear_until_ms) {
		cell->dear_until_ms = 0;
		cell->cost = (struct wake_cost_sum){0};
	}
	return cell->dear_until_ms > 0;
}

/* One client in a turn of the loop, which comes back at once if there are more. */
static void on_accept(evutil_socket_t fd, short what, void *context)
{
	struct door *door = context;
	int client;

	(void)what;
	if (!cell_has_room(door->cell)) {
		pause_accepting(door);
		return;
	}
	client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (client >= 0)
		conn_begin(door, client);
	else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		try_later(door);
}

static bool option_is(int fd, int option, int expected)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == expected;
}

static bool is_listener(int fd)
{
	return option_is(fd, SO_TYPE, SOCK_STREAM) && option_is(fd, SO_PROTOCOL, IPPROTO_TCP) &&
	       option_is(fd, SO_ACCEPTCONN, 1);
}

static bool is_udp(int fd)
{
	return option_is(fd, SO_TYPE, SOCK_DGRAM) && option_is(fd, SO_PROTOCOL, IPPROTO_UDP);
}

static bool is_netlink(int fd)
{
	return option_is(fd, SO_DOMAIN, AF_NETLINK);
}

/* What each socket is, in the order of enum egress_socket. */
static const struct {
	uint8_t kind;
	bool (*is)(int fd);
	const char *wrong;
} kinds[EGRESS_SOCKETS] = {
	{EGRESS_PROXY, is_listener, "the proxy's socket is not a TCP socket that listens"},
	{EGRESS_DNS, is_udp, "the socket for DNS is not a UDP socket"},
	{EGRESS_HTTP, is_listener, "the socket of port 80 is not a TCP socket that listens"},
	{EGRESS_HTTPS, is_listener, "the socket of port 443 is not a TCP socket that listens"},
	{EGRESS_DNS_TCP, is_listener, "the socket for DNS over TCP is not one that listens"},
	{EGRESS_DIAG, is_netlink, "the socket for sock_diag is not a netlink socket"},
};

/* Returns NULL, or what is wrong with the cell's sockets. */
static const char *check_sockets(uint8_t sockets, const int *fds)
{
	struct stat first, other;
	unsigned at = 0;

	if (fstat(fds[0], &first) < 0)
		return "the proxy's socket is not a TCP socket that listens";
	for (unsigned i = 0; i < EGRESS_SOCKETS; i++) {
		if (!(sockets & kinds[i].kind))
			continue;
		if (!kinds[i].is(fds[at]))
			return kinds[i].wrong;
		if (fstat(fds[at], &other) < 0 || other.st_uid != first.st_uid)
			return "the cell's sockets have different owners";
		at++;
	}
	return NULL;
}

/* In system mode a workspace has an id of its own, and one tenant. */
static const char *check_owner(struct egress *egress, struct text tenant, int proxy)
{
	struct stat mine, other;
	struct cell *cell;

	if (!egress->is_system)
		return NULL;
	if (fstat(proxy, &mine) < 0 || mine.st_uid == 0 || mine.st_uid == geteuid())
		return "the proxy's socket does not belong to a workspace";
	LIST_FOREACH (cell, &egress->cells, entry)
		if (fstat(cell->doors[0].fd, &other) == 0 && other.st_uid == mine.st_uid &&
			!text_equal(text_from(cell->tenant->name), tenant))
			return "the proxy's socket belongs to a workspace of another tenant";
	return NULL;
}

static int read_narrowed(
	struct cell *cell, const struct egress_open *request, char *why, size_t size)
{
	struct text rest = request->allow;
	int r = 0;

	cell->is_narrowed = request->is_narrowed;
	while (r == 0 && rest.len > 0) {
		struct text word = text_take(&rest, ' ');

		if (word.len > 0)
			r = rules_add(&cell->narrowed, word, false,
				egress_policy_sets(cell->egress->policy), why, size);
	}
	return r;
}

static const char *refuses(struct egress *egress, const struct egress_open *request, const int *fds,
	const struct egress_tenant *policy)
{
	const char *wrong;

	if (!policy || !policy->has_network)
		return "the configuration gives this tenant no network (network = egress)";
	if (egress->n_cells >= LIMIT_EGRESS_CELLS)
		return "too many cells are open";
	if (2 * egress->open + egress->n_sockets + egress_sockets_count(request->sockets) >
		egress->max_sockets)
		return "too many cells are open for the limit of its descriptors; raise "
		       "LimitNOFILE";
	wrong = check_sockets(request->sockets, fds);
	return wrong ? wrong : check_owner(egress, request->tenant, fds[0]);
}

static void cell_free(struct cell *cell)
{
	for (unsigned i = 0; i < CELL_DOORS; i++)
		close_fd(&cell->doors[i].fd);
	close_fd(&cell->dns);
	close_fd(&cell->diag);
	rules_done(&cell->narrowed);
	free(cell->commands);
	free(cell);
}

static struct cell *cell_new(
	struct egress *egress, uint64_t number, const struct egress_open *request)
{
	struct cell *cell = calloc(1, sizeof(*cell));

	if (!cell)
		return NULL;
	*cell = (struct cell){.egress = egress,
		.number = number,
		.n_sockets = egress_sockets_count(request->sockets),
		.dns = -1,
		.diag = -1};
	for (unsigned i = 0; i < CELL_DOORS; i++)
		cell->doors[i].fd = -1;
	LIST_INIT(&cell->conns);
	snprintf(cell->workspace, sizeof(cell->workspace), "%.*s", (int)request->workspace.len,
		request->workspace.data ? request->workspace.data : "");
	return cell;
}

void socket_bound_buffers(int fd)
{
	const int bytes = LIMIT_EGRESS_BUFFER_BYTES;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* Begins to serve one socket, which it takes. What is accepted there has its options. tcp(7) */
static void take_door(struct cell *cell, struct door *door, uint8_t kind, int fd)
{
	const int one = 1;

	*door = (struct door){.cell = cell, .kind = kind, .fd = fd};
	evutil_make_socket_nonblocking(fd);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	socket_bound_buffers(fd);
	event_assign(&door->accept, cell->egress->base, fd, EV_READ | EV_PERSIST, on_accept, door);
	accept_again(door);
}

static void take_dns(struct cell *cell, int fd)
{
	const int bytes = DNS_BYTES, one = 1;

	cell->dns = fd;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	/* By the clock of the host: socket(7). */
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	event_assign(
		&cell->questions, cell->egress->base, fd, EV_READ | EV_PERSIST, dns_serve, cell);
	event_add(&cell->questions, NULL);
}

static void take_sockets(struct cell *cell, uint8_t sockets, int *fds)
{
	unsigned n_doors = 0;

	for (unsigned i = 0; i < EGRESS_SOCKETS; i++) {
		uint8_t kind = kinds[i].kind;

		if (!(sockets & kind))
			continue;
		if (kind == EGRESS_DIAG)
			cell->diag = TAKE_FD(*fds);
		else if (kind == EGRESS_DNS)
			take_dns(cell, TAKE_FD(*fds));
		else
			take_door(cell, &cell->doors[n_doors++], kind, TAKE_FD(*fds));
		fds++;
	}
}

/* Some kernels have no such answer: CONFIG_INET_DIAG, CONFIG_SOCK_CGROUP_DATA, Linux 5.8. */
static void check_diag(struct cell *cell)
{
	static bool is_said;

	if (cell->diag < 0 || attribution_is_told(cell))
		return;
	close_fd(&cell->diag);
	if (!is_said)
		fprintf(stderr, "cloister-egress: the kernel does not say whose connections are; "
				"what commands do at once without a proxy is no command's\n");
	is_said = true;
}

int cell_open(struct egress *egress, uint64_t number, const struct egress_open *request, int *fds,
	char *why, size_t size)
{
	const struct egress_tenant *policy = egress_policy_tenant(egress->policy, request->tenant);
	const char *wrong = refuses(egress, request, fds, policy);
	struct cell *cell;

	if (wrong) {
		snprintf(why, size, "%s", wrong);
		return -EACCES;
	}
	cell = cell_new(egress, number, request);
	snprintf(why, size, "memory is out");
	if (!cell)
		return -ENOMEM;
	if (read_narrowed(cell, request, why, size) < 0) {
		cell_free(cell);
		return -EINVAL;
	}
	cell->tenant = have_tenant(egress, request->tenant, policy);
	if (!cell->tenant) {
		cell_free(cell);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&egress->cells, cell, entry);
	egress->n_cells++;
	egress->n_sockets += cell->n_sockets;
	egress->n_tenants += cell->tenant->n_cells++ == 0;
	take_sockets(cell, request->sockets, fds);
	check_diag(cell);
	return 0;
}

static void end_conns(struct cell *cell, uint64_t call)
{
	struct conn *conn, *next;

	for (conn = LIST_FIRST(&cell->conns); conn; conn = next) {
		next = conn_next(conn);
		if (call == 0 || conn_call(conn) == call)
			conn_abort(conn);
	}
}

void cell_close(struct cell *cell)
{
	struct egress *egress = cell->egress;

	/* Before what is said of its connections: whoever hears that may use the ports again. */
	for (unsigned i = 0; i < CELL_DOORS && cell->doors[i].fd >= 0; i++) {
		event_del(&cell->doors[i].accept);
		pause_no_more(&cell->doors[i]);
		close_fd(&cell->doors[i].fd);
	}
	if (cell->dns >= 0)
		event_del(&cell->questions);
	dns_pause_no_more(cell);
	end_conns(cell, 0);
	resolver_forget(egress->resolver, &cell->usage.left);
	LIST_REMOVE(cell, entry);
	egress->n_cells--;
	egress->n_sockets -= cell->n_sockets;
	leave_tenant(egress, cell->tenant);
	cell_free(cell);
	cells_resume(egress);
}

static void renew_conns(struct cell *cell)
{
	struct conn *conn, *next;

	for (conn = LIST_FIRST(&cell->conns); conn; conn = next) {
		next = conn_next(conn);
		conn_renew(conn);
	}
}

void cells_renew(struct egress *egress)
{
	struct tenant *tenant, *next;
	struct cell *cell;

	for (tenant = LIST_FIRST(&egress->tenants); tenant; tenant = next) {
		next = LIST_NEXT(tenant, entry);
		tenant->policy = egress_policy_tenant(egress->policy, text_from(tenant->name));
		if (tenant->policy && !tenant->policy->has_network)
			tenant->policy = NULL;
		if (!tenant->policy && tenant->n_cells == 0)
			forget_tenant(egress, tenant);
	}
	LIST_FOREACH (cell, &egress->cells, entry)
		renew_conns(cell);
	cells_resume(egress);
}

struct egress_command *cell_command(struct cell *cell, uint64_t number)
{
	for (size_t i = 0; number != 0 && i < cell->n_commands; i++)
		if (cell->commands[i].number == number)
			return &cell->commands[i];
	return NULL;
}

int cell_add_command(struct cell *cell, const struct egress_call *request)
{
	struct egress_command *known = cell_command(cell, request->call), *grown;

	if (known &&
		(known->cgroup != 0 || request->cgroup == 0 || known->address != request->address))
		return -EEXIST;
	if (known) {
		known->cgroup = request->cgroup;
		return 0;
	}
	if (cell->n_commands >= LIMIT_EGRESS_CALLS)
		return -E2BIG;
	grown = reallocarray(cell->commands, cell->n_commands + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	cell->commands = grown;
	grown[cell->n_commands++] = (struct egress_command){.number = request->call,
		.address = request->address,
		.cgroup = request->cgroup,
		.sums = {.call = request->call}};
	return 0;
}

void cell_end_command(struct cell *cell, uint64_t number)
{
	struct egress_command *command = cell_command(cell, number);
	uint8_t bytes[sizeof(struct egress_call_ended)];
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));

	if (!command)
		return;
	end_conns(cell, number);
	egress_call_ended_put(&writer, &command->sums);
	*command = cell->commands[--cell->n_commands];
	/* Of the questions that wait nothing may be taken for another command's. */
	if (cell->diag >= 0)
		clock_gettime(CLOCK_REALTIME, &cell->command_ended);
	egress_send(cell->egress, EGRESS_CALL_ENDED, cell->number, &writer);
}
