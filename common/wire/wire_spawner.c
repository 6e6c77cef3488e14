// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire_spawner.h"

#include "common/limits.h"
#include "common/shown_at.h"

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

static void layers_fields(struct wire_codec *codec, struct layer_stack *layers)
{
	uint8_t count = (uint8_t)layers->count;

	wire_u8(codec, &count);
	wire_refuse_if(codec, count > LIMIT_LAYERS);
	layers->count = count <= LIMIT_LAYERS ? count : 0;
	for (size_t i = 0; i < layers->count; i++)
		wire_u32(codec, &layers->numbers[i]);
	wire_chars(codec, layers->template, LIMIT_TEMPLATE_TREE_BYTES);
	wire_refuse_if(codec, !layer_stack_is_valid(layers));
}

/* Only a managed workspace that is not a whole root has shown_at. */
static bool has_bad_shown_at(const struct spawner_open *message)
{
	return message->shown_at[0] && (message->kind != WORKSPACE_MANAGED || message->as_root ||
					       !shown_at_is_valid(text_from(message->shown_at)));
}

WIRE_CODEC(spawner_open)
{
	wire_u8(codec, &message->kind);
	wire_u64(codec, &message->limits.memory_bytes);
	wire_u32(codec, &message->limits.processes);
	wire_u32(codec, &message->limits.cpu_weight);
	wire_u32(codec, &message->limits.cpu_percent);
	wire_u32(codec, &message->limits.io_weight);
	wire_u64(codec, &message->limits.tmp_bytes);
	wire_u64(codec, &message->limits.file_size_bytes);
	wire_u64(codec, &message->limits.data_bytes);
	wire_u32(codec, &message->limits.open_files);
	wire_u32(codec, &message->limits.watches);
	wire_u32(codec, &message->proxy_port);
	wire_u64(codec, &message->kept);
	layers_fields(codec, &message->layers);
	wire_chars(codec, message->shown_at, LIMIT_SHOWN_AT_BYTES);
	wire_bool(codec, &message->as_root);
	wire_bool(codec, &message->root_inside);
	wire_chars(codec, message->tenant, LIMIT_CONFIG_NAME_BYTES);
	wire_refuse_if(codec,
		has_bad_shown_at(message) || !workspace_kind_name(message->kind) ||
			((message->layers.count > 0 || message->as_root) &&
				message->kind != WORKSPACE_MANAGED) ||
			(message->root_inside && !message->as_root) ||
			message->limits.memory_bytes < LIMIT_MEMORY_MIN_BYTES ||
			message->limits.processes == 0 || !is_weight(message->limits.cpu_weight) ||
			!is_weight(message->limits.io_weight) ||
			!is_room(message->limits.tmp_bytes) ||
			!is_room(message->limits.file_size_bytes) ||
			message->limits.open_files == 0 || message->limits.watches == 0 ||
			!is_proxy_port(message->proxy_port));
}

WIRE_CODEC(spawner_look_up)
{
	wire_bool(codec, &message->below);
	wire_bool(codec, &message->file);
	wire_name(codec, &message->tenant, LIMIT_CONFIG_NAME_BYTES);
	wire_name(codec, &message->path, LIMIT_PATH_BYTES - 1);
}

WIRE_CODEC(spawner_worked)
{
	wire_u8(codec, &message->what);
	wire_name(codec, &message->tenant, LIMIT_CONFIG_NAME_BYTES);
	wire_name(codec, &message->path, LIMIT_PATH_BYTES - 1);
	wire_u32(codec, &message->error);
	wire_u64(codec, &message->us);
	wire_u64(codec, &message->bytes);
	wire_refuse_if(codec, message->what != SPAWNER_FOLD && message->what != SPAWNER_MEASURE &&
				      message->what != SPAWNER_LOAD &&
				      message->what != SPAWNER_DROPPED);
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

WIRE_CODEC(spawner_copy)
{
	wire_text(codec, &message->tenant, LIMIT_NAME_BYTES);
	wire_text(codec, &message->template, LIMIT_TEMPLATE_TREE_BYTES);
	wire_text(codec, &message->target, LIMIT_NAME_BYTES);
	wire_u64(codec, &message->max_bytes);
	wire_u64(codec, &message->max_files);
	wire_refuse_if(codec, !is_tenant_directory(message->tenant) ||
				      !is_template_tree(message->template) ||
				      !is_unfinished(message->target));
}

WIRE_CODEC(spawner_looked_up)
{
	wire_u8(codec, &message->kind);
	wire_bool(codec, &message->may_enter);
	wire_count(codec, &message->n_parents, LIMIT_ROOT_PARENTS);
	for (size_t i = 0; i < message->n_parents; i++) {
		wire_u64(codec, &message->parents[i].dev);
		wire_u64(codec, &message->parents[i].ino);
	}
	wire_refuse_if(codec, message->kind >= LOOKED_UP_END);
}

WIRE_CODEC(setup_failure)
{
	wire_text(codec, &message->step, LIMIT_NAME_BYTES);
	wire_u32(codec, &message->error);
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
