// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/workspace.h"

#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/workspace/managed/workspace_properties.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/workspace_pause.h"
#include "tests/lib/unit.h"

static void note(struct workspace *workspace, const char *word)
{
	size_t len = strlen(workspace->log);

	assert_true(len + strlen(word) + 2 < sizeof(workspace->log));
	strcat(workspace->log, " ");
	strcat(workspace->log, word);
}

const char *fake_workspace_log(struct workspace *workspace)
{
	static char log[sizeof(workspace->log)];

	strcpy(log, workspace->log);
	workspace->log[0] = '\0';
	return log;
}

void fake_workspace_close(struct workspace *workspace)
{
	while (workspace->n_fds > 0)
		close_fd(&workspace->fds[--workspace->n_fds]);
}

/* workspace.h */

struct workspace *workspace_hold(struct workspace *workspace)
{
	workspace->users++;
	return workspace;
}

void workspace_release(struct workspace *workspace)
{
	if (workspace)
		workspace->users--;
}

void workspace_begin_use(struct workspace *workspace, struct network_use *use, uint64_t call)
{
	if (workspace->has_network)
		egress_use_begin((struct egress_cell *)workspace, use, call);
}

struct tenant *workspace_tenant(const struct workspace *workspace)
{
	(void)workspace;
	return NULL;
}

struct json_object *workspace_env(const struct workspace *workspace)
{
	(void)workspace;
	return NULL;
}

const char *workspace_narrowed(const struct workspace *workspace)
{
	(void)workspace;
	return NULL;
}

struct shared_fd_sum *workspace_fd_sum(const struct workspace *workspace)
{
	return workspace->fd_sum;
}

int64_t workspace_stopped_ns(const struct workspace *workspace)
{
	(void)workspace;
	return 0;
}

bool workspace_were_stopped(
	const struct workspace *workspace, int64_t *stopped_ns, struct timer *timer)
{
	(void)workspace;
	(void)stopped_ns;
	(void)timer;
	return false;
}

void workspace_enter(struct workspace *workspace, struct workspace_entry *entry)
{
	assert_null(workspace->entry);
	workspace->entry = entry;
	note(workspace, "enter");
}

void workspace_leave(struct workspace *workspace, struct workspace_entry *entry)
{
	assert_ptr_equal(workspace->entry, entry);
	workspace->entry = NULL;
	note(workspace, "leave");
}

void workspace_become_session(struct workspace *workspace, struct workspace_entry *entry)
{
	assert_ptr_equal(workspace->entry, entry);
	assert_true(entry->begun);
	entry->class = CALL_CLASS_SESSION;
	note(workspace, "session");
}

static void keep(struct workspace *workspace, uint64_t call, struct text payload)
{
	assert_non_null(workspace->entry);
	assert_int_equal(call, workspace->entry->call);
	assert_true(payload.len <= sizeof(workspace->request));
	if (payload.len > 0)
		memcpy(workspace->request, payload.data, payload.len);
	workspace->request_len = payload.len;
}

void workspace_send_files(
	struct workspace *workspace, uint8_t type, uint64_t call, struct text payload)
{
	static const char *const words[] = {
		[FILES_READ] = "read",
		[FILES_WRITE] = "write",
		[FILES_LIST] = "list",
		[FILES_SEARCH] = "search",
		[FILES_EDIT] = "edit",
		[FILES_PATCH] = "patch",
		[FILES_BODY] = "body",
		[FILES_CANCEL] = "cancel",
		[FILES_GO] = "go",
		[FILES_FETCH] = "fetch",
		[FILES_MORE] = "more",
		[FILES_WATCH] = "watch",
	};

	assert_true(type < ARRAY_SIZE(words) && words[type]);
	keep(workspace, call, payload);
	note(workspace, words[type]);
}

void workspace_send_worker(struct workspace *workspace, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds)
{
	static const char *const words[] = {
		[COMMAND_RUN] = "run",
		[COMMAND_BODY] = "body",
		[COMMAND_TERMINATE] = "terminate",
		[COMMAND_KILL] = "kill",
		[COMMAND_GO] = "go",
		[COMMAND_SIGNAL] = "signal",
		[COMMAND_RESIZE] = "resize",
	};

	assert_true(type < ARRAY_SIZE(words) && words[type]);
	assert_true(workspace->n_fds + n_fds <= FAKE_WORKSPACE_FDS);
	keep(workspace, call, payload);
	for (unsigned i = 0; i < n_fds; i++)
		workspace->fds[workspace->n_fds++] = fds[i];
	note(workspace, words[type]);
}

uint64_t workspace_said(const struct workspace *workspace, const struct workspace_entry *entry)
{
	assert_ptr_equal(workspace->entry, entry);
	return 7;
}

bool workspace_has_heard(
	struct workspace *workspace, const struct workspace_entry *entry, uint64_t said)
{
	assert_ptr_equal(workspace->entry, entry);
	assert_int_equal(said, 7);
	return workspace->heard;
}

void workspace_abandon(
	struct workspace *workspace, const struct workspace_entry *entry, const char *why)
{
	assert_true(!workspace->entry || workspace->entry == entry);
	assert_non_null(why);
	note(workspace, "abandon");
}

void workspace_add_cpu(struct workspace *workspace, uint64_t us)
{
	(void)workspace;
	(void)us;
}

enum workspace_kind workspace_kind(const struct workspace *workspace)
{
	(void)workspace;
	return WORKSPACE_MANAGED;
}

const char *disk_enforcer_name(enum disk_enforcer enforcer)
{
	return enforcer == DISK_ENFORCER_NONE ? "none" : "some";
}

struct disk_state workspace_disk(const struct workspace *workspace)
{
	return workspace->disk;
}

void workspace_disk_stream(struct workspace *workspace, int64_t bytes)
{
	workspace->streaming += (uint64_t)bytes;
}

void workspace_disk_stream_ended(struct workspace *workspace, uint64_t bytes, bool kept)
{
	(void)kept;
	workspace->streaming -= bytes;
}

bool disk_state_is_over(const struct disk_state *state)
{
	return state->enforcer == DISK_ENFORCER_MEASURED && state->bytes > state->limit;
}

void workspace_disk_told(struct workspace *workspace, const struct files_end *end)
{
	workspace->disk.bytes = end->disk_bytes;
}

void workspace_disk_count(struct workspace *workspace)
{
	(void)workspace;
}

void workspace_disk_uncount(struct workspace *workspace)
{
	(void)workspace;
}

struct disk_size disk_hard_limit(const struct tenant *tenant)
{
	(void)tenant;
	return (struct disk_size){0};
}

void workspace_disk_calls(struct workspace *workspace)
{
	(void)workspace;
}

int workspace_disk_measured(struct workspace *workspace, struct text payload)
{
	(void)workspace;
	(void)payload;
	return 0;
}
