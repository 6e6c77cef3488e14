// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/agent/mcp/mcp_progress.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/timer.h"
#include "supervisor/connection/client_state.h"

struct mcp_progress {
	struct client_call *call;
	char *token;
	struct timer timer;
	int64_t started;  /* as clock_now() */
	uint64_t told_ms; /* the progress sent last; 0: none yet */
	char line[LIMIT_PROGRESS_LINE_BYTES];
	size_t len;
	bool line_ended; /* the next output begins a new line */
	bool soon;       /* the timer is set because of output */
};

struct mcp_progress *mcp_progress_new(const char *token)
{
	struct mcp_progress *progress = calloc(1, sizeof(*progress));

	if (!progress)
		return NULL;
	progress->token = token ? strdup(token) : NULL;
	if (!progress->token)
		free(TAKE_PTR(progress));
	return progress;
}

void mcp_progress_free(struct mcp_progress *progress)
{
	if (!progress)
		return;
	timer_cancel(&progress->timer);
	free(progress->token);
	free(progress);
}

static uint64_t elapsed_ms(const struct mcp_progress *progress)
{
	return (uint64_t)((clock_now() - progress->started) / CLOCK_NS_PER_MS);
}

static void put_message(struct json_text *json, const struct mcp_progress *progress)
{
	struct text line = {progress->line, progress->len};

	/* Drop incomplete characters: the rest is lost at the start, and still to come at the end.
	 */
	while (line.len > 0 && (line.data[0] & 0xC0) == 0x80) {
		line.data++;
		line.len--;
	}
	line.len -= utf8_incomplete_tail(line);
	json_text_put_text(json, "message", line.len > 0 ? line : TEXT_LITERAL("running"));
}

/* Sends progress, later if the client does not read. */
static void tell_mcp_progress(struct mcp_progress *progress)
{
	struct client *client = progress->call->client;
	uint64_t now = elapsed_ms(progress);
	struct json_text json;

	if (client->paused)
		return;
	progress->told_ms = now > progress->told_ms ? now : progress->told_ms + 1;
	json = json_text(client->connection.output);
	jsonrpc_notification_begin(&json, "notifications/progress");
	json_text_put_raw(&json, "progressToken", text_from(progress->token));
	json_text_put_uint64(&json, "progress", progress->told_ms);
	put_message(&json, progress);
	client_answer_end(client, &json);
}

static void on_timer(void *context)
{
	struct mcp_progress *progress = context;

	tell_mcp_progress(progress);
	progress->soon = false;
	timer_set(&progress->timer, PROGRESS_MS);
}

void mcp_progress_start(struct mcp_progress *progress, struct client_call *call)
{
	progress->call = call;
	progress->started = clock_now();
	timer_init(&progress->timer, on_timer, progress);
	timer_set(&progress->timer, PROGRESS_MS);
}

static bool ends_line(char c)
{
	return c == '\n' || c == '\r';
}

/* Keeps the last non-empty line, and the end of a long one. */
static void keep_line(struct mcp_progress *progress, struct text data)
{
	size_t end = data.len, begin, keep;

	while (end > 0 && ends_line(data.data[end - 1]))
		end--;
	begin = end;
	while (begin > 0 && !ends_line(data.data[begin - 1]))
		begin--;
	if (begin == end) {
		progress->line_ended = true;
		return;
	}
	if (begin > 0 || progress->line_ended)
		progress->len = 0;
	progress->line_ended = end < data.len;
	if (end - begin > sizeof(progress->line))
		begin = end - sizeof(progress->line);
	keep = sizeof(progress->line) - (end - begin);
	if (progress->len > keep) {
		memmove(progress->line, progress->line + progress->len - keep, keep);
		progress->len = keep;
	}
	memcpy(progress->line + progress->len, data.data + begin, end - begin);
	progress->len += end - begin;
}

/*
 * Wait a little: if the command ends meanwhile, its answer says more, and a client could mistake
 * progress that arrives with the answer for progress after it.
 */
void mcp_progress_output(struct mcp_progress *progress, struct text data)
{
	uint64_t now = elapsed_ms(progress), next = progress->told_ms + PROGRESS_OUTPUT_MS;

	keep_line(progress, data);
	if (progress->soon)
		return;
	progress->soon = true;
	timer_set(&progress->timer,
		next > now + PROGRESS_DELAY_MS ? (int64_t)(next - now) : PROGRESS_DELAY_MS);
}
