// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. The requests are of cloisterd, which may have been taken over: a message
 * that it never sends ends the spawner, and what the configuration does not allow is refused.
 */
#include "worker/spawner/spawner_requests.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/selftest_tenants.h"
#include "common/tenant_log.h"
#include "worker/setup.h"
#include "worker/spawner/whereabouts.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void spawner_die(const char *what, int error)
{
	fprintf(stderr, "cloister-spawner: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

/*
 * A cloisterd that works as intended sends nothing that is refused. One that was taken over must
 * not fill the log.
 */
static void log_refusal(struct text tenant, uint64_t cell, const char *reason)
{
	if (tenant_log_may(tenant))
		fprintf(stderr, "cloister-spawner: refused cell %" PRIu64 ": %s\n", cell, reason);
}

/* The requests and their answers. The first descriptor of a request is its directory. */
static const struct request {
	unsigned n_fds, n_pidfds;
	uint8_t answer;
} requests[] = {
	[SPAWNER_OPEN] = {SPAWNER_OPEN_FDS, SPAWNER_OPENED_FDS, SPAWNER_OPENED},
	[SPAWNER_OPEN_FILES] = {SPAWNER_OPEN_FILES_FDS, 1, SPAWNER_FILES_OPENED},
	[SPAWNER_PREPARE] = {SPAWNER_PREPARE_FDS, SPAWNER_OPENED_FDS, SPAWNER_OPENED},
	[SPAWNER_ASSIGN] = {SPAWNER_ASSIGN_FDS, 0, SPAWNER_ASSIGNED},
	[SPAWNER_LOOK_UP] = {1, 1, SPAWNER_LOOKED_UP},
	[SPAWNER_FREEZE] = {SPAWNER_FREEZE_FDS, 0, SPAWNER_COPIED},
	[SPAWNER_IMPORT] = {1, 0, SPAWNER_COPIED},
	[SPAWNER_UNPACK] = {SPAWNER_UNPACK_FDS, 0, SPAWNER_COPIED},
};

_Static_assert((int)SPAWNER_OPEN_ROOT == 0 && (int)SPAWNER_OPEN_FILES_ROOT == 0 &&
		       (int)SPAWNER_ASSIGN_ROOT == 0 && (int)SPAWNER_FREEZE_ROOT == 0 &&
		       (int)SPAWNER_UNPACK_SOURCE == 0,
	"look_for looks at the first");

/* A request whose directory is being looked up. */
struct asked {
	struct spawner *spawner;
	uint8_t type;
	uint64_t number;
	struct spawner_open request;
	struct spawner_copy copy; /* of a request for a copy; its texts are in payload */
	char *payload;
	int fds[CHANNEL_FDS_MAX];
	unsigned n_fds;
	bool waits; /* cloisterd has been told that it does */
};

/*
 * Carries out a request whose directory is known. Returns 0 with the pidfds and the cell's
 * sockets, or -errno. If @ret_start is set, the work goes on and the answer follows when it has
 * ended.
 */
static int act_on_asked(const struct cell_maker *maker, const struct asked *asked,
	struct place *place, int *ret_pidfds, struct cell_sockets *ret_network,
	struct cell_start **ret_start, const char **ret_step)
{
	const struct spawner_open *request = &asked->request;

	if (maker->keyring_error < 0) {
		*ret_step = "leave the caller's session keyring";
		return maker->keyring_error;
	}
	switch (asked->type) {
	case SPAWNER_OPEN:
		return cell_make(maker, asked->number, request, asked->fds, place, ret_pidfds,
			ret_network, ret_step);
	case SPAWNER_OPEN_FILES:
		return cell_make_files(maker, request, asked->fds, place, ret_start, ret_step);
	case SPAWNER_PREPARE:
		return cell_prepare(
			maker, asked->number, request, asked->fds, ret_pidfds, ret_step);
	default:
		return cell_assign(maker, request, asked->fds, place, ret_network, ret_step);
	}
}

/* Waits while the kernel has no room for the descriptors, as cloisterd does at its end. */
static void flush_spawner_answers(struct channel *channel)
{
	int r;

	while (channel_is_short(r = channel_flush(channel)))
		poll(NULL, 0, CHANNEL_SHORT_PAUSE_MS);
	if (r < 0)
		spawner_die("answer", r);
}

static void answer_spawner_request(struct channel *channel, uint8_t type, uint64_t number,
	struct text payload, const int *fds, unsigned n)
{
	int r = channel_send(channel, type, number, payload, fds, n);

	if (r < 0)
		spawner_die("answer", r);
	flush_spawner_answers(channel);
}

static bool is_copy(uint8_t type)
{
	return type == SPAWNER_FREEZE || type == SPAWNER_IMPORT || type == SPAWNER_UNPACK;
}

static void answer_failure(const struct asked *asked, const char *step, int r)
{
	if (r == -SPAWNER_REFUSAL)
		log_refusal(is_copy(asked->type) ? asked->copy.tenant
						 : text_from(asked->request.tenant),
			asked->number, step);
	setup_report_failure(&asked->spawner->channel,
		is_copy(asked->type) ? SPAWNER_COPIED : SPAWNER_OPEN_FAILED, asked->number, step,
		r);
}

/* The answer follows when the copier has ended. */
static void begin_asked_copy(const struct asked *asked, struct place *place)
{
	const struct cell_maker *maker = &asked->spawner->maker;
	const char *step;
	int r;

	if (asked->type == SPAWNER_IMPORT)
		r = copies_import(maker, asked->number, &asked->copy, place, &step);
	else if (asked->type == SPAWNER_UNPACK)
		r = copies_unpack(maker, asked->number, &asked->copy, place,
			asked->fds[SPAWNER_UNPACK_REPORT], &step);
	else
		r = copies_freeze(maker, asked->number, &asked->copy, place,
			asked->fds[SPAWNER_FREEZE_WORKER], &step);

	if (r < 0)
		answer_failure(asked, step, r);
}

/* The worker, or the file system, that it waits for may be hostile: other requests come first. */
static void tell_waits(void *context)
{
	struct asked *asked = context;

	if (is_copy(asked->type) || asked->waits)
		return;
	asked->waits = true;
	answer_spawner_request(&asked->spawner->channel, SPAWNER_WAITS, asked->number,
		(struct text){NULL, 0}, NULL, 0);
}

static void perform(struct asked *asked, struct place *place)
{
	const struct request *kind = &requests[asked->type];
	struct cell_start *start = NULL;
	struct cell_sockets network = cell_sockets_none();
	int fds[SPAWNER_OPENED_MOST], r;
	unsigned n_fds = kind->n_pidfds;
	const char *step;

	r = act_on_asked(&asked->spawner->maker, asked, place, fds, &network, &start, &step);
	if (r < 0) {
		answer_failure(asked, step, r);
		return;
	}
	if (start) {
		start->number = asked->number;
		tell_waits(asked);
		return;
	}
	n_fds += cell_sockets_list(&network, &fds[n_fds]);
	answer_spawner_request(&asked->spawner->channel, kind->answer, asked->number,
		(struct text){NULL, 0}, fds, n_fds);
}

static void tell_place(const struct asked *asked, struct place *place)
{
	static uint8_t payload[WIRE_PAYLOAD_MAX];
	static struct spawner_looked_up message;
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	int root = TAKE_FD(place->root);

	if (place->error < 0) {
		close_fd(&root);
		answer_failure(asked, place->step, place->error);
		return;
	}
	message.kind = place->kind;
	message.may_enter = place->may_enter;
	message.n_parents = place->n_parents;
	memcpy(message.parents, place->parents, place->n_parents * sizeof(place->parents[0]));
	spawner_looked_up_put(&writer, &message);
	answer_spawner_request(&asked->spawner->channel, SPAWNER_LOOKED_UP, asked->number,
		(struct text){(char *)payload, writer.len}, &root, 1);
}

static void asked_free(struct asked *asked)
{
	for (unsigned i = 0; i < asked->n_fds; i++)
		close(asked->fds[i]);
	free(asked->payload);
	free(asked);
}

static void on_looked(void *context, int error, struct place *place)
{
	struct asked *asked = context;

	if (error < 0)
		answer_failure(asked, "look at the workspace's directory", error);
	else if (asked->type == SPAWNER_LOOK_UP)
		tell_place(asked, place);
	else if (is_copy(asked->type))
		begin_asked_copy(asked, place);
	else
		perform(asked, place);
	asked_free(asked);
}

/* A tenant and what is named in its directory. */
struct named {
	bool below, file; /* as in the message */
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1], path[LIMIT_PATH_BYTES];
};

/* Reads a message of this form. Any other ends the spawner. */
static void read_named(struct text payload, struct named *ret)
{
	struct spawner_look_up message;

	if (spawner_look_up_get(payload, &message) < 0)
		spawner_die("request", EBADMSG);
	ret->below = message.below;
	ret->file = message.file;
	snprintf(ret->tenant, sizeof(ret->tenant), "%.*s", (int)message.tenant.len,
		message.tenant.data ? message.tenant.data : "");
	snprintf(ret->path, sizeof(ret->path), "%.*s", (int)message.path.len,
		message.path.data ? message.path.data : "");
}

/* Reads one that comes without descriptors. */
static void read_told(const struct channel_frame *frame, struct named *ret)
{
	if (frame->n_fds != 0)
		spawner_die("request", EBADMSG);
	read_named(frame->payload, ret);
}

/* Starts the look-up that the request needs. */
static int look_for(struct asked *asked, struct text payload)
{
	struct spawner *spawner = asked->spawner;
	struct look_request wanted = {.fd = asked->fds[0], .waits = tell_waits};
	struct named named;

	if (asked->type == SPAWNER_LOOK_UP) {
		read_named(payload, &named);
		wanted.kind = LOOK_UP;
		wanted.below = named.below;
		wanted.file = named.file;
		wanted.tenant = named.tenant;
		wanted.path = named.path;
	} else {
		wanted.kind = LOOK_AGAIN;
		wanted.file = asked->type == SPAWNER_UNPACK;
		wanted.tenant = asked->request.tenant;
		/* Only a worker shows read-only paths. */
		if (asked->type != SPAWNER_OPEN_FILES && !is_copy(asked->type))
			wanted.readonly =
				cell_readonly_paths(&spawner->maker, asked->request.tenant);
	}
	return path_resolvers_ask(&spawner->resolvers, &wanted, on_looked, asked);
}

/* Decodes the payload of a request about a cell, or for a copy. Returns 0 or -EBADMSG. */
static int read_request(struct asked *asked, const struct channel_frame *frame)
{
	struct text kept = {NULL, frame->payload.len};

	if (frame->type == SPAWNER_LOOK_UP)
		return 0;
	if (!is_copy(frame->type))
		return spawner_open_get(frame->payload, &asked->request);
	kept.data = asked->payload = malloc(kept.len + 1);
	if (!asked->payload)
		spawner_die("request", ENOMEM);
	if (kept.len > 0)
		memcpy(asked->payload, frame->payload.data, kept.len);
	return spawner_copy_get(kept, &asked->copy);
}

static void handle_spawner_request(struct spawner *spawner, struct channel_frame *frame)
{
	const struct request *kind =
		frame->type < ARRAY_SIZE(requests) ? &requests[frame->type] : NULL;
	struct asked *asked = calloc(1, sizeof(*asked));
	int r = 0;

	if (!asked)
		spawner_die("request", ENOMEM);
	if (!kind || kind->n_fds == 0 || frame->n_fds != kind->n_fds ||
		read_request(asked, frame) < 0)
		spawner_die("request", EBADMSG);
	asked->spawner = spawner;
	asked->type = frame->type;
	asked->number = frame->call;
	asked->n_fds = frame->n_fds;
	memcpy(asked->fds, frame->fds, sizeof(asked->fds));
	frame->n_fds = 0;
	if (asked->type != SPAWNER_PREPARE) {
		r = look_for(asked, frame->payload);
		if (r == 0)
			return;
		answer_failure(asked, "look at the workspace's directory", r);
	} else {
		perform(asked, NULL);
	}
	asked_free(asked);
}

void spawner_attend(struct channel *channel, struct cell_start *start)
{
	uint64_t number = start->number;
	int pidfd, r = cell_start_hear(start, -1);

	if (r == 0)
		return;
	pidfd = cell_start_end(start, r < 0 ? r : 0);
	if (pidfd < 0)
		setup_report_failure(
			channel, SPAWNER_OPEN_FAILED, number, "start cloister-files", pidfd);
	else
		answer_spawner_request(
			channel, SPAWNER_FILES_OPENED, number, (struct text){NULL, 0}, &pidfd, 1);
}

static void read_policy(struct spawner *spawner, const struct channel_frame *frame)
{
	if (frame->n_fds != 0 || frame->payload.len != 0)
		spawner_die("request", EBADMSG);
	if (spawner->policy && policy_read(spawner->policy, spawner->setup.system) < 0)
		fprintf(stderr, "cloister-spawner: the configuration was not reloaded in the "
				"spawner: the old one stays in force\n");
	template_memory_tidy(&spawner->templates, NULL);
}

static void forget_home(struct spawner *spawner, const struct channel_frame *frame)
{
	struct named removed;

	read_told(frame, &removed);
	cell_homes_forget(&spawner->homes, removed.tenant, removed.path);
}

static void clear_layer(struct spawner *spawner, const struct channel_frame *frame)
{
	struct named dropped;

	read_told(frame, &dropped);
	if (!dropped.below)
		layer_folds_look(&spawner->folds);
	layer_drops_add(dropped.below ? &spawner->template_drops : &spawner->drops, dropped.tenant,
		dropped.path);
	if (dropped.below)
		template_memory_tidy(&spawner->templates, dropped.tenant);
}

static void fold_layers(struct spawner *spawner, const struct channel_frame *frame)
{
	struct named wanted;

	read_told(frame, &wanted);
	layer_folds_add(&spawner->folds, wanted.tenant, wanted.path);
}

static void tell_worked(struct channel *channel, const struct spawner_worked *message)
{
	uint8_t payload[64 + LIMIT_CONFIG_NAME_BYTES + 2 * LIMIT_NAME_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	spawner_worked_put(&writer, message);
	answer_spawner_request(
		channel, SPAWNER_WORKED, 0, (struct text){(char *)payload, writer.len}, NULL, 0);
}

static void on_folded(void *context, const char *tenant, const char *path, int error, uint64_t us)
{
	struct spawner *spawner = context;

	tell_worked(&spawner->channel, &(struct spawner_worked){.what = SPAWNER_FOLD,
					       .tenant = text_from(tenant),
					       .path = text_from(path),
					       .error = (uint32_t)-error,
					       .us = us});
}

static void on_measured(
	void *context, const char *tenant, const char *name, uint64_t bytes, uint64_t us)
{
	struct spawner *spawner = context;

	tell_worked(&spawner->channel, &(struct spawner_worked){.what = SPAWNER_MEASURE,
					       .tenant = text_from(tenant),
					       .path = text_from(name),
					       .us = us,
					       .bytes = bytes});
}

static void on_cleared(void *context, const char *tenant, const char *path, int error)
{
	struct spawner *spawner = context;

	tell_worked(&spawner->channel, &(struct spawner_worked){.what = SPAWNER_DROPPED,
					       .tenant = text_from(tenant),
					       .path = text_from(path),
					       .error = (uint32_t)-error});
}

static void on_in_memory(
	void *context, const char *tenant, const char *name, int error, uint64_t us, uint64_t bytes)
{
	struct spawner *spawner = context;

	tell_worked(&spawner->channel, &(struct spawner_worked){.what = SPAWNER_LOAD,
					       .tenant = text_from(tenant),
					       .path = text_from(name),
					       .error = (uint32_t)-error,
					       .us = us,
					       .bytes = bytes});
}

static void on_loaded(void *context, uint64_t number, int error, const char *step)
{
	struct spawner *spawner = context;

	setup_report_failure(&spawner->channel, SPAWNER_COPIED, number, step, error);
}

static void on_copy_ended(void *context, uint64_t number, int result)
{
	struct spawner *spawner = context;

	setup_report_failure(&spawner->channel, SPAWNER_COPIED, number, "copy the files", result);
}

void spawner_tell_work(struct spawner *spawner)
{
	template_memory_init(&spawner->templates, &spawner->jobs, &spawner->ids, on_loaded,
		on_in_memory, spawner);
	copies_init(&spawner->copies, &spawner->jobs, on_copy_ended, spawner);
	layer_folds_tell(&spawner->folds, on_folded, spawner);
	layer_drops_tell(&spawner->drops, on_cleared, spawner);
	template_sizes_init(
		&spawner->sizes, &spawner->jobs, spawner->ids.managed, on_measured, spawner);
}

static void measure_template(struct spawner *spawner, const struct channel_frame *frame)
{
	struct named wanted;

	read_told(frame, &wanted);
	template_sizes_add(&spawner->sizes, wanted.tenant, wanted.path);
}

static void fork_template(struct spawner *spawner, const struct channel_frame *frame)
{
	struct spawner_copy request;
	const char *step;
	int r;

	if (frame->n_fds != 0 || spawner_copy_get(frame->payload, &request) < 0)
		spawner_die("request", EBADMSG);
	r = copies_fork(&spawner->maker, frame->call, &request, &step);
	if (r == -SPAWNER_REFUSAL)
		log_refusal(request.tenant, frame->call, step);
	if (r < 0)
		setup_report_failure(&spawner->channel, SPAWNER_COPIED, frame->call, step, r);
}

/* The pidfds may be anybody's if cloisterd was taken over: what is told of a process is no secret.
 */
static void tell_where(struct spawner *spawner, const struct channel_frame *frame)
{
	char where[LIMIT_WHEREABOUTS_BYTES];

	if (frame->n_fds == 0 || frame->n_fds > SPAWNER_WHERE_MOST || frame->payload.len != 0)
		spawner_die("request", EBADMSG);
	whereabouts_find(frame->fds, frame->n_fds, where, sizeof(where));
	setup_report_failure(&spawner->channel, SPAWNER_COPIED, frame->call, where, 0);
}

static void load_template(struct spawner *spawner, const struct channel_frame *frame)
{
	struct named wanted;

	read_told(frame, &wanted);
	if (!is_template_tree(text_from(wanted.path)) || !*wanted.tenant ||
		strchr(wanted.tenant, '/') ||
		(wanted.tenant[0] == '.' && strcmp(wanted.tenant, SELFTEST_TENANT) != 0))
		spawner_die("request", EBADMSG);
	template_memory_load(&spawner->templates, frame->call, wanted.tenant, wanted.path);
}

void spawner_find_left_overs(struct spawner *spawner, const char *spared)
{
	cell_homes_sweep(&spawner->homes, &spawner->resolvers);
	layer_drops_find(&spawner->drops, spawner->policy != NULL, spared);
	layer_drops_find(&spawner->template_drops, spawner->policy != NULL, spared);
}

void spawner_set_beside(struct spawner *spawner, bool beside)
{
	cell_homes_set_beside(&spawner->homes, beside);
	layer_folds_set_beside(&spawner->folds, beside);
}

static void set_beside(struct spawner *spawner, const struct channel_frame *frame)
{
	char own[sizeof(TREE_UNFINISHED_BY) + 16];
	bool was = spawner->homes.beside;

	if (frame->n_fds != 0 || frame->payload.len != 0 || frame->call > 1)
		spawner_die("request", EBADMSG);
	spawner_set_beside(spawner, frame->call == 1);
	/* This cloisterd has had copies made meanwhile. */
	snprintf(own, sizeof(own), TREE_UNFINISHED_BY, (int)getppid());
	if (was && frame->call == 0)
		spawner_find_left_overs(spawner, own);
}

static void let_go_private_tmpfs(struct spawner *spawner, const struct channel_frame *frame)
{
	if (frame->n_fds != 0 || frame->payload.len != 0)
		spawner_die("request", EBADMSG);
	/* A spare cell may be a workspace's already for cloisterd, whose request still waits. */
	cell_spares_let_go(&spawner->spares, frame->call);
	cell_privates_let_go(&spawner->privates, frame->call);
}

/* What is told, or answered at once or later, without a look-up. */
static void (*const orders[])(struct spawner *spawner, const struct channel_frame *frame) = {
	[SPAWNER_RELOAD] = read_policy,
	[SPAWNER_REMOVED] = forget_home,
	[SPAWNER_DROPPED] = clear_layer,
	[SPAWNER_FOLD] = fold_layers,
	[SPAWNER_MEASURE] = measure_template,
	[SPAWNER_FORK] = fork_template,
	[SPAWNER_LOAD] = load_template,
	[SPAWNER_WHERE] = tell_where,
	[SPAWNER_LET_GO] = let_go_private_tmpfs,
	[SPAWNER_BESIDE] = set_beside,
};

void spawner_serve_requests(struct spawner *spawner)
{
	struct channel *channel = &spawner->channel;
	struct channel_frame frame;
	int r = channel_fill(channel, WIRE_FRAME_MAX);

	if (r == -EPIPE) {
		cell_cgroups_done(&spawner->cgroups);
		path_resolvers_end(&spawner->resolvers);
		exit(0);
	}
	if (r < 0 && r != -EAGAIN)
		spawner_die("read", r);
	while ((r = channel_next(channel, &frame)) > 0) {
		if (frame.type < ARRAY_SIZE(orders) && orders[frame.type])
			orders[frame.type](spawner, &frame);
		else
			handle_spawner_request(spawner, &frame);
		channel_frame_done(&frame);
	}
	if (r < 0)
		spawner_die("request", r);
}
