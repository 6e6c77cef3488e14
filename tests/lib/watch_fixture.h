/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A watch of a scratch directory by a process like a job of the files process, and what it tells.
 */

#include "common/limits.h"
#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"
#include "worker/files/file_node.h"
#include "worker/files/file_watch.h"
#include "worker/files/reply.h"

#define CALL 7

static pid_t job;
static int results = -1;
static struct files_end last;
static char buffer[WIRE_FRAME_MAX];

static bool with_entries;

static inline void watch_path(const char *path, bool recursive)
{
	const struct root root = {
		.fd = scratch.fd, .proc_self_fd = -1, .visible = TEXT_LITERAL("/workspace")};
	const struct files_ask request = {
		.path = text_from(path), .recursive = recursive, .attributes = with_entries};
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	job = fork();
	assert_true(job >= 0);
	if (job == 0) {
		close(ends[0]);
		file_watch(&root, &request, reply_new(ends[1], CALL));
		_exit(0);
	}
	close(ends[1]);
	results = ends[0];
}

static inline int set_up(void **state)
{
	return scratch_set_up(state);
}

static inline int tear_down(void **state)
{
	if (results >= 0)
		close(results);
	results = -1;
	with_entries = false;
	if (job > 0) {
		kill(job, SIGKILL);
		waitpid(job, NULL, 0);
	}
	job = 0;
	return scratch_tear_down(state);
}

FIXTURE(set_up, tear_down)

static inline void read_all(void *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = read(results, (char *)data + at, len - at);

		assert_true(n > 0);
		at += (size_t)n;
	}
}

/* Waits for the next frame. */
static inline struct wire_header next(struct text *ret_payload)
{
	struct wire_header header;

	read_all(&header, sizeof(header));
	assert_int_equal(header.call, CALL);
	assert_true(header.length < sizeof(buffer));
	read_all(buffer, header.length);
	*ret_payload = (struct text){buffer, header.length};
	return header;
}

static inline void begins(const char *path)
{
	struct text payload;
	struct files_node node;

	assert_int_equal(next(&payload).type, FILES_NODE);
	assert_int_equal(files_node_get(payload, &node), 0);
	assert_int_equal(node.entry.type, FILES_TYPE_DIRECTORY);
	assert_true(text_equal(node.entry.path, text_from(path)));
}

static inline struct files_event next_event(void)
{
	struct text payload;
	struct files_event event;
	struct wire_header header = next(&payload);

	if (header.type != FILES_EVENT)
		fail_msg("frame of type %u", header.type);
	assert_int_equal(files_event_get(payload, &event), 0);
	return event;
}

static const char *const types[] = {"", "created", "changed", "attributes", "removed", "moved_from",
	"moved_to", "overflow", "unwatched"};

/* Waits for the next event, which is @expected: its type, / for a directory, and its path. */
static inline void told(const char *expected)
{
	struct files_event event = next_event();
	char *line;

	assert_true(asprintf(&line, "%s%s %.*s", types[event.type], event.directory ? "/" : "",
			    (int)event.path.len, event.path.data) > 0);
	assert_string_equal(line, expected);
	free(line);
}

static inline void ends(enum tool_error error)
{
	struct text payload;
	struct wire_header header = next(&payload);

	if (header.type != FILES_END)
		fail_msg("frame of type %u", header.type);
	assert_int_equal(files_end_get(payload, &last), 0);
	assert_int_equal(last.error, error);
}

static inline void make(const char *path)
{
	assert_int_equal(mkdirat(scratch.fd, path, 0777), 0);
}

static inline void touch(const char *path)
{
	int fd = openat(scratch.fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	assert_true(fd >= 0);
	close(fd);
}

static inline void append(const char *path)
{
	int fd = openat(scratch.fd, path, O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
}

static inline void move(const char *from, const char *to)
{
	assert_int_equal(renameat(scratch.fd, from, scratch.fd, to), 0);
}

/* What happens until go_on() is found all at once. */
static inline void stop(void)
{
	int status;

	assert_int_equal(kill(job, SIGSTOP), 0);
	assert_int_equal(waitpid(job, &status, WUNTRACED), job);
	assert_true(WIFSTOPPED(status));
}

static inline void go_on(void)
{
	assert_int_equal(kill(job, SIGCONT), 0);
}

/* The number of directories that the job watches. */
static inline size_t watches(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 64; fd++) {
		char path[64], line[512];
		FILE *info;

		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", job, fd);
		info = fopen(path, "re");
		while (info && fgets(line, sizeof(line), info))
			count += strncmp(line, "inotify ", 8) == 0;
		if (info)
			fclose(info);
	}
	return count;
}

static inline void is_refused(const char *path, enum tool_error error)
{
	watch_path(path, true);
	ends(error);
	waitpid(job, NULL, 0);
	job = 0;
	close(results);
	results = -1;
}
