// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/spawner_link.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

struct spawner_link {
	struct fake_asked *asked; /* the oldest first */
	struct fake_cell *cells;
	uint64_t last;
	int refuses, broken;
	uint32_t refused_layers; /* a cell with as many layers; 0: none */
	int refused_error;
	int loads;        /* the answer to SPAWNER_LOAD */
	char loaded[640]; /* the template of the last one */
	void (*worked)(void *context, const struct spawner_worked *message);
	void *hearer;
	unsigned reloads;
	bool tells_ports;
	char removed[256], dropped[640], folding[640], measuring[640];
	bool dropped_template;
	char *imported;  /* the path that was looked up last, to be imported */
	uint64_t let_go; /* one bit for each number below 64 */
};

int (*fake_spawner_imports)(const char *path, struct unpack_report *ret_report);

struct spawner_link *fake_spawner_new(void)
{
	struct spawner_link *link = calloc(1, sizeof(*link));

	assert_non_null(link);
	link->loads = -EOPNOTSUPP;
	return link;
}

static void asked_free(struct fake_asked *asked)
{
	for (unsigned i = 0; i < asked->n_fds; i++)
		close_fd(&asked->fds[i]);
	free(asked->path);
	free(asked->template);
	free(asked->target);
	free(asked);
}

void fake_spawner_free(struct spawner_link *link)
{
	while (link->asked) {
		struct fake_asked *asked = link->asked;

		link->asked = asked->next;
		asked_free(asked);
	}
	while (link->cells) {
		struct fake_cell *cell = link->cells;

		link->cells = cell->next;
		fake_process_done(&cell->worker);
		fake_process_done(&cell->files);
		free(cell);
	}
	free(link->imported);
	free(link);
}

struct fake_asked *fake_spawner_asked(struct spawner_link *link)
{
	return link->asked;
}

void spawner_link_hear(struct spawner_link *link,
	void (*worked)(void *context, const struct spawner_worked *message), void *context)
{
	link->worked = worked;
	link->hearer = context;
}

void spawner_link_measure(struct spawner_link *link, const char *tenant, const char *name)
{
	snprintf(link->measuring, sizeof(link->measuring), "%s/%s", tenant, name);
}

const char *fake_spawner_measuring(const struct spawner_link *link)
{
	return link->measuring;
}

void fake_spawner_work(struct spawner_link *link, const struct spawner_worked *message)
{
	link->worked(link->hearer, message);
}

void fake_spawner_refuse(struct spawner_link *link, int error)
{
	link->refuses = error;
}

void fake_spawner_refuse_layers(struct spawner_link *link, uint32_t count, int error)
{
	link->refused_layers = count;
	link->refused_error = error;
}

void fake_spawner_load(struct spawner_link *link, int error)
{
	link->loads = error;
}

const char *fake_spawner_loaded(const struct spawner_link *link)
{
	return link->loaded;
}

void fake_spawner_break(struct spawner_link *link, int error)
{
	link->broken = error;
}

struct fake_cell *fake_spawner_cells(struct spawner_link *link)
{
	return link->cells;
}

void fake_spawner_tell_ports(struct spawner_link *link)
{
	link->tells_ports = true;
}

unsigned fake_spawner_reloads(const struct spawner_link *link)
{
	return link->reloads;
}

static void take_out(struct spawner_link *link, struct fake_asked *asked)
{
	struct fake_asked **at = &link->asked;

	while (*at != asked)
		at = &(*at)->next;
	*at = asked->next;
}

static void answer_file(struct spawner_link *link, struct fake_asked *asked)
{
	static struct spawner_looked_up where;
	size_t length = strlen(asked->path);
	bool is_directory = length > 0 && asked->path[length - 1] == '.';

	free(link->imported);
	link->imported = TAKE_PTR(asked->path);
	where.kind = is_directory ? LOOKED_UP_DIRECTORY : LOOKED_UP_FILE;
	asked->looked(asked->context, 0, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), &where);
}

static void answer_import(struct spawner_link *link, struct fake_asked *asked)
{
	uint8_t payload[UNPACK_REPORT_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct unpack_report report = {0};
	int r = fake_spawner_imports ? fake_spawner_imports(link->imported, &report) : 0;

	unpack_report_put(&writer, &report);
	if (fake_spawner_imports && asked->type == SPAWNER_UNPACK)
		assert_int_equal(
			write(asked->fds[SPAWNER_UNPACK_REPORT], payload, writer.len), writer.len);
	asked->copied(asked->context, r, (struct text){NULL, 0});
}

static int answer_look_up(struct fake_asked *asked)
{
	static struct spawner_looked_up where;
	const char *path = asked->path + strspn(asked->path, "/");
	int fd = openat(asked->fds[0], path[0] ? path : ".",
		O_PATH | O_CLOEXEC | (asked->file ? 0 : O_DIRECTORY));
	struct stat status;

	if (fd < 0)
		return -errno;
	assert_int_equal(fstat(fd, &status), 0);
	where.kind = S_ISDIR(status.st_mode) ? LOOKED_UP_DIRECTORY : LOOKED_UP_FILE;
	where.may_enter = faccessat(fd, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
	where.n_parents = directory_parents_list(fd, where.parents, LIMIT_ROOT_PARENTS);
	asked->looked(asked->context, 0, fd, &where);
	return 0;
}

static struct fake_cell *add_cell(struct spawner_link *link)
{
	struct fake_cell *cell = calloc(1, sizeof(*cell));

	assert_non_null(cell);
	cell->worker.life = cell->files.life = -1;
	cell->next = link->cells;
	link->cells = cell;
	return cell;
}

/* @first is the index of the cell's four channel ends in @asked->fds. */
static struct fake_cell *answer_cell(
	struct spawner_link *link, struct fake_asked *asked, unsigned first)
{
	struct fake_cell *cell = add_cell(link);
	int *fds = &asked->fds[first], pidfds[SPAWNER_OPENED_MOST];

	memset(pidfds, -1, sizeof(pidfds));
	pidfds[SPAWNER_OPENED_WORKER] = fake_process_start(&cell->worker, fds[0], fds[1]);
	pidfds[SPAWNER_OPENED_FILES] = fake_process_start(&cell->files, fds[2], fds[3]);
	fds[0] = fds[1] = fds[2] = fds[3] = -1;
	if (link->tells_ports)
		pidfds[SPAWNER_OPENED_SOCKETS + CELL_SOCKET_PORTS] = socket(
			AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	asked->answer(asked->context, 0, (struct text){NULL, 0}, pidfds);
	return cell;
}

static struct fake_cell *answer_files(struct spawner_link *link, struct fake_asked *asked)
{
	struct fake_cell *cell = add_cell(link);
	int *fds = &asked->fds[SPAWNER_OPEN_FILES_DOWN_AGAIN];
	int pidfds[SPAWNER_OPENED_MOST];

	memset(pidfds, -1, sizeof(pidfds));
	pidfds[SPAWNER_OPENED_FILES] = fake_process_start(&cell->files, fds[0], fds[1]);
	fds[0] = fds[1] = -1;
	asked->answer(asked->context, 0, (struct text){NULL, 0}, pidfds);
	return cell;
}

struct fake_cell *fake_spawner_answer(struct spawner_link *link, struct fake_asked *asked)
{
	int none[SPAWNER_OPENED_MOST], r;
	struct fake_cell *cell = NULL;

	memset(none, -1, sizeof(none));
	if (link->refuses) {
		fake_spawner_fail(link, asked, link->refuses, TEXT_LITERAL("do as asked"));
		return NULL;
	}
	if (link->refused_layers > 0 && asked->request.layers.count == link->refused_layers) {
		fake_spawner_fail(link, asked, link->refused_error, TEXT_LITERAL("do as asked"));
		return NULL;
	}
	take_out(link, asked);
	switch (asked->type) {
	case SPAWNER_IMPORT:
	case SPAWNER_UNPACK:
		answer_import(link, asked);
		break;
	case SPAWNER_LOAD:
		asked->copied(asked->context, link->loads, TEXT_LITERAL("load it"));
		break;
	case SPAWNER_WHERE:
		asked->copied(asked->context, 0, TEXT_LITERAL("it waits somewhere"));
		break;
	case SPAWNER_FREEZE:
	case SPAWNER_FORK:
		asked->copied(asked->context, 0, (struct text){NULL, 0});
		break;
	case SPAWNER_LOOK_UP:
		if (fake_spawner_imports && asked->file) {
			answer_file(link, asked);
			break;
		}
		r = answer_look_up(asked);
		if (r < 0)
			asked->looked(asked->context, r, -1, NULL);
		break;
	case SPAWNER_OPEN:
		cell = answer_cell(link, asked, SPAWNER_OPEN_WORKER_DOWN);
		break;
	case SPAWNER_PREPARE:
		cell = answer_cell(link, asked, SPAWNER_PREPARE_WORKER_DOWN);
		break;
	case SPAWNER_OPEN_FILES:
		cell = answer_files(link, asked);
		break;
	default:
		assert_int_equal(asked->type, SPAWNER_ASSIGN);
		asked->answer(asked->context, 0, (struct text){NULL, 0}, none);
	}
	asked_free(asked);
	return cell;
}

void fake_spawner_fail(
	struct spawner_link *link, struct fake_asked *asked, int error, struct text step)
{
	int none[SPAWNER_OPENED_MOST];

	memset(none, -1, sizeof(none));
	take_out(link, asked);
	if (asked->copied)
		asked->copied(asked->context, error, step);
	else if (asked->looked)
		asked->looked(asked->context, error, -1, NULL);
	else
		asked->answer(asked->context, error, step, none);
	asked_free(asked);
}

/* spawner_link.h */

static struct fake_asked *ask(struct spawner_link *link, uint8_t type)
{
	struct fake_asked *asked = calloc(1, sizeof(*asked)), **end = &link->asked;

	assert_non_null(asked);
	asked->type = type;
	asked->number = ++link->last;
	while (*end)
		end = &(*end)->next;
	*end = asked;
	return asked;
}

int spawner_link_open(struct spawner_link *link, uint8_t type, const struct spawner_open *request,
	const int *fds, spawner_answer answer, void *context, uint64_t *ret_cell)
{
	static const unsigned n_fds[] = {
		[SPAWNER_OPEN] = SPAWNER_OPEN_FDS,
		[SPAWNER_OPEN_FILES] = SPAWNER_OPEN_FILES_FDS,
		[SPAWNER_PREPARE] = SPAWNER_PREPARE_FDS,
		[SPAWNER_ASSIGN] = SPAWNER_ASSIGN_FDS,
	};
	struct fake_asked *asked;

	if (link->broken) {
		for (unsigned i = 0; i < n_fds[type]; i++)
			close(fds[i]);
		return link->broken;
	}
	asked = ask(link, type);
	asked->request = *request;
	asked->n_fds = n_fds[type];
	memcpy(asked->fds, fds, n_fds[type] * sizeof(int));
	asked->answer = answer;
	asked->context = context;
	*ret_cell = asked->number;
	return 0;
}

int spawner_link_look_up(struct spawner_link *link, const struct spawner_look_up *request, int from,
	spawner_looked looked, void *context, uint64_t *ret_number)
{
	struct fake_asked *asked;

	if (link->broken)
		return link->broken;
	asked = ask(link, SPAWNER_LOOK_UP);
	asked->path = strndup(request->path.data, request->path.len);
	asked->below = request->below;
	asked->file = request->file;
	asked->fds[0] = fcntl(from, F_DUPFD_CLOEXEC, 0);
	asked->n_fds = 1;
	asked->looked = looked;
	asked->context = context;
	*ret_number = asked->number;
	return 0;
}

int spawner_link_copy(struct spawner_link *link, uint8_t type, const struct spawner_copy *request,
	const int *fds, spawner_copied copied, void *context, uint64_t *ret_number)
{
	struct fake_asked *asked;

	if (link->broken)
		return link->broken;
	asked = ask(link, type);
	if (type == SPAWNER_IMPORT || type == SPAWNER_UNPACK)
		asked->n_fds = type == SPAWNER_UNPACK ? SPAWNER_UNPACK_FDS : 1;
	for (unsigned i = 0; i < asked->n_fds; i++)
		asked->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
	asked->path = strndup(request->tenant.data, request->tenant.len);
	asked->template = strndup(request->template.data, request->template.len);
	asked->target = strndup(request->target.data, request->target.len);
	asked->copied = copied;
	asked->context = context;
	*ret_number = asked->number;
	return 0;
}

int spawner_link_load(struct spawner_link *link, const char *tenant, const char *name,
	spawner_copied loaded, void *context, uint64_t *ret_number)
{
	struct fake_asked *asked;

	if (link->broken)
		return link->broken;
	asked = ask(link, SPAWNER_LOAD);
	snprintf(link->loaded, sizeof(link->loaded), "%s/%s", tenant, name);
	asked->copied = loaded;
	asked->context = context;
	*ret_number = asked->number;
	return 0;
}

int spawner_link_where(struct spawner_link *link, const int *pidfds, unsigned n,
	spawner_copied told, void *context, uint64_t *ret_number)
{
	struct fake_asked *asked;

	if (link->broken)
		return link->broken;
	asked = ask(link, SPAWNER_WHERE);
	for (; asked->n_fds < n; asked->n_fds++)
		asked->fds[asked->n_fds] = fcntl(pidfds[asked->n_fds], F_DUPFD_CLOEXEC, 0);
	asked->copied = told;
	asked->context = context;
	*ret_number = asked->number;
	return 0;
}

void spawner_link_forget(struct spawner_link *link, uint64_t cell)
{
	struct fake_asked *asked = link->asked;

	while (asked && asked->number != cell)
		asked = asked->next;
	if (!asked)
		return;
	take_out(link, asked);
	asked_free(asked);
}

size_t spawner_link_waiting(const struct spawner_link *link, const char *tenant)
{
	(void)link;
	(void)tenant;
	return 0;
}

void spawner_link_beside(struct spawner_link *link, bool beside)
{
	(void)link;
	(void)beside;
}

void spawner_link_reload(struct spawner_link *link)
{
	link->reloads++;
}

void spawner_link_dropped(
	struct spawner_link *link, bool template, const char *tenant, const char *path)
{
	link->dropped_template = template;
	snprintf(link->dropped, sizeof(link->dropped), "%s/%s", tenant, path);
}

void spawner_link_fold(struct spawner_link *link, const char *tenant, const char *path)
{
	snprintf(link->folding, sizeof(link->folding), "%s/%s", tenant, path);
}

const char *fake_spawner_folding(const struct spawner_link *link)
{
	return link->folding;
}

bool fake_spawner_dropped_template(const struct spawner_link *link)
{
	return link->dropped_template;
}

void spawner_link_let_go(struct spawner_link *link, uint64_t number)
{
	if (number < 64)
		link->let_go |= 1ULL << number;
}

bool fake_spawner_has_let_go(const struct spawner_link *link, uint64_t number)
{
	return link->let_go >> number & 1;
}

const char *fake_spawner_dropped(const struct spawner_link *link)
{
	return link->dropped;
}

void spawner_link_removed(struct spawner_link *link, const char *tenant, const char *name)
{
	if (link)
		snprintf(link->removed, sizeof(link->removed), "%s/%s", tenant, name);
}

const char *fake_spawner_removed(const struct spawner_link *link)
{
	return link->removed;
}

int spawner_link_start(
	const struct spawner_start *start, struct spawner_link **ret, char **ret_message)
{
	(void)start;
	(void)ret;
	(void)ret_message;
	fail_msg("no test starts a spawner here");
	return -ENOSYS;
}

int spawner_link_watch(struct spawner_link *link, struct event_base *base,
	void (*lost)(void *context), void *context)
{
	(void)link;
	(void)base;
	(void)lost;
	(void)context;
	return 0;
}

void spawner_link_free(struct spawner_link *link)
{
	fake_spawner_free(link);
}
