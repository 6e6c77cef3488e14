// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: what clients, who may be hostile, learn of a background command and do with
 * it.
 */
#include "supervisor/background/background_use.h"

#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/background/background_state.h"
#include "supervisor/background/input_once.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/call_session.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/workspace_access.h"
#include "supervisor/workspace/workspace_pause.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool background_is_allowed(const struct background *background, const struct tenant *tenant)
{
	return strcmp(background->tenant->name, tenant->name) == 0 &&
	       workspace_access_allows(&background->access, tenant);
}

bool background_is_in(const struct background *background, const struct workspace *workspace)
{
	if (background->workspace)
		return background->workspace == workspace;
	return background->access.kind == workspace_kind(workspace) &&
	       strcmp(background->place, workspace_name(workspace)) == 0 &&
	       strcmp(background->tenant->name, workspace_tenant(workspace)->name) == 0;
}

struct search {
	const struct workspace *workspace;
	struct text name;
	const struct background *found;
};

/* The latest comes last. */
static void look_at(void *context, const struct background *background)
{
	struct search *search = context;
	const struct text name =
		background->name ? text_from(background->name) : (struct text){NULL, 0};

	if (!background_is_in(background, search->workspace) ||
		!(text_equal(search->name, text_from(background->id)) ||
			(name.data && text_equal(search->name, name))))
		return;
	if (!search->found || !search->found->call || background->call)
		search->found = background;
}

struct background *background_find_in(const struct workspace *workspace, struct text name)
{
	struct search search = {.workspace = workspace, .name = name};

	background_foreach(look_at, &search);
	return search.found ? background_find(text_from(search.found->id)) : NULL;
}

uint64_t background_shown(const struct background *background)
{
	return background->shown;
}

void background_set_shown(struct background *background, uint64_t cursor)
{
	background->shown = cursor;
}

int background_find_keyed(
	struct background *background, const struct call_key *key, struct background_keyed **ret)
{
	struct background_keyed *found = NULL;

	if (!background->keyed_uses)
		background->keyed_uses = calloc(LIMIT_TOOL_KEYS, sizeof(*found));
	if (!background->keyed_uses)
		return -ENOMEM;
	for (size_t i = 0; i < LIMIT_TOOL_KEYS && !found; i++)
		if (background->keyed_uses[i].set &&
			memcmp(background->keyed_uses[i].key.id, key->id, sizeof(key->id)) == 0)
			found = &background->keyed_uses[i];
	if (found && memcmp(found->key.digest, key->digest, sizeof(key->digest)) != 0)
		return -EEXIST;
	*ret = found;
	if (found)
		return 1;
	*ret = &background->keyed_uses[background->next_keyed++ % LIMIT_TOOL_KEYS];
	**ret = (struct background_keyed){.key = *key, .set = true};
	return 0;
}

const char *background_state_name(enum background_state state)
{
	static const char *const names[] = {
		[BACKGROUND_STARTING] = "starting",
		[BACKGROUND_RUNNING] = "running",
		[BACKGROUND_ENDING] = "ending",
		[BACKGROUND_ENDED] = "ended",
	};

	return names[state];
}

static enum background_state state_of(const struct background *background)
{
	struct call_info info;

	if (!background->call)
		return BACKGROUND_ENDED;
	call_get_info(background->call, &info);
	if (info.state == CALL_WAITING)
		return BACKGROUND_STARTING;
	return info.state == CALL_RUNNING ? BACKGROUND_RUNNING : BACKGROUND_ENDING;
}

/* An end that could not be written for want of memory is not passed over in silence. */
static struct text end_of(const struct background *background)
{
	if (background->call)
		return (struct text){NULL, 0};
	if (background->end)
		return text_from(background->end);
	return TEXT_LITERAL("{\"success\":false,\"tool\":\"run_command\",\"output\":null,"
			    "\"error\":{\"code\":\"BUSY\",\"message\":\"Out of memory: how the "
			    "session ended is not known\"},\"usage\":{}}");
}

static struct text ending_of(const struct background *background)
{
	if (background->call)
		return (struct text){NULL, 0};
	return background->ending ? text_from(background->ending)
				  : TEXT_LITERAL("ended; how is not known for want of memory");
}

void background_get_info(const struct background *background, struct background_info *ret)
{
	*ret = (struct background_info){
		.id = background->id,
		.name = background->name ? text_from(background->name) : (struct text){NULL, 0},
		.command = text_from(background->command),
		.workspace = background->place,
		.tenant = background->tenant,
		.state = state_of(background),
		.age_ms = (clock_now() - background->began) / CLOCK_NS_PER_MS,
		.lifetime_ms = background->lifetime_ms,
		.taken = background->taken,
		.terminal = background->terminal,
		.input_over = !background->call || !background->has_input || background->eof ||
			      !call_input_is_read(background->call),
		.end = end_of(background),
		.ending = ending_of(background),
	};
}

void background_describe(
	struct json_text *json, const struct background_info *info, size_t command_bytes)
{
	json_text_put(json, "session", info->id);
	json_text_key(json, "name");
	if (info->name.data)
		json_text_string(json, info->name);
	else
		json_text_null(json);
	json_text_put(json, "workspace", info->workspace);
	json_text_put(json, "tenant", info->tenant->name);
	json_text_put(json, "state", background_state_name(info->state));
	json_text_key(json, "command");
	json_text_string(json, utf8_cut(info->command, command_bytes));
	json_text_put_number(json, "age_ms", info->age_ms);
	json_text_put_number(json, "lifetime_ms", info->lifetime_ms);
}

const struct output_ring *background_output(const struct background *background)
{
	return &background->ring;
}

void background_touch(struct background *background)
{
	background->used = clock_now();
}

int background_write(
	struct background *background, struct text data, int64_t at, bool eof, size_t *ret_taken)
{
	const bool over =
		!background->call || background->eof || !call_input_is_read(background->call);
	struct input_once once;
	char *label;
	int r;

	if (!background->has_input)
		return -EPIPE;
	r = input_once(background->taken, at < 0 ? background->taken : (uint64_t)at, data.len,
		over ? SIZE_MAX : call_input_room(background->call), &once);
	if (r < 0)
		return r;
	/* What is sent again was taken, whether the command has ended since or not. */
	*ret_taken = once.skip;
	if (over)
		return once.take > 0 || !background->call ? -EPIPE : 0;
	eof = eof && once.whole;
	if (once.take == 0 && !eof)
		return 0;
	/* What has a label is counted until the command has taken it. */
	label = strdup("");
	if (!label)
		return -ENOMEM;
	r = call_add_input(
		background->call, (struct text){data.data + once.skip, once.take}, eof, &label);
	free(label);
	if (r < 0)
		return r == -EINVAL ? -EPIPE : r;
	*ret_taken += once.take;
	background->taken += once.take;
	background->eof = eof;
	background->used = clock_now();
	return 0;
}

int background_signal(struct background *background, const struct command_signal *message)
{
	background->used = clock_now();
	return background->call ? call_signal(background->call, message) : -ESRCH;
}

int background_resize(struct background *background, const struct command_terminal *size)
{
	int r = background->call ? call_resize(background->call, size) : -ESRCH;

	background->used = clock_now();
	if (r == 0)
		background->terminal = *size;
	return r;
}

/* Stores the cgroup whose ports are the command's; 0: those of the workspace are. Returns false if
 * it has none of its own yet. */
static bool owner_of_ports(const struct background *background, uint64_t *ret_cgroup)
{
	struct call_info info;

	if (!background->workspace)
		return false;
	call_get_info(background->call, &info);
	*ret_cgroup = info.cgroup;
	return info.cgroup != 0 || !workspace_has_cgroups(background->workspace);
}

bool background_listens(const struct background *background, uint16_t port)
{
	uint64_t cgroup;

	return owner_of_ports(background, &cgroup) &&
	       workspace_listens(background->workspace, port, cgroup) > LISTENS_NOT;
}

bool background_tells_ports(const struct background *background)
{
	return !background->workspace || workspace_tells_ports(background->workspace);
}

bool background_ports(const struct background *background, struct listening_ports *ret)
{
	uint64_t cgroup;

	*ret = (struct listening_ports){0};
	return !owner_of_ports(background, &cgroup) ||
	       workspace_ports(background->workspace, cgroup, ret);
}

int64_t background_stopped_ns(const struct background *background)
{
	return background->workspace ? workspace_stopped_ns(background->workspace) : 0;
}

bool background_was_stopped(
	const struct background *background, int64_t *stopped_ns, struct timer *timer)
{
	return background->workspace &&
	       workspace_were_stopped(background->workspace, stopped_ns, timer);
}

void background_end(struct background *background, int64_t grace_ms)
{
	if (background->call)
		call_end_within(background->call, ENDED_BY_CANCEL, grace_ms);
}
