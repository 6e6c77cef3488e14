// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process; file_patch.h explains it. The tenant may rename or write anything
 * meanwhile.
 */
#include "worker/files/edit/file_patch.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/line_count.h"
#include "worker/files/edit/file_patch_state.h"
#include "worker/files/edit/file_version.h"
#include "worker/files/file_exchange.h"
#include "worker/files/file_settle.h"
#include "worker/files/file_write_set.h"
#include "worker/files/file_write_state.h"
#include "worker/files/walk/dir_marks.h"
#include "worker/files/walk/file_source.h"
#include "worker/files/walk/near_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SHOWN_BYTES 200 /* of a path, in a sentence */

int file_patch_begin(const struct root *root, const struct files_patch *request, uint64_t call,
	struct file_patch **ret_patch)
{
	struct file_patch *patch = malloc(sizeof(*patch) + request->size);

	if (!patch)
		return -ENOMEM;
	*patch = (struct file_patch){.root = root,
		.call = call,
		.durable = request->durable,
		.look = request->look,
		.size = request->size};
	*ret_patch = patch;
	return 0;
}

void file_patch_append(struct file_patch *patch, const void *data, size_t len)
{
	if (len > patch->size - patch->received)
		len = patch->size - patch->received;
	if (len > 0)
		memcpy(patch->body + patch->received, data, len);
	patch->received += len;
}

static bool is_removed_by(const struct patch_file *file)
{
	return file->operation == FILES_DELETE || file->operation == FILES_MOVE;
}

/*
 * A number for the temporary name of each new file and, after LIMIT_PATCH_FILES, of each that is
 * removed, since several may be in one directory. Numbers of calls begin at a random one, so those
 * that are far away on the circle are another call's by chance only.
 */
static uint64_t number_of(const struct attempt *attempt, size_t index)
{
	return attempt->request->call + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Records why the patch fails, and sends what programs get of it. */
static bool fail_hunk(
	struct attempt *attempt, const struct work *work, const struct patch_failure *failure)
{
	struct text path = work->file->path;
	struct files_trouble trouble = {.file = path,
		.edit = failure->hunk,
		.kind = text_from(failure->kind),
		.closest = failure->closest,
		.n_lines = (uint32_t)failure->n_lines};
	char hunk[32] = "";

	if (failure->hunk > 0)
		snprintf(hunk, sizeof(hunk), ", hunk %" PRIu32, failure->hunk);
	for (size_t i = 0; i < failure->n_lines; i++)
		trouble.lines[i] = failure->lines[i];
	reply_trouble(attempt->reply, &trouble);
	reply_error(attempt->reply, failure->error, "%.*s%s: %s. Nothing of the patch was done",
		(int)(path.len < SHOWN_BYTES ? path.len : SHOWN_BYTES), path.data, hunk,
		failure->sentence);
	return false;
}

/* The same for a failure that is no hunk's. */
static bool fail_patch(struct attempt *attempt, const struct work *work, enum tool_error error,
	const char *sentence)
{
	struct patch_failure failure = {.error = error, .kind = "file"};

	snprintf(failure.sentence, sizeof(failure.sentence), "%s",
		sentence && *sentence ? sentence : tool_error_sentence(error));
	return fail_hunk(attempt, work, &failure);
}

/* Reading */

/* The file itself is moved or deleted, never what a link leads to. */
static bool refuse_link(struct attempt *attempt, const struct work *work)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (root_open(attempt->request->root, work->file->path, O_PATH | O_NOFOLLOW, &fd, NULL) !=
			TOOL_OK ||
		fstat(fd, &st) < 0 || !S_ISLNK(st.st_mode))
		return true;
	return fail_patch(attempt, work, TOOL_NOT_A_REGULAR_FILE,
		"it is a symbolic link; move or delete it by run_command, or patch its target");
}

static bool read_source(struct attempt *attempt, struct work *work)
{
	const struct text path = work->file->path;
	enum tool_error error =
		root_open_file(attempt->request->root, path, &work->status, &work->source.fd, NULL);
	char sentence[NEAR_PATHS_SIZE];
	int r;

	if (error != TOOL_OK)
		return fail_patch(attempt, work, error,
			near_paths_sentence(attempt->request->root, path, error, sentence));
	if ((uint64_t)work->status.st_size > LIMIT_PATCH_BYTES - attempt->before)
		return fail_patch(attempt, work, TOOL_FILE_TOO_LARGE,
			"the patch's files have more than 16 MiB; make several patches, or use "
			"run_command");
	r = file_source_read(&work->source);
	if (r == -EAGAIN)
		return fail_patch(attempt, work, TOOL_STALE_FILE,
			"another process writes to the file; patch it when it is complete");
	if (r < 0)
		return fail_patch(
			attempt, work, tool_error_from_errno(-r), tool_errno_sentence(-r));
	attempt->before += work->source.len;
	return true;
}

static bool plan_file(struct attempt *attempt, struct work *work)
{
	const struct patch_file *file = work->file;
	struct patch_failure failure;

	if (file->operation == FILES_ADD) {
		work->content = file->lines;
		work->outcome.added = line_count(file->lines.data, file->lines.len);
	} else {
		if (is_removed_by(file) && !refuse_link(attempt, work))
			return false;
		if (!read_source(attempt, work))
			return false;
	}
	if (file->operation == FILES_DELETE) {
		const struct text content = file_source_text(&work->source);

		work->outcome.removed = line_count(content.data, content.len) +
					(content.len > 0 && content.data[content.len - 1] != '\n');
		return true;
	}
	if (file->operation != FILES_ADD) {
		if (!patch_apply(file, file_source_text(&work->source),
			    LIMIT_PATCH_BYTES - attempt->after, &work->outcome, &failure))
			return fail_hunk(attempt, work, &failure);
		work->content = (struct text){work->outcome.content, work->outcome.len};
	}
	attempt->after += work->content.len;
	if (attempt->after > LIMIT_PATCH_BYTES)
		return fail_patch(attempt, work, TOOL_FILE_TOO_LARGE,
			"the patch's files would have more than 16 MiB; make several patches");
	return true;
}

/* Staging */

/* Finds where the file is that is to be removed. */
static bool find_old(struct attempt *attempt, struct work *work, size_t index)
{
	struct stat old;
	enum tool_error error =
		root_place(attempt->request->root, work->file->path, false, &work->place);

	if (error == TOOL_OK && work->place.parent < 0)
		error = TOOL_IS_A_DIRECTORY;
	if (error == TOOL_OK)
		error = file_write_examine(&work->place, &old);
	if (error != TOOL_OK)
		return fail_patch(attempt, work, error, NULL);
	work->number = number_of(attempt, LIMIT_PATCH_FILES + index);
	snprintf(work->temporary, sizeof(work->temporary), ".cloister-%016" PRIx64, work->number);
	work->marks = dir_mark_call(work->place.parent, work->number);
	if (work->marks < 0 && work->marks != -EOPNOTSUPP)
		return fail_patch(attempt, work, tool_error_from_errno(-work->marks), NULL);
	if (work->marks < 0)
		work->marks = -1;
	return true;
}

static bool stage_new(struct attempt *attempt, struct work *work, size_t index)
{
	const struct patch_file *file = work->file;
	const bool replaces = file->operation == FILES_UPDATE;
	const struct files_write request = {
		.path = file->operation == FILES_MOVE ? file->to : file->path,
		.expect = replaces ? (struct text){NULL, 0} : text_from(FILE_WRITE_ABSENT),
		.size = work->content.len,
		.create_dirs = !replaces,
		.durable = attempt->request->durable,
	};

	if (file_write_begin(
		    attempt->request->root, &request, number_of(attempt, index), &work->staged) < 0)
		return fail_patch(attempt, work, TOOL_EXECUTION_ERROR, NULL);
	if (replaces)
		file_write_expect(work->staged, work->source.fd, file_source_text(&work->source));
	file_write_append(work->staged, work->content.data, work->content.len);
	if (file_write_prepare(work->staged, !replaces, work->place.parent, work->place.name,
		    file->operation == FILES_MOVE ? &work->status : NULL) == TOOL_OK)
		return true;
	return fail_patch(attempt, work, work->staged->error, file_write_sentence(work->staged));
}

static bool stage(struct attempt *attempt, struct work *work, size_t index)
{
	if (is_removed_by(work->file) && !find_old(attempt, work, index))
		return false;
	return work->file->operation == FILES_DELETE || stage_new(attempt, work, index);
}

static bool is_same_place(const struct root_place *a, const struct root_place *b)
{
	struct stat in_a, in_b;

	return a->parent >= 0 && b->parent >= 0 && strcmp(a->name, b->name) == 0 &&
	       fstat(a->parent, &in_a) == 0 && fstat(b->parent, &in_b) == 0 &&
	       in_a.st_dev == in_b.st_dev && in_a.st_ino == in_b.st_ino;
}

/* Stores the places that change. */
static void places_of(const struct work *work, const struct root_place *ret[2])
{
	ret[0] = &work->place;
	ret[1] = work->staged ? &work->staged->place : &work->place;
}

/* By links or ".." a file may have two names, and each change would find the other's. */
static bool refuse_twice(struct attempt *attempt, const struct work *work)
{
	const struct root_place *places[2], *others[2];
	char sentence[SHOWN_BYTES + 128];

	places_of(work, places);
	for (const struct work *other = attempt->works; other < work; other++) {
		struct text path = other->file->path;

		places_of(other, others);
		if (!is_same_place(places[0], others[0]) && !is_same_place(places[0], others[1]) &&
			!is_same_place(places[1], others[0]) &&
			!is_same_place(places[1], others[1]))
			continue;
		snprintf(sentence, sizeof(sentence),
			"the patch changes this file twice, also as \"%.*s\"; put all hunks of a "
			"file "
			"below one header",
			(int)(path.len < SHOWN_BYTES ? path.len : SHOWN_BYTES), path.data);
		return fail_patch(attempt, work, TOOL_INVALID_ARGUMENTS, sentence);
	}
	return true;
}

/* Changing */

static void fail_change(
	struct attempt *attempt, const struct work *work, enum tool_error error, const char *why)
{
	const struct text path = work->file->path;

	attempt->error = error;
	snprintf(attempt->sentence, sizeof(attempt->sentence), "%.*s: %s",
		(int)(path.len < SHOWN_BYTES ? path.len : SHOWN_BYTES), path.data,
		why && *why ? why : tool_error_sentence(error));
}

static struct file_take take_of(const struct work *work)
{
	return (struct file_take){.call = work->number,
		.parent = work->place.parent,
		.marks = work->marks,
		.temporary = work->temporary,
		.name = work->place.name,
		.fd = work->source.fd,
		.content = file_source_text(&work->source)};
}

/* Takes one file back. Returns 0, or -errno with the patch's content in its place. */
static int revert(struct work *work)
{
	int r = 0;

	if (work->taken) {
		const struct file_take take = take_of(work);

		r = file_give_back(&take);
		work->taken = r < 0;
	}
	if (r == 0 && work->staged && work->staged->published)
		r = file_write_revert(work->staged, work->content);
	return r;
}

static void fail_take(struct attempt *attempt, const struct work *work, int error_number)
{
	if (error_number == ERROR_CHANGED)
		fail_change(attempt, work, TOOL_STALE_FILE, NULL);
	else if (error_number == ERROR_NO_TURN)
		fail_change(attempt, work, TOOL_BUSY,
			"another process edits the file at this moment; try again");
	else
		fail_change(attempt, work, tool_error_from_errno(error_number),
			tool_errno_sentence(error_number));
}

static bool change_file(struct attempt *attempt, struct work *work)
{
	if (work->staged && file_write_publish(work->staged) != TOOL_OK) {
		fail_change(attempt, work, work->staged->error, file_write_sentence(work->staged));
		return false;
	}
	if (is_removed_by(work->file)) {
		const struct file_take take = take_of(work);
		int r = file_take(&take);

		work->taken = r == 0;
		if (r < 0) {
			fail_take(attempt, work, -r);
			return false;
		}
	}
	return true;
}

/* Writes the directories to disk. */
static bool sync_all(struct attempt *attempt)
{
	for (size_t i = 0; i < attempt->patch.n_files; i++) {
		struct work *work = &attempt->works[i];
		int r = work->staged ? file_write_sync(work->staged) : 0;

		if (r == 0 && work->place.parent >= 0)
			r = file_settle_directory(work->place.parent);
		if (r == 0)
			continue;
		fail_change(attempt, work, tool_error_from_errno(-r), tool_errno_sentence(-r));
		return false;
	}
	return true;
}

/* Changes all files. cloisterd hears in one write that one is done and the next one begins. */
static bool change_all(struct attempt *attempt)
{
	for (size_t i = 0; i < attempt->patch.n_files; i++) {
		struct work *work = &attempt->works[i];

		patch_tell_step(attempt, i, FILES_BEGUN);
		if (reply_flush(attempt->reply) < 0)
			return false;
		attempt->n_done = i + 1;
		if (!change_file(attempt, work))
			return false;
		patch_tell_step(attempt, i, FILES_CHANGED);
	}
	return !attempt->request->durable || sync_all(attempt);
}

/* Takes all files back, the last one first. Returns the number of those that could not be. */
static size_t revert_all(struct attempt *attempt)
{
	size_t left = 0;

	for (size_t i = attempt->n_done; i-- > 0;) {
		patch_tell_step(attempt, i, FILES_BEGUN);
		(void)reply_flush(attempt->reply);
		if (revert(&attempt->works[i]) == 0) {
			patch_tell_step(attempt, i, FILES_UNCHANGED);
		} else {
			patch_tell_step(attempt, i, FILES_CHANGED);
			left++;
		}
	}
	return left;
}

/*
 * Ends @reply after a failure while files were changed. Returns false: nothing was done, because a
 * file was changed meanwhile.
 */
static bool settle_failure(struct attempt *attempt)
{
	const size_t left = revert_all(attempt);

	if (left == 0 && attempt->error == TOOL_STALE_FILE)
		return false;
	if (left == 0)
		reply_error(attempt->reply, attempt->error, "%s. Nothing of the patch was done",
			attempt->sentence);
	else /* BUSY would say that nothing was done */
		reply_error(attempt->reply,
			attempt->error == TOOL_BUSY ? TOOL_STALE_FILE : attempt->error,
			"%s. Of the files before it %zu could not be put back, because another "
			"process changed them: read them, and all others are as before",
			attempt->sentence, left);
	return true;
}

static bool plan_all(struct attempt *attempt)
{
	for (size_t i = 0; i < attempt->patch.n_files; i++)
		if (!plan_file(attempt, &attempt->works[i]))
			return false;
	for (size_t i = 0; i < attempt->patch.n_files; i++)
		if (!stage(attempt, &attempt->works[i], i) ||
			!refuse_twice(attempt, &attempt->works[i]))
			return false;
	return true;
}

/* Makes the patch, which is ready. Returns false if a file was changed meanwhile. */
static bool finish_file_patch(struct attempt *attempt)
{
	const struct files_end end = {.count = attempt->patch.n_files};

	if (!change_all(attempt))
		return settle_failure(attempt);
	reply_end(attempt->reply, &end);
	return true;
}

/* Applies the patch once. Returns false if a file was changed meanwhile. */
static bool try_patch(struct attempt *attempt)
{
	return !plan_all(attempt) || patch_tell_plan(attempt) < 0 || finish_file_patch(attempt);
}

static void work_done(struct work *work)
{
	if (work->taken)
		unlinkat(work->place.parent, work->temporary, 0);
	file_write_free(work->staged);
	root_place_done(&work->place);
	free(work->outcome.content);
	close_fd(&work->marks);
	file_source_done(&work->source);
}

static void attempt_done(struct attempt *attempt)
{
	/* The last one first: it may be in a directory that one before it has made. */
	for (size_t i = attempt->patch.n_files; i-- > 0;)
		work_done(&attempt->works[i]);
	patch_done(&attempt->patch);
	free(attempt);
}

static struct attempt *attempt_new(const struct file_patch *request, struct reply *reply, int *ret)
{
	struct attempt *attempt = calloc(1, sizeof(*attempt));

	*ret = -ENOMEM;
	if (!attempt)
		return NULL;
	attempt->request = request;
	attempt->reply = reply;
	*ret = patch_read(&attempt->patch, (struct text){request->body, request->received});
	if (*ret < 0) {
		free(attempt);
		return NULL;
	}
	for (size_t i = 0; i < attempt->patch.n_files; i++)
		attempt->works[i] = (struct work){.file = &attempt->patch.files[i],
			.source = FILE_SOURCE_NONE,
			.marks = -1,
			.place = ROOT_PLACE_NONE};
	return attempt;
}

/* Writes to disk what an earlier patch may have made. Returns 0 or -errno. */
static int settle_all(const struct attempt *attempt)
{
	const struct root *root = attempt->request->root;
	int r = 0;

	for (size_t i = 0; r == 0 && i < attempt->patch.n_files; i++) {
		const struct patch_file *file = attempt->works[i].file;

		r = file_settle(root, file->path);
		if (r == 0 && file->operation == FILES_MOVE)
			r = file_settle(root, file->to);
	}
	return r;
}

bool file_patch_hold(struct file_patch *patch, struct reply *reply)
{
	int r;
	struct attempt *attempt = attempt_new(patch, reply, &r);

	if (!attempt) {
		reply_error(reply, TOOL_EXECUTION_ERROR, NULL);
		return false;
	}
	r = patch->look && patch->durable ? settle_all(attempt) : 0;
	if (r < 0) {
		reply_error(reply, tool_error_from_errno(-r), "%s", tool_errno_sentence(-r));
		attempt_done(attempt);
		return false;
	}
	if (patch->look)
		(void)patch_tell_found(attempt);
	if (plan_all(attempt) && patch_tell_plan(attempt) == 0 &&
		reply_held(reply, &(struct files_held){0}) == 0) {
		patch->held = attempt;
		return true;
	}
	attempt_done(attempt);
	return false;
}

/* What was told is made, or nothing. */
static void commit_held(struct file_patch *patch, struct reply *reply)
{
	if (!finish_file_patch(patch->held))
		reply_error(reply, TOOL_STALE_FILE, "%s. Nothing of the patch was done",
			patch->held->sentence);
	attempt_done(TAKE_PTR(patch->held));
}

int file_patch_commit(struct file_patch *patch, struct reply *reply)
{
	if (patch->held) {
		commit_held(patch, reply);
		return 0;
	}
	for (int i = 0; i < LIMIT_OPEN_RETRIES; i++) {
		int r;
		struct attempt *attempt = attempt_new(patch, reply, &r);
		bool settled;

		if (r == -ENOMEM)
			reply_error(reply, TOOL_EXECUTION_ERROR, NULL);
		if (!attempt)
			return r == -EBADMSG ? r : 0;
		settled = try_patch(attempt);
		attempt_done(attempt);
		if (settled)
			return 0;
	}
	reply_error(reply, TOOL_STALE_FILE,
		"Other processes change the patch's files all the time; apply it when they are "
		"done. Nothing of the patch was done");
	return 0;
}

void file_patch_free(struct file_patch *patch)
{
	if (patch && patch->held)
		attempt_done(patch->held);
	free(patch);
}
