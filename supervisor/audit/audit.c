// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Names in the events come from clients: json_text.c turns them into valid JSON
 * on one line, and they are cut to the room that a line has.
 */
#include "supervisor/audit/audit.h"

#include "common/budget.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit_time.h"
#include "supervisor/audit/audit_writer.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/log.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/request/call_digest.h"
#include "supervisor/call/request/call_name.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/config/peer_auth.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/startup.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/network/network_use.h"
#include "supervisor/workspace/templates/forks.h"
#include "supervisor/workspace/workspace.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>

struct audit {
	struct audit_writer *writer;
	bool required;
	struct budget reserve; /* bytes of the queue, for the ends of calls in flight */
	int64_t second;        /* second in which the clients below were counted */
	unsigned unauthorized, untold;
	struct evbuffer *line; /* each line is built here */
};

int audit_new(
	const char *path, bool required, const struct audit_rotation *rotation, struct audit **ret)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *directory = strndup(path, (size_t)(slash - path));
	struct audit *audit = calloc(1, sizeof(*audit));
	_cleanup_close_ int fd = -1;
	int r = -ENOMEM;

	if (audit)
		audit->line = evbuffer_new();
	if (directory && audit && audit->line)
		r = startup_make_directory(directory[0] ? directory : "/", &fd);
	if (r == 0)
		r = audit_writer_new(fd, slash + 1, *rotation, &audit->writer);
	if (r < 0) {
		if (audit && audit->line)
			evbuffer_free(audit->line);
		free(audit);
		return r;
	}
	TAKE_FD(fd);
	audit->required = required;
	audit_share(audit, 1);
	*ret = audit;
	return 0;
}

void audit_share(struct audit *audit, size_t tenants)
{
	if (audit)
		budget_set(&audit->reserve, LIMIT_AUDIT_QUEUE_BYTES / 2, tenants,
			LIMIT_AUDIT_FLOOR_CALLS * LIMIT_AUDIT_RESERVE_BYTES);
}

int audit_start(struct audit *audit)
{
	return audit ? audit_writer_start(audit->writer) : 0;
}

void audit_free(struct audit *audit)
{
	uint64_t left;

	if (!audit)
		return;
	left = audit_writer_free(audit->writer);
	if (left > 0)
		log_error("%llu lines of the audit log could not be written",
			(unsigned long long)left);
	evbuffer_free(audit->line);
	free(audit);
}

void audit_reopen(struct audit *audit)
{
	if (audit)
		audit_writer_reopen(audit->writer);
}

void audit_hold(struct audit *audit)
{
	if (audit)
		audit_writer_hold(audit->writer);
}

bool audit_is_held(struct audit *audit)
{
	return !audit || audit_writer_is_held(audit->writer);
}

void audit_resume(struct audit *audit)
{
	if (audit)
		audit_writer_resume(audit->writer);
}

void audit_relay(struct audit *audit, int fd)
{
	if (audit)
		audit_writer_relay(audit->writer, fd);
}

void audit_relayed(struct audit *audit, struct text members)
{
	/* One line stays one line. */
	for (size_t i = 0; i < members.len; i++)
		if ((unsigned char)members.data[i] < ' ')
			return;
	if (audit && members.len > 0)
		(void)audit_writer_put(audit->writer, members, 0);
}

const char *audit_forbids(const struct audit *audit)
{
	struct audit_writer_state state;

	if (!audit || !audit->required)
		return NULL;
	audit_writer_look(audit->writer, &state);
	if (state.error != 0)
		return "The audit log cannot be written, and calls are refused without it; try "
		       "again later";
	if (state.queued + LIMIT_AUDIT_LINE_BYTES > LIMIT_AUDIT_QUEUE_BYTES / 2)
		return "The audit log is behind, and calls are refused without it; try again later";
	return NULL;
}

const char *audit_refuses_call(const struct audit *audit, const struct tenant *tenant)
{
	if (!audit || !audit->required ||
		budget_left(&audit->reserve, tenant->usage->audit_bytes) >=
			LIMIT_AUDIT_RESERVE_BYTES)
		return NULL;
	return "The audit log keeps room for the end of each call, and the tenant's calls in "
	       "flight have taken all that the tenant may have of it; try again when one has ended";
}

bool audit_look(const struct audit *audit, struct audit_state *ret)
{
	struct audit_writer_state state;

	if (!audit)
		return false;
	audit_writer_look(audit->writer, &state);
	*ret = (struct audit_state){
		.required = audit->required,
		.lines = state.last.seq,
		.lost = state.lost,
		.queued_bytes = state.queued,
		.error = state.error,
	};
	memcpy(ret->hash, state.last.hash, sizeof(ret->hash));
	return true;
}

/* Building one line. */

static void begin_audit_line(struct audit *audit, struct json_text *json, const char *event)
{
	char time[AUDIT_TIME_BYTES];

	*json = json_text(audit->line);
	json_text_object_begin(json);
	json_text_put(json, "time", audit_time(time));
	json_text_put(json, "event", event);
}

/* The room reserved for the ends of calls in flight must not be used for other events. */
static size_t kept_room(const struct audit *audit)
{
	return audit->reserve.held < audit->reserve.bound ? audit->reserve.held
							  : audit->reserve.bound;
}

static void reserve_audit_room(struct audit *audit, const struct call_info *info, int64_t bytes)
{
	budget_take(&audit->reserve, &info->tenant->usage->audit_bytes, bytes);
}

static void end_audit_line(struct audit *audit, struct json_text *json)
{
	size_t keep = kept_room(audit);
	struct text line;
	bool whole;

	json_text_object_end(json);
	whole = json_text_flush(json) == 0;
	line.len = evbuffer_get_length(audit->line);
	line.data = (const char *)evbuffer_pullup(audit->line, -1);
	/*
	 * The queue takes the members without their braces. An event that could not be built for
	 * lack of memory counts as lost, like one that found no room.
	 */
	if (whole && line.data && line.len > 2)
		(void)audit_writer_put(
			audit->writer, (struct text){line.data + 1, line.len - 2}, keep);
	else
		(void)audit_writer_put(
			audit->writer, (struct text){NULL, LIMIT_AUDIT_LINE_BYTES + 1}, 0);
	evbuffer_drain(audit->line, line.len);
}

static void put_cut(struct json_text *json, const char *key, struct text text, size_t max)
{
	json_text_put_text(json, key, utf8_cut(text, max));
}

static void put_ids(struct json_text *json, uid_t uid, gid_t gid, pid_t pid)
{
	json_text_put_number(json, "uid", uid);
	json_text_put_number(json, "gid", gid);
	json_text_put_number(json, "pid", pid);
}

static void put_who(struct json_text *json, const struct peer_credentials *peer)
{
	put_ids(json, peer->uid, peer->gid, peer->pid);
	if (peer->key[0])
		json_text_put(json, "gate_key", peer->key);
}

static void put_workspace(struct json_text *json, const struct workspace *workspace, size_t max)
{
	json_text_put(json, "tenant", workspace_tenant(workspace)->name);
	put_cut(json, "workspace", text_from(workspace_name(workspace)), max);
}

/* Begins the line of an event that @peer has caused, in @workspace; NULL: none. */
static bool begin_by(struct audit *audit, struct json_text *json, const char *event,
	const struct peer_credentials *peer, const struct workspace *workspace)
{
	if (!audit)
		return false;
	begin_audit_line(audit, json, event);
	if (peer)
		put_who(json, peer);
	if (workspace)
		put_workspace(json, workspace, LIMIT_AUDIT_TEXT_BYTES);
	return true;
}

/* Calls. */

static void begin_call(struct audit *audit, struct json_text *json, const char *event,
	const struct call_info *info, size_t max)
{
	char id[CALL_NAME_BYTES];

	begin_audit_line(audit, json, event);
	json_text_put(json, "call", call_name(info->id, id));
	if (info->session)
		json_text_put(json, "session", info->session);
	put_ids(json, info->request->uid, info->request->gid, info->request->pid);
	put_workspace(json, info->workspace, max);
	json_text_put(json, "tool", info->tool);
}

void audit_call_admitted(void *context, const struct call *call)
{
	struct audit *audit = context;
	char hex[AUDIT_HASH_DIGITS + 1], id[CALL_NAME_BYTES];
	struct json_text json;
	struct call_info info;

	if (!audit)
		return;
	call_get_info(call, &info);
	if (!info.leader)
		reserve_audit_room(audit, &info, LIMIT_AUDIT_RESERVE_BYTES);
	begin_call(audit, &json,
		info.session  ? "session.started"
		: info.leader ? "call.joined"
			      : "call.admitted",
		&info, LIMIT_AUDIT_TEXT_BYTES);
	if (info.leader)
		json_text_put(&json, "joined", call_name(info.leader, id));
	json_text_put(&json, "arguments", call_digest(info.request, hex) == 0 ? hex : NULL);
	json_text_put(&json, "decision", "allow");
	json_text_put_number(&json, "deadline_ms", info.timeout_ms);
	end_audit_line(audit, &json);
}

/* @denial is NULL for all that have no line of their own. */
static void record_denied(struct audit *audit, const struct call_info *info,
	const struct network_denial *denial, uint64_t count)
{
	struct json_text json;

	begin_call(audit, &json, "network.denied", info, LIMIT_AUDIT_RESERVE_BYTES / 16);
	json_text_put(&json, "host", denial ? denial->host : NULL);
	if (denial)
		json_text_put_number(&json, "port", denial->port);
	json_text_put(&json, "reason", denial ? egress_reason_name(denial->reason) : NULL);
	json_text_put_uint64(&json, "count", count);
	end_audit_line(audit, &json);
}

static void record_closed(
	struct audit *audit, const struct call_info *info, const struct network_reached *host)
{
	struct json_text json;

	begin_call(audit, &json, "network.closed", info, LIMIT_AUDIT_RESERVE_BYTES / 16);
	json_text_put(&json, "host", host->host[0] ? host->host : NULL);
	if (host->host[0])
		json_text_put_number(&json, "port", host->port);
	json_text_put_uint64(&json, "connections", host->connections);
	json_text_put_uint64(&json, "bytes_in", host->bytes_in);
	json_text_put_uint64(&json, "bytes_out", host->bytes_out);
	end_audit_line(audit, &json);
}

/*
 * A line for each kind of refusal and for each host that was reached, of which a call has a bounded
 * number: a program that asks again and again cannot fill the log. One line more has what is beyond
 * that, so that a program which fills the number first hides that it did more from nobody.
 */
static void record_network(
	struct audit *audit, const struct call_info *info, const struct network_use *use)
{
	struct network_reached others = network_use_unlisted_hosts(use);
	uint64_t denied = network_use_unlisted(use);

	for (size_t i = 0; i < use->n_denials; i++)
		record_denied(audit, info, &use->denials[i], use->denials[i].count);
	if (denied > 0)
		record_denied(audit, info, NULL, denied);
	for (size_t i = 0; i < use->n_reached; i++)
		record_closed(audit, info, &use->reached[i]);
	if (others.connections > 0 || others.bytes_in > 0 || others.bytes_out > 0)
		record_closed(audit, info, &others);
}

void audit_call_ended(void *context, const struct call *call, const struct observation *observation)
{
	struct audit *audit = context;
	bool success = observation->error == TOOL_OK;
	struct json_text json;
	struct call_info info;

	if (!audit)
		return;
	call_get_info(call, &info);
	/* It has done nothing itself, and any number may end at once: there is no room for them. */
	if (info.leader)
		return;
	/* While there is room kept for the end of this call too. */
	if (observation->network)
		record_network(audit, &info, observation->network);
	assert(audit->reserve.held >= LIMIT_AUDIT_RESERVE_BYTES);
	reserve_audit_room(audit, &info, -(int64_t)LIMIT_AUDIT_RESERVE_BYTES);
	begin_call(audit, &json, info.session ? "session.ended" : "call.ended", &info,
		LIMIT_AUDIT_RESERVE_BYTES / 16);
	json_text_put_bool(&json, "success", success);
	json_text_put(&json, "code", success ? NULL : tool_error_name(observation->error));
	json_text_put(&json, "cause",
		info.is_command && observation->io ? ended_by_name(observation->ended_by) : NULL);
	if (observation->command)
		json_text_put_number(&json, "wait_status", observation->command->wait_status);
	observation_write_usage(&json, observation);
	end_audit_line(audit, &json);
}

void audit_call_refused(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *tool, const char *code)
{
	struct json_text json;

	if (!begin_by(audit, &json, "call.refused", peer, workspace))
		return;
	if (tool)
		put_cut(&json, "tool", text_from(tool), LIMIT_AUDIT_TEXT_BYTES / 16);
	json_text_put(&json, "decision", "refuse");
	json_text_put(&json, "code", code);
	end_audit_line(audit, &json);
}

void audit_call_replayed(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *tool, enum tool_error error)
{
	struct json_text json;

	if (!begin_by(audit, &json,
		    error == TOOL_OUTCOME_UNKNOWN ? "call.outcome_unknown" : "call.replayed", peer,
		    workspace))
		return;
	json_text_put(&json, "tool", tool);
	end_audit_line(audit, &json);
}

/*
 * Any local user can cause these events without limit, so a bound per second keeps them from
 * filling the disk.
 */
void audit_unauthorized_client(
	struct audit *audit, const struct peer_credentials *peer, const char *socket_name)
{
	struct json_text json;
	int64_t second = clock_now() / CLOCK_NS_PER_S;

	if (!audit)
		return;
	if (second != audit->second)
		audit->unauthorized = 0;
	audit->second = second;
	if (audit->unauthorized >= LIMIT_AUDIT_UNAUTHORIZED) {
		audit->untold++;
		return;
	}
	audit->unauthorized++;
	begin_audit_line(audit, &json, "stranger.refused");
	put_ids(&json, peer->uid, peer->gid, peer->pid);
	json_text_put(&json, "socket", socket_name);
	json_text_put(&json, "decision", "refuse");
	json_text_put(&json, "code", tool_error_name(TOOL_FORBIDDEN));
	if (audit->untold > 0)
		json_text_put_number(&json, "strangers_before", audit->untold);
	audit->untold = 0;
	end_audit_line(audit, &json);
}

void audit_workspace(struct audit *audit, const char *event, const struct peer_credentials *peer,
	const struct workspace *workspace)
{
	struct json_text json;

	if (!begin_by(audit, &json, event, peer, workspace))
		return;
	json_text_put(&json, "kind", workspace_kind_name(workspace_kind(workspace)));
	end_audit_line(audit, &json);
}

void audit_lease_ended(
	struct audit *audit, const struct tenant *tenant, const char *name, enum lease_end at_end)
{
	struct json_text json;

	if (!begin_by(audit, &json, "workspace.lease_ended", NULL, NULL))
		return;
	json_text_put(&json, "tenant", tenant->name);
	json_text_put(&json, "workspace", name);
	json_text_put(&json, "at_end", lease_end_name(at_end));
	end_audit_line(audit, &json);
}

void audit_session_used(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *tool, const char *session,
	const char *arguments)
{
	struct json_text json;

	if (!begin_by(audit, &json, "session.used", NULL, NULL))
		return;
	if (session)
		json_text_put(&json, "session", session);
	put_who(&json, peer);
	put_workspace(&json, workspace, LIMIT_AUDIT_TEXT_BYTES);
	json_text_put(&json, "tool", tool);
	json_text_put(&json, "arguments", arguments);
	json_text_put(&json, "decision", "allow");
	end_audit_line(audit, &json);
}

void audit_checkpoint(struct audit *audit, const char *event, const struct peer_credentials *peer,
	const struct workspace *workspace, uint32_t number)
{
	struct json_text json;

	if (!begin_by(audit, &json, event, peer, workspace))
		return;
	json_text_put_number(&json, "checkpoint", number);
	end_audit_line(audit, &json);
}

void audit_frozen(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *template, bool replaced)
{
	struct json_text json;

	if (!begin_by(audit, &json, "workspace.frozen", peer, workspace))
		return;
	json_text_put(&json, "template", template);
	if (replaced)
		json_text_put_bool(&json, "replaced", true);
	end_audit_line(audit, &json);
}

void audit_forked(
	struct audit *audit, const struct peer_credentials *peer, const struct forking *forking)
{
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];
	struct json_text json;

	if (!begin_by(audit, &json, "workspace.forked", peer, NULL))
		return;
	json_text_put(&json, "tenant", forking_tenant(forking)->name);
	json_text_put(&json, "template", forking_template(forking));
	forking_name(forking, 0, name);
	json_text_put(&json, "first", name);
	json_text_put_number(&json, "count", forking_count(forking));
	end_audit_line(audit, &json);
}

void audit_forward(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, uint16_t port)
{
	struct json_text json;

	if (!begin_by(audit, &json, "workspace.forwarded", peer, workspace))
		return;
	json_text_put_number(&json, "port", port);
	end_audit_line(audit, &json);
}

void audit_bound(struct audit *audit, const struct peer_credentials *peer,
	const struct tenant *tenant, struct text workspace)
{
	struct json_text json;

	if (!begin_by(audit, &json, "connection.bound", peer, NULL))
		return;
	json_text_put(&json, "tenant", tenant->name);
	if (workspace.data)
		put_cut(&json, "workspace", workspace, LIMIT_AUDIT_TEXT_BYTES);
	end_audit_line(audit, &json);
}

void audit_workspace_refused(struct audit *audit, const char *event,
	const struct peer_credentials *peer, struct text name, enum tool_error error)
{
	struct json_text json;

	if (!begin_by(audit, &json, event, peer, NULL))
		return;
	if (name.data)
		put_cut(&json, "workspace", name, LIMIT_AUDIT_TEXT_BYTES);
	json_text_put(&json, "decision", "refuse");
	json_text_put(&json, "code", tool_error_name(error));
	end_audit_line(audit, &json);
}

void audit_act(struct audit *audit, const struct peer_credentials *peer, const char *act,
	struct text target, const char *outcome)
{
	struct json_text json;

	if (!audit)
		return;
	begin_audit_line(audit, &json, "admin.act");
	if (peer)
		put_who(&json, peer);
	else
		json_text_put(&json, "by", "signal");
	json_text_put(&json, "act", act);
	if (target.data)
		put_cut(&json, "target", target, LIMIT_AUDIT_TEXT_BYTES);
	json_text_put(&json, "outcome", outcome);
	end_audit_line(audit, &json);
}
