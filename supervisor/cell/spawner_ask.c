// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: what it asks the spawner for, as messages of common/wire/wire_spawner.h. */
#include "supervisor/cell/spawner_ask.h"

#include "common/limits.h"
#include "supervisor/cell/spawner_link_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int spawner_link_open(struct spawner_link *link, uint8_t type, const struct spawner_open *request,
	const int *fds, spawner_answer answer, void *context, uint64_t *ret_cell)
{
	static const struct {
		unsigned n_fds;
		uint8_t opened;
		unsigned n_pidfds;
		bool sockets; /* and the cell's sockets */
	} types[] = {
		[SPAWNER_OPEN] = {SPAWNER_OPEN_FDS, SPAWNER_OPENED, SPAWNER_OPENED_FDS, true},
		[SPAWNER_OPEN_FILES] = {SPAWNER_OPEN_FILES_FDS, SPAWNER_FILES_OPENED, 1, false},
		[SPAWNER_PREPARE] = {SPAWNER_PREPARE_FDS, SPAWNER_OPENED, SPAWNER_OPENED_FDS,
			false},
		[SPAWNER_ASSIGN] = {SPAWNER_ASSIGN_FDS, SPAWNER_ASSIGNED, 0, true},
	};
	const struct pending_cell who = {.opened = types[type].opened,
		.n_pidfds = types[type].n_pidfds,
		.sockets = types[type].sockets,
		.network = types[type].sockets && request->proxy_port > 0,
		.answer = answer,
		.context = context};
	struct channel_frame frame = {.type = type, .n_fds = types[type].n_fds};
	uint8_t payload[SPAWNER_OPEN_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	spawner_open_put(&writer, request);
	frame.payload = (struct text){(char *)payload, writer.len};
	memcpy(frame.fds, fds, frame.n_fds * sizeof(int));
	/* A spare cell will be anybody's. */
	return spawner_link_ask(link, &frame, &who,
		text_from(type == SPAWNER_PREPARE ? "" : request->tenant), ret_cell);
}

int spawner_link_look_up(struct spawner_link *link, const struct spawner_look_up *request, int from,
	spawner_looked looked, void *context, uint64_t *ret_number)
{
	const struct pending_cell who = {
		.opened = SPAWNER_LOOKED_UP, .n_pidfds = 1, .looked = looked, .context = context};
	struct channel_frame frame = {.type = SPAWNER_LOOK_UP};
	uint8_t payload[64 + LIMIT_CONFIG_NAME_BYTES + LIMIT_PATH_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	spawner_look_up_put(&writer, request);
	frame.payload = (struct text){(char *)payload, writer.len};
	frame.fds[0] = fcntl(from, F_DUPFD_CLOEXEC, 0);
	if (frame.fds[0] < 0)
		return -errno;
	frame.n_fds = 1;
	return spawner_link_ask(link, &frame, &who, request->tenant, ret_number);
}

/* Gives the frame duplicates of @n descriptors. Returns 0, or -errno and the frame has none. */
static int add_duplicates(struct channel_frame *frame, const int *fds, unsigned n)
{
	for (; frame->n_fds < n; frame->n_fds++) {
		frame->fds[frame->n_fds] = fcntl(fds[frame->n_fds], F_DUPFD_CLOEXEC, 0);
		if (frame->fds[frame->n_fds] < 0) {
			int r = -errno;

			channel_frame_done(frame);
			return r;
		}
	}
	return 0;
}

int spawner_link_copy(struct spawner_link *link, uint8_t type, const struct spawner_copy *request,
	const int *fds, spawner_copied copied, void *context, uint64_t *ret_number)
{
	const struct pending_cell who = {.copied = copied, .context = context};
	static const unsigned n_fds[] = {[SPAWNER_FREEZE] = SPAWNER_FREEZE_FDS,
		[SPAWNER_FORK] = 0,
		[SPAWNER_IMPORT] = 1,
		[SPAWNER_UNPACK] = SPAWNER_UNPACK_FDS};
	struct channel_frame frame = {.type = type};
	uint8_t payload[64 + 2 * LIMIT_NAME_BYTES + LIMIT_TEMPLATE_TREE_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	int r;

	spawner_copy_put(&writer, request);
	frame.payload = (struct text){(char *)payload, writer.len};
	r = add_duplicates(&frame, fds, n_fds[type]);
	return r < 0 ? r : spawner_link_ask(link, &frame, &who, request->tenant, ret_number);
}

int spawner_link_load(struct spawner_link *link, const char *tenant, const char *name,
	spawner_copied loaded, void *context, uint64_t *ret_number)
{
	const struct pending_cell who = {.copied = loaded, .context = context};
	const struct spawner_look_up request = {
		.below = true, .tenant = text_from(tenant), .path = text_from(name)};
	uint8_t payload[64 + LIMIT_CONFIG_NAME_BYTES + LIMIT_TEMPLATE_TREE_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct channel_frame frame = {.type = SPAWNER_LOAD};

	spawner_look_up_put(&writer, &request);
	if (!wire_writer_ok(&writer))
		return -ENAMETOOLONG;
	frame.payload = (struct text){(char *)payload, writer.len};
	return spawner_link_ask(link, &frame, &who, request.tenant, ret_number);
}

int spawner_link_where(struct spawner_link *link, const int *pidfds, unsigned n,
	spawner_copied told, void *context, uint64_t *ret_number)
{
	const struct pending_cell who = {.copied = told, .context = context};
	struct channel_frame frame = {.type = SPAWNER_WHERE, .payload = TEXT_LITERAL("")};
	int r = add_duplicates(&frame, pidfds, n);

	return r < 0 ? r : spawner_link_ask(link, &frame, &who, TEXT_LITERAL(""), ret_number);
}
