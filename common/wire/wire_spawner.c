// SPDX-License-Identifier: Apache-2.0
/* Every get function checks the whole payload. It returns 0, or -EBADMSG with @ret untouched. */
#include "common/wire/wire_spawner.h"

#include "common/limits.h"
#include "common/shown_at.h"

#include <errno.h>
#include <string.h>

static const char *const kind_names[WORKSPACE_KIND_END] = {
	[WORKSPACE_MANAGED] = "managed",
	[WORKSPACE_DIRECTORY] = "directory",
	[WORKSPACE_ROOTFS] = "rootfs",
};

const char *workspace_kind_name(enum workspace_kind kind)
{
	return (unsigned)kind < WORKSPACE_KIND_END ? kind_names[kind] : NULL;
}

const char *spawner_open_visible(const struct spawner_open *message, const char *path)
{
	switch (spawner_open_shown(message)) {
	case WORKSPACE_MANAGED:
		return message->shown_at[0] ? message->shown_at : SHOWN_AT_DEFAULT;
	case WORKSPACE_ROOTFS:
		return "/";
	default:
		return path;
	}
}

enum workspace_kind workspace_kind_by_name(struct text name)
{
	for (unsigned kind = WORKSPACE_MANAGED; kind < WORKSPACE_KIND_END; kind++)
		if (text_equal(name, text_from(kind_names[kind])))
			return kind;
	return 0;
}

void spawner_open_put(struct wire_writer *writer, const struct spawner_open *message)
{
	wire_put_u8(writer, message->kind);
	wire_put_u64(writer, message->limits.memory_bytes);
	wire_put_u32(writer, message->limits.processes);
	wire_put_u32(writer, message->limits.cpu_weight);
	wire_put_u32(writer, message->limits.cpu_percent);
	wire_put_u32(writer, message->limits.io_weight);
	wire_put_u64(writer, message->limits.tmp_bytes);
	wire_put_u64(writer, message->limits.file_size_bytes);
	wire_put_u64(writer, message->limits.data_bytes);
	wire_put_u32(writer, message->limits.open_files);
	wire_put_u32(writer, message->proxy_port);
	wire_put_u64(writer, message->kept);
	wire_put_u8(writer, (uint8_t)message->layers.count);
	for (size_t i = 0; i < message->layers.count; i++)
		wire_put_u32(writer, message->layers.numbers[i]);
	wire_put_text(writer, text_from(message->layers.template));
	wire_put_text(writer, text_from(message->shown_at));
	wire_put_u8(writer, message->as_root);
	wire_put_u8(writer, message->root_inside);
	wire_put_text(writer, text_from(message->tenant));
}

static bool is_weight(uint32_t weight)
{
	return weight >= 1 && weight <= LIMIT_WEIGHT_MAX;
}

static bool is_proxy_port(uint32_t port)
{
	return port == 0 || (port >= LIMIT_PROXY_PORT_MIN && port <= UINT16_MAX);
}

static bool is_room(uint64_t bytes)
{
	return bytes >= LIMIT_TMP_MIN_BYTES && bytes <= LIMIT_FILE_SIZE_MAX_BYTES;
}

static bool get_layers(struct wire_reader *reader, struct layer_stack *ret)
{
	struct text template;

	ret->count = wire_get_u8(reader);
	if (ret->count > LIMIT_LAYERS)
		return false;
	for (size_t i = 0; i < ret->count; i++)
		ret->numbers[i] = wire_get_u32(reader);
	template = wire_get_text(reader, LIMIT_TEMPLATE_NAME_BYTES);
	if (template.len > 0 && !text_has_nul(template))
		memcpy(ret->template, template.data, template.len);
	return !text_has_nul(template) && layer_stack_is_valid(ret);
}

/* Only a managed workspace that is no whole root has one. */
static bool get_shown_at(struct wire_reader *reader, struct spawner_open *ret)
{
	struct text path = wire_get_text(reader, LIMIT_SHOWN_AT_BYTES);

	if (path.len == 0)
		return true;
	if (ret->kind != WORKSPACE_MANAGED || !shown_at_is_valid(path))
		return false;
	memcpy(ret->shown_at, path.data, path.len);
	return true;
}

int spawner_open_get(struct text payload, struct spawner_open *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct spawner_open message = {0};
	struct text tenant;
	bool has_layers, has_shown_at;

	message.kind = wire_get_u8(&reader);
	message.limits.memory_bytes = wire_get_u64(&reader);
	message.limits.processes = wire_get_u32(&reader);
	message.limits.cpu_weight = wire_get_u32(&reader);
	message.limits.cpu_percent = wire_get_u32(&reader);
	message.limits.io_weight = wire_get_u32(&reader);
	message.limits.tmp_bytes = wire_get_u64(&reader);
	message.limits.file_size_bytes = wire_get_u64(&reader);
	message.limits.data_bytes = wire_get_u64(&reader);
	message.limits.open_files = wire_get_u32(&reader);
	message.proxy_port = wire_get_u32(&reader);
	message.kept = wire_get_u64(&reader);
	has_layers = get_layers(&reader, &message.layers);
	has_shown_at = get_shown_at(&reader, &message);
	message.as_root = wire_get_bool(&reader);
	message.root_inside = wire_get_bool(&reader);
	tenant = wire_get_text(&reader, LIMIT_CONFIG_NAME_BYTES);
	if (wire_reader_end(&reader) < 0 || !has_layers || !has_shown_at ||
		(message.shown_at[0] && message.as_root) || !workspace_kind_name(message.kind) ||
		((message.layers.count > 0 || message.as_root) &&
			message.kind != WORKSPACE_MANAGED) ||
		(message.root_inside && !message.as_root) ||
		message.limits.memory_bytes < LIMIT_MEMORY_MIN_BYTES ||
		message.limits.processes == 0 || !is_weight(message.limits.cpu_weight) ||
		!is_weight(message.limits.io_weight) || !is_room(message.limits.tmp_bytes) ||
		!is_room(message.limits.file_size_bytes) || message.limits.open_files == 0 ||
		!is_proxy_port(message.proxy_port) || text_has_nul(tenant))
		return -EBADMSG;
	if (tenant.len > 0)
		memcpy(message.tenant, tenant.data, tenant.len);
	*ret = message;
	return 0;
}

void spawner_look_up_put(struct wire_writer *writer, const struct spawner_look_up *message)
{
	wire_put_u8(writer, message->below);
	wire_put_u8(writer, message->file);
	wire_put_text(writer, message->tenant);
	wire_put_text(writer, message->path);
}

int spawner_look_up_get(struct text payload, struct spawner_look_up *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct spawner_look_up message;

	message.below = wire_get_bool(&reader);
	message.file = wire_get_bool(&reader);
	message.tenant = wire_get_text(&reader, LIMIT_CONFIG_NAME_BYTES);
	message.path = wire_get_text(&reader, LIMIT_PATH_BYTES - 1);
	if (wire_reader_end(&reader) < 0 || text_has_nul(message.tenant) ||
		text_has_nul(message.path))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void spawner_worked_put(struct wire_writer *writer, const struct spawner_worked *message)
{
	wire_put_u8(writer, message->what);
	wire_put_text(writer, message->tenant);
	wire_put_text(writer, message->path);
	wire_put_u32(writer, message->error);
	wire_put_u64(writer, message->us);
	wire_put_u64(writer, message->bytes);
}

int spawner_worked_get(struct text payload, struct spawner_worked *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct spawner_worked message;

	message.what = wire_get_u8(&reader);
	message.tenant = wire_get_text(&reader, LIMIT_CONFIG_NAME_BYTES);
	message.path = wire_get_text(&reader, LIMIT_PATH_BYTES - 1);
	message.error = wire_get_u32(&reader);
	message.us = wire_get_u64(&reader);
	message.bytes = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0 ||
		(message.what != SPAWNER_FOLD && message.what != SPAWNER_MEASURE &&
			message.what != SPAWNER_LOAD && message.what != SPAWNER_DROPPED) ||
		text_has_nul(message.tenant) || text_has_nul(message.path))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void spawner_copy_put(struct wire_writer *writer, const struct spawner_copy *message)
{
	wire_put_text(writer, message->tenant);
	wire_put_text(writer, message->template);
	wire_put_text(writer, message->target);
	wire_put_u64(writer, message->max_bytes);
	wire_put_u64(writer, message->max_files);
}

/* Whether the directory of a tenant can have the name; "." without tenants. */
static bool is_tenant_directory(struct text name)
{
	return name.len > 0 && !text_has_nul(name) && !memchr(name.data, '/', name.len) &&
	       !text_equal(name, TEXT_LITERAL(".."));
}

static bool is_unfinished(struct text name)
{
	return name.len > strlen(TREE_UNFINISHED) && !text_has_nul(name) &&
	       !memchr(name.data, '/', name.len) &&
	       memcmp(name.data, TREE_UNFINISHED, strlen(TREE_UNFINISHED)) == 0;
}

int spawner_copy_get(struct text payload, struct spawner_copy *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct spawner_copy message;

	message.tenant = wire_get_text(&reader, LIMIT_NAME_BYTES);
	message.template = wire_get_text(&reader, LIMIT_TEMPLATE_NAME_BYTES);
	message.target = wire_get_text(&reader, LIMIT_NAME_BYTES);
	message.max_bytes = wire_get_u64(&reader);
	message.max_files = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0 || !is_tenant_directory(message.tenant) ||
		!is_managed_name(message.template) || !is_unfinished(message.target))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void spawner_looked_up_put(struct wire_writer *writer, const struct spawner_looked_up *message)
{
	wire_put_u8(writer, message->kind);
	wire_put_u8(writer, message->may_enter);
	wire_put_u32(writer, (uint32_t)message->n_parents);
	for (size_t i = 0; i < message->n_parents; i++) {
		wire_put_u64(writer, message->parents[i].dev);
		wire_put_u64(writer, message->parents[i].ino);
	}
}

int spawner_looked_up_get(struct text payload, struct spawner_looked_up *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	uint8_t kind = wire_get_u8(&reader);
	bool may_enter = wire_get_bool(&reader);
	size_t n = wire_get_u32(&reader);

	if (n > LIMIT_ROOT_PARENTS || kind >= LOOKED_UP_END)
		return -EBADMSG;
	ret->kind = kind;
	ret->may_enter = may_enter;
	ret->n_parents = n;
	for (size_t i = 0; i < n; i++) {
		ret->parents[i].dev = wire_get_u64(&reader);
		ret->parents[i].ino = wire_get_u64(&reader);
	}
	return wire_reader_end(&reader) < 0 ? -EBADMSG : 0;
}

void setup_failure_put(struct wire_writer *writer, const struct setup_failure *message)
{
	wire_put_text(writer, message->step);
	wire_put_u32(writer, message->error);
}

int setup_failure_get(struct text payload, struct setup_failure *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct setup_failure message;

	message.step = wire_get_text(&reader, LIMIT_NAME_BYTES);
	message.error = wire_get_u32(&reader);
	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

/*
 * The numbers differ: one cell has the socket for ports alone, and the last of those for
 * cloister-egress is never there without it.
 */
bool cell_sockets_place(const int *fds, unsigned n, int ret[CELL_SOCKETS])
{
	bool ports = n == 1 || n > CELL_SOCKETS_LEAST;

	if ((n > 1 && n < CELL_SOCKETS_LEAST) || n > CELL_SOCKETS)
		return false;
	memset(ret, -1, CELL_SOCKETS * sizeof(*ret));
	if (ports)
		ret[CELL_SOCKET_PORTS] = fds[--n];
	memcpy(ret, fds, n * sizeof(*fds));
	return true;
}
