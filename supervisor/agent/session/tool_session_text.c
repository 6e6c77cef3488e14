// SPDX-License-Identifier: Apache-2.0
#include "supervisor/agent/session/tool_session_text.h"

#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/agent/session/output_chunks.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/result/model_text.h"
#include "supervisor/call/result/shown.h"
#include "supervisor/call/result/stream_capture.h"
#include "supervisor/call/result/stream_shown.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/session/session_use.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A text for a model. NULL: none is wanted. */
static void __attribute__((format(printf, 2, 3)))
put(struct session_text *out, const char *format, ...)
{
	va_list arguments;

	if (!out->text)
		return;
	va_start(arguments, format);
	out->failed |= evbuffer_add_vprintf(out->text, format, arguments) < 0;
	va_end(arguments);
}

static void put_name(struct session_text *out, const struct session_info *info)
{
	if (out->text)
		out->failed |= !model_text_name(
			out->text, info->name.data ? info->name : text_from(info->id));
}

/* Writes the members that say what runs, or how it ended, and the line for a model. */
static void put_state(struct session_text *out, struct json_text *json,
	const struct session *session, const struct session_info *info)
{
	struct listening_ports ports = {0};
	const bool ended = info->state == SESSION_ENDED;
	const bool known = !ended && session_ports(session, &ports);

	json_text_key(json, "name");
	if (info->name.data)
		json_text_string(json, info->name);
	else
		json_text_null(json);
	json_text_put(json, "session", info->id);
	json_text_put(json, "state", session_state_name(info->state));
	json_text_put_number(json, "age_ms", info->age_ms);
	if (known) {
		json_text_put_array(json, "ports");
		for (size_t i = 0; i < ports.n; i++)
			json_text_int64(json, ports.ports[i]);
		json_text_array_end(json);
	}
	if (ended) {
		put(out, "%.*s", (int)info->ending.len, info->ending.data);
		return;
	}
	put(out, "%s for %" PRId64 ".%" PRId64 " s", session_state_name(info->state),
		info->age_ms / 1000, info->age_ms / 100 % 10);
	for (size_t i = 0; i < ports.n; i++)
		put(out, "%s %u",
			i > 0                         ? ","
			: session_owns_ports(session) ? ", listens at port"
						      : ", it or another command listens at port",
			ports.ports[i]);
}

/* Writes what became of input. */
static void put_input(struct session_text *out, struct json_text *json,
	const struct session_info *info, const struct session_did *did)
{
	json_text_put_uint64(json, "taken", did->taken);
	json_text_put_bool(json, "input_closed", did->input_over);
	if (did->refused && info->state == SESSION_ENDED)
		put(out, "; nothing was written, because it has ended");
	else if (did->refused)
		put(out, "; nothing was written, because its input is closed");
	else if (did->signal)
		put(out, "; SIG%s was sent, since it has no terminal", sigabbrev_np(did->signal));
	else
		put(out, "; %zu byte%s written", did->taken, did->taken == 1 ? "" : "s");
	if (did->left > 0)
		put(out, ", %zu not: send them when it has read these", did->left);
}

/* Keeps the output from @first, before @last, as far as it is shown. Returns false without memory.
 */
static bool capture_output(const struct output_ring *ring, uint64_t first, uint64_t last,
	struct stream_capture *capture)
{
	struct output_piece piece;

	while (first < last && output_ring_piece(ring, first, (size_t)(last - first), &piece)) {
		if (stream_capture_append(capture, piece.data) < 0)
			return false;
		first += piece.data.len;
	}
	return true;
}

/* Writes the output as it is shown. */
static void put_output(struct session_text *out, struct json_text *json,
	const struct session_view *view, const struct stream_capture *capture, uint64_t first)
{
	struct stream_shown shown;
	char how[128];

	json_text_key(json, "output");
	if (view->base64) {
		stream_capture_write_base64(capture, json);
		json_text_put_bool(json, "truncated", stream_capture_truncated(capture));
		json_text_put(json, "encoding", "base64");
		return;
	}
	snprintf(how, sizeof(how),
		"read_output with after, from %" PRIu64 " to %" PRIu64 ", shows it from there on",
		first, first + stream_capture_total(capture));
	stream_shown_make(capture, view->room, how, &shown);
	stream_shown_write(&shown, json);
	json_text_put_bool(json, "truncated", shown.cut);
	if (out->text && stream_capture_total(capture) > 0)
		out->failed |= !model_text_stream(out->text, &shown);
}

/* Writes what is not there of the output from the cursor on. */
static void put_lost(struct session_text *out, struct json_text *json, uint64_t lost,
	uint64_t skipped, uint64_t from)
{
	json_text_put_uint64(json, "lost_bytes", lost);
	if (skipped > 0)
		json_text_put_uint64(json, "skipped_bytes", skipped);
	if (lost > 0)
		put(out, "[%" PRIu64 " bytes before this were not kept]\n", lost);
	if (skipped > 0)
		put(out,
			"[%" PRIu64
			" bytes before this are not shown; read_output with after=%" PRIu64
			" shows them]\n",
			skipped, from);
}

/* Chooses which output is shown, and writes it. Returns false if memory is out. */
static bool put_new(struct session_text *out, struct json_text *json, struct session *session,
	const struct session_view *view)
{
	const struct output_ring *ring = session_output(session);
	struct output_reader reader = {session, view->from, view->base64};
	const uint64_t lost = output_ring_lost(ring, view->from);
	struct stream_capture capture;
	uint64_t first, last, kept;
	bool whole;

	/* A model gets what was written last, whatever it did not look at before. */
	if (view->cut && ring->end - ring->start > LIMIT_SESSION_READ_BYTES &&
		reader.after < ring->end - LIMIT_SESSION_READ_BYTES)
		reader.after = ring->end - LIMIT_SESSION_READ_BYTES;
	output_range(&reader, view->cut ? LIMIT_SESSION_READ_BYTES : view->bytes, &first, &last);
	kept = view->from + lost;
	put(out, last > first ? "\n" : ", no new output\n");
	put_lost(out, json, lost, first - kept, kept);
	stream_capture_init(&capture, view->cut ? (size_t)view->bytes : LIMIT_SESSION_READ_BYTES);
	capture.count_lines = true;
	whole = capture_output(ring, first, last, &capture);
	if (whole)
		put_output(out, json, view, &capture, first);
	stream_capture_free(&capture);
	json_text_put_number(json, "output_bytes", (int64_t)(last - first));
	json_text_put_uint64(json, "next", last);
	session_set_shown(session, last);
	return whole;
}

bool session_text_state(struct session *session, const struct session_view *view,
	const struct session_did *did, struct session_text *out)
{
	struct json_text json = json_text(out->items);
	struct session_info info;

	session_get_info(session, &info);
	put_name(out, &info);
	put(out, ": ");
	put_state(out, &json, session, &info);
	if (did->found != SESSION_NOT_SOUGHT)
		json_text_put_bool(&json, "found", did->found == SESSION_FOUND);
	if (did->found == SESSION_NOT_FOUND)
		put(out, ", and the text was not in the new output");
	if (did->input)
		put_input(out, &json, &info, did);
	if (!put_new(out, &json, session, view))
		return false;
	if (info.end.data) {
		json_text_put_raw(&json, "end", info.end);
	}
	return json_text_flush(&json) == 0 && !out->failed;
}

/* A list. */

struct listing {
	const struct client *client;
	const struct workspace *workspace;
	struct session_text *out;
	struct json_text json;
	size_t n;
};

static void put_command(void *context, const struct session *session)
{
	struct listing *listing = context;
	struct session_info info;
	struct text command;

	if (!session_is_in(session, listing->workspace) ||
		!may_use_session(listing->client, session))
		return;
	listing->n++;
	session_get_info(session, &info);
	command = utf8_cut(info.command, LIMIT_TOOL_LIST_BYTES);
	put_name(listing->out, &info);
	put(listing->out, ": ");
	json_text_object_begin(&listing->json);
	put_state(listing->out, &listing->json, session, &info);
	json_text_put_text(&listing->json, "command", command);
	json_text_put_number(&listing->json, "unread_bytes",
		(int64_t)(session_output(session)->end - session_shown(session)));
	json_text_object_end(&listing->json);
	put(listing->out, ": ");
	if (listing->out->text)
		listing->out->failed |= !model_text_name(listing->out->text, command);
	put(listing->out, "\n");
}

bool session_text_list(
	const struct client *client, const struct workspace *workspace, struct session_text *out)
{
	struct listing listing = {.client = client,
		.workspace = workspace,
		.out = out,
		.json = json_text(out->items)};

	json_text_put_array(&listing.json, "commands");
	session_foreach(put_command, &listing);
	json_text_array_end(&listing.json);
	json_text_put_uint64(&listing.json, "count", listing.n);
	if (listing.n == 0)
		put(out, "no command is in the background%s\n",
			client_tools_of(client, workspace_tenant(workspace)) & TOOLS_SESSIONS
				? "; run_command with background=true starts one"
				: "");
	return json_text_flush(&listing.json) == 0 && !out->failed;
}
