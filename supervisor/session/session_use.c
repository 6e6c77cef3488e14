// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: how clients, which may be hostile, read and control a session.
 */
#include "supervisor/session/session_use.h"

#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_begin.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/call_session.h"
#include "supervisor/config/tenant.h"
#include "supervisor/session/input_once.h"
#include "supervisor/session/session_state.h"
#include "supervisor/workspace/workspace_access.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspace_pause.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct search {
	const struct workspace *workspace;
	struct text name;
	const struct session *found;
};

/* The latest comes last. */
static void look_at_session(void *context, const struct session *session)
{
	struct search *search = context;
	const struct text name = session->name ? text_from(session->name) : (struct text){NULL, 0};

	if (!session_is_in(session, search->workspace) ||
		!(text_equal(search->name, text_from(session->id)) ||
			(name.data && text_equal(search->name, name))))
		return;
	if (!search->found || !search->found->call || session->call)
		search->found = session;
}

struct session *session_find_in(const struct workspace *workspace, struct text name)
{
	struct search search = {.workspace = workspace, .name = name};

	session_foreach(look_at_session, &search);
	return search.found ? session_find(text_from(search.found->id)) : NULL;
}

uint64_t session_shown(const struct session *session)
{
	return session->shown;
}

void session_set_shown(struct session *session, uint64_t cursor)
{
	session->shown = cursor;
}

int session_find_keyed(
	struct session *session, const struct call_key *key, struct session_keyed **ret)
{
	struct session_keyed *found = NULL;

	if (!session->keyed_uses)
		session->keyed_uses = calloc(LIMIT_TOOL_KEYS, sizeof(*found));
	if (!session->keyed_uses)
		return -ENOMEM;
	for (size_t i = 0; i < LIMIT_TOOL_KEYS && !found; i++)
		if (session->keyed_uses[i].set &&
			memcmp(session->keyed_uses[i].key.id, key->id, sizeof(key->id)) == 0)
			found = &session->keyed_uses[i];
	if (found && memcmp(found->key.digest, key->digest, sizeof(key->digest)) != 0)
		return -EEXIST;
	*ret = found;
	if (found)
		return 1;
	*ret = &session->keyed_uses[session->next_keyed++ % LIMIT_TOOL_KEYS];
	**ret = (struct session_keyed){.key = *key, .set = true};
	return 0;
}

const char *session_state_name(enum session_state state)
{
	static const char *const names[] = {
		[SESSION_STARTING] = "starting",
		[SESSION_RUNNING] = "running",
		[SESSION_ENDING] = "ending",
		[SESSION_ENDED] = "ended",
	};

	return names[state];
}

static enum session_state session_state_of(const struct session *session)
{
	struct call_info info;

	if (!session->call)
		return SESSION_ENDED;
	call_get_info(session->call, &info);
	if (info.state == CALL_WAITING)
		return SESSION_STARTING;
	return info.state == CALL_RUNNING ? SESSION_RUNNING : SESSION_ENDING;
}

/* An end that could not be written for want of memory is not passed over in silence. */
static struct text end_of(const struct session *session)
{
	if (session->call)
		return (struct text){NULL, 0};
	if (session->end)
		return text_from(session->end);
	return TEXT_LITERAL("{\"success\":false,\"tool\":\"run_command\",\"output\":null,"
			    "\"error\":{\"code\":\"BUSY\",\"message\":\"Out of memory: how the "
			    "session ended is not known\"},\"usage\":{}}");
}

static struct text ending_of(const struct session *session)
{
	if (session->call)
		return (struct text){NULL, 0};
	return session->ending ? text_from(session->ending)
			       : TEXT_LITERAL("ended; how is not known for want of memory");
}

void session_get_info(const struct session *session, struct session_info *ret)
{
	*ret = (struct session_info){
		.id = session->id,
		.name = session->name ? text_from(session->name) : (struct text){NULL, 0},
		.command = text_from(session->command),
		.workspace = session->place,
		.tenant = session->tenant,
		.state = session_state_of(session),
		.age_ms = (clock_now() - session->began) / CLOCK_NS_PER_MS,
		.lifetime_ms = session->lifetime_ms,
		.taken = session->taken,
		.terminal = session->terminal,
		.input_over = !session->call || !session->has_input || session->eof ||
			      !call_input_is_read(session->call),
		.end = end_of(session),
		.ending = ending_of(session),
	};
}

void session_describe(struct json_text *json, const struct session_info *info, size_t command_bytes)
{
	json_text_put(json, "session", info->id);
	json_text_key(json, "name");
	if (info->name.data)
		json_text_string(json, info->name);
	else
		json_text_null(json);
	json_text_put(json, "workspace", info->workspace);
	json_text_put(json, "tenant", info->tenant->name);
	json_text_put(json, "state", session_state_name(info->state));
	json_text_put_text(json, "command", utf8_cut(info->command, command_bytes));
	json_text_put_number(json, "age_ms", info->age_ms);
	json_text_put_number(json, "lifetime_ms", info->lifetime_ms);
}

const struct output_ring *session_output(const struct session *session)
{
	return &session->ring;
}

struct session_waiting *session_waiting(struct session *session)
{
	return &session->waiting;
}

void session_touch(struct session *session)
{
	session->used = clock_now();
}

int session_write(
	struct session *session, struct text data, int64_t at, bool eof, size_t *ret_taken)
{
	const bool over = !session->call || session->eof || !call_input_is_read(session->call);
	struct input_once once;
	char *label;
	int r;

	if (!session->has_input)
		return -EPIPE;
	r = input_once(session->taken, at < 0 ? session->taken : (uint64_t)at, data.len,
		over ? SIZE_MAX : call_input_room(session->call), &once);
	if (r < 0)
		return r;
	/* Bytes that are sent again were taken before, also if the command has ended since. */
	*ret_taken = once.skip;
	if (over)
		return once.take > 0 || !session->call ? -EPIPE : 0;
	eof = eof && once.whole;
	if (once.take == 0 && !eof)
		return 0;
	/* Input with a label counts until the command has taken it. */
	label = strdup("");
	if (!label)
		return -ENOMEM;
	r = call_add_input(
		session->call, (struct text){data.data + once.skip, once.take}, eof, &label);
	free(label);
	if (r < 0)
		return r == -EINVAL ? -EPIPE : r;
	*ret_taken += once.take;
	session->taken += once.take;
	session->eof = eof;
	session->used = clock_now();
	return 0;
}

int session_signal(struct session *session, const struct command_signal *message)
{
	session->used = clock_now();
	return session->call ? call_signal(session->call, message) : -ESRCH;
}

int session_resize(struct session *session, const struct command_terminal *size)
{
	int r = session->call ? call_resize(session->call, size) : -ESRCH;

	session->used = clock_now();
	if (r == 0)
		session->terminal = *size;
	return r;
}

/* Stores the cgroup whose ports are the command's; 0: those of the workspace are. Returns false if
 * it has none of its own yet. */
static bool owner_of_ports(const struct session *session, uint64_t *ret_cgroup)
{
	struct call_info info;

	if (!session->workspace)
		return false;
	call_get_info(session->call, &info);
	*ret_cgroup = info.cgroup;
	return info.cgroup != 0 || !workspace_has_cgroups(session->workspace);
}

bool session_listens(const struct session *session, uint16_t port)
{
	uint64_t cgroup;

	return owner_of_ports(session, &cgroup) &&
	       workspace_listens(session->workspace, port, cgroup) > LISTENS_NOT;
}

bool session_tells_ports(const struct session *session)
{
	return !session->workspace || workspace_tells_ports(session->workspace);
}

bool session_owns_ports(const struct session *session)
{
	struct workspace_info info;
	uint64_t cgroup;

	if (!owner_of_ports(session, &cgroup))
		return false;
	if (cgroup != 0)
		return true;
	workspace_get_info(session->workspace, &info);
	return info.commands == 0 && session_count(session->workspace) == 1;
}

bool session_ports(const struct session *session, struct listening_ports *ret)
{
	uint64_t cgroup;

	*ret = (struct listening_ports){0};
	return !owner_of_ports(session, &cgroup) ||
	       workspace_ports(session->workspace, cgroup, ret);
}

int64_t session_stopped_ns(const struct session *session)
{
	return session->workspace ? workspace_stopped_ns(session->workspace) : 0;
}

bool session_was_stopped(const struct session *session, int64_t *stopped_ns, struct timer *timer)
{
	return session->workspace && workspace_were_stopped(session->workspace, stopped_ns, timer);
}

void session_end(struct session *session, int64_t grace_ms)
{
	if (session->call)
		call_end_within(session->call, ENDED_BY_CANCEL, grace_ms);
}
