// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process; file_edit.h explains it. The tenant may rename or write anything
 * meanwhile.
 */
#include "worker/files/edit/file_edit.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/edit/edit_diff.h"
#include "worker/files/edit/edit_explain.h"
#include "worker/files/edit/edit_plan.h"
#include "worker/files/edit/file_version.h"
#include "worker/files/file_settle.h"
#include "worker/files/file_write.h"
#include "worker/files/walk/file_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

struct file_edit {
	const struct root *root;
	uint64_t call;
	bool durable;
	bool look;  /* an earlier call may have made the change */
	bool held;  /* expect is what was there when the call was told so */
	char *path; /* as the request gave it */
	size_t path_len;
	char expect[FILES_VERSION_BYTES + 1]; /* "": any version */
	size_t size, received;
	char body[];
};

int file_edit_begin(const struct root *root, const struct files_edit *request, uint64_t call,
	struct file_edit **ret_edit)
{
	struct file_edit *edit = calloc(1, sizeof(*edit) + request->size);

	if (!edit)
		return -ENOMEM;
	edit->root = root;
	edit->call = call;
	edit->durable = request->durable;
	edit->look = request->look;
	edit->size = request->size;
	edit->path_len = request->path.len;
	edit->path = malloc(request->path.len + 1);
	if (!edit->path) {
		free(edit);
		return -ENOMEM;
	}
	if (request->path.len > 0)
		memcpy(edit->path, request->path.data, request->path.len);
	if (request->expect.len > 0)
		memcpy(edit->expect, request->expect.data, request->expect.len);
	*ret_edit = edit;
	return 0;
}

void file_edit_append(struct file_edit *edit, const void *data, size_t len)
{
	if (len > edit->size - edit->received)
		len = edit->size - edit->received;
	if (len > 0)
		memcpy(edit->body + edit->received, data, len);
	edit->received += len;
}

/* Opens and reads the file, or ends @reply with the error. */
static bool read_source(
	const struct file_edit *edit, struct reply *reply, struct file_source *source)
{
	const struct text path = {edit->path, edit->path_len};
	struct stat st;
	enum tool_error error = root_open_file(edit->root, path, &st, &source->fd, NULL);
	int r;

	if (error != TOOL_OK) {
		reply_path_error(reply, edit->root, path, error);
		return false;
	}
	r = file_source_read(source);
	if (r == -EFBIG)
		reply_error(reply, TOOL_FILE_TOO_LARGE,
			"The file has more than the %llu bytes that can be edited; use "
			"run_command, for example sed -i",
			LIMIT_CONTENT_BYTES);
	else if (r == -EAGAIN)
		reply_error(reply, TOOL_STALE_FILE,
			"Another process writes to the file; edit it when it is complete");
	else if (r < 0)
		reply_error(reply, tool_error_from_errno(-r), "%s", tool_errno_sentence(-r));
	return r == 0;
}

/* Whether the file has the version that the call expects; otherwise it ends @reply. */
static bool has_version(
	const struct file_edit *edit, const struct file_source *source, struct reply *reply)
{
	char version[FILES_VERSION_BYTES + 1];

	if (!edit->expect[0] ||
		strcmp(edit->expect, file_version_of(file_source_text(source), version)) == 0)
		return true;
	reply_error(reply, TOOL_STALE_FILE, "%s",
		edit->held ? "Another process changed the file while the call was recorded; read "
			     "it again. Nothing was written"
			   : "The file has changed since the version in expect: read it again and "
			     "make the edit anew. Nothing was written");
	return false;
}

static void tell_trouble(
	const struct edit_plan *plan, const struct edit_failure *failure, struct reply *reply)
{
	struct edit_explanation why;
	struct files_trouble trouble;

	edit_explain(plan, failure, &why);
	trouble = (struct files_trouble){.edit = failure->edit,
		.kind = text_from(why.kind),
		.closest = why.closest,
		.n_lines = (uint32_t)why.n_lines};
	for (size_t i = 0; i < why.n_lines; i++)
		trouble.lines[i] = why.lines[i];
	reply_trouble(reply, &trouble);
	reply_error(reply, failure->error, "%s", why.sentence);
}

static void tell_success(const struct edit_plan *plan, const char *path, struct reply *reply)
{
	const struct text content = {plan->content, plan->len};
	char diff[LIMIT_EDIT_DIFF], version[FILES_VERSION_BYTES + 1];

	reply_data(reply, diff, edit_diff(plan, diff, sizeof(diff)));
	reply_end(reply, &(struct files_end){
				 .path = text_from(path),
				 .size = plan->len,
				 .count = plan->n_places,
				 .first_line = edit_line_of(plan->original, plan->places[0].start),
				 .version = text_from(file_version_of(content, version)),
			 });
}

/* Replaces the file that was read. Returns false if it is another one now. */
static bool replace_edited(const struct file_edit *edit, const struct file_source *source,
	const struct edit_plan *plan, struct reply *reply)
{
	const struct files_write request = {
		.path = {edit->path, edit->path_len},
		.size = plan->len,
		.durable = edit->durable,
	};
	struct file_write *staged;
	enum tool_error error;

	if (file_write_begin(edit->root, &request, edit->call, &staged) < 0) {
		reply_error(reply, TOOL_EXECUTION_ERROR, NULL);
		return true;
	}
	file_write_expect(staged, source->fd, file_source_text(source));
	file_write_append(staged, plan->content, plan->len);
	error = file_write_publish(staged);
	if (error == TOOL_OK)
		tell_success(plan, file_write_path(staged), reply);
	else if (error != TOOL_STALE_FILE)
		reply_error(reply, error, "%s", file_write_sentence(staged));
	file_write_free(staged);
	return error != TOOL_STALE_FILE;
}

/* Makes the edits once. Returns false if the file was changed meanwhile. */
static bool try_edit(const struct file_edit *edit, struct edit_plan *plan, struct reply *reply)
{
	struct file_source source = FILE_SOURCE_NONE;
	struct edit_failure failure;
	bool settled = true;

	if (read_source(edit, reply, &source) && has_version(edit, &source, reply)) {
		if (!edit_plan_make(plan, file_source_text(&source), &failure))
			tell_trouble(plan, &failure, reply);
		else
			settled = replace_edited(edit, &source, plan, reply);
	}
	file_source_done(&source);
	return settled;
}

/* Writes to disk what an earlier call may have made, or ends @reply with the error. */
static bool settle_edit(const struct file_edit *edit, struct reply *reply)
{
	int r = edit->look && edit->durable
			? file_settle(edit->root, (struct text){edit->path, edit->path_len})
			: 0;

	if (r < 0)
		reply_error(reply, tool_error_from_errno(-r), "%s", tool_errno_sentence(-r));
	return r == 0;
}

bool file_edit_hold(struct file_edit *edit, struct reply *reply)
{
	char before[FILES_VERSION_BYTES + 1], after[FILES_VERSION_BYTES + 1] = "";
	struct file_source source = FILE_SOURCE_NONE;
	struct edit_failure failure;
	struct edit_plan plan;
	bool possible = edit_plan_read(&plan, (struct text){edit->body, edit->received}) == 0, told;

	if (!possible)
		reply_error(reply, TOOL_EXECUTION_ERROR, NULL);
	if (possible && settle_edit(edit, reply) && read_source(edit, reply, &source)) {
		told = edit_plan_make(&plan, file_source_text(&source), &failure);
		if (told)
			file_version_of((struct text){plan.content, plan.len}, after);
		reply_held(reply, &(struct files_held){
					  .before = text_from(file_version_of(
						  file_source_text(&source), before)),
					  .after = text_from(after),
					  .size = source.len,
				  });
		if (!told)
			tell_trouble(&plan, &failure, reply);
		possible = told;
		if (possible && !edit->expect[0]) {
			edit->held = true;
			memcpy(edit->expect, before, sizeof(edit->expect));
		}
	} else {
		possible = false;
	}
	file_source_done(&source);
	edit_plan_done(&plan);
	return possible;
}

int file_edit_commit(struct file_edit *edit, struct reply *reply)
{
	for (int i = 0; i < LIMIT_OPEN_RETRIES; i++) {
		struct edit_plan plan;
		int r = edit_plan_read(&plan, (struct text){edit->body, edit->received});
		bool settled = r == 0 && try_edit(edit, &plan, reply);

		edit_plan_done(&plan);
		if (r < 0 || settled)
			return r;
	}
	reply_error(reply, TOOL_STALE_FILE,
		"Other processes change the file all the time; edit it when they are done. "
		"Nothing was written");
	return 0;
}

void file_edit_free(struct file_edit *edit)
{
	if (!edit)
		return;
	free(edit->path);
	free(edit);
}
