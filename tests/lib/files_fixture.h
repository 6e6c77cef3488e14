/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A workspace for the tests of worker/files: BASE/ws is the workspace, and no call may reach
 * BASE/outside/secret. Runs unprivileged even if started by root, because permissions are part of
 * what is tested. */

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

#include <dirent.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define UNUSED __attribute__((unused))
#define SECRET "outside\n"
#define NOBODY 65534

struct fixture {
	struct scratch scratch;
	const char *base; /* its path */
	char visible[sizeof(((struct scratch *)NULL)->path) + sizeof("/ws")];
	int base_fd, ws;
	struct root root;
};

/* What the programs do first. */
static UNUSED int fixture_leave_root(void **state)
{
	(void)state;
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
		setresuid(NOBODY, NOBODY, NOBODY) < 0)
		abort();
	prctl(PR_SET_DUMPABLE, 1); /* needed by /proc/self and the leak checker */
	return 0;
}

static UNUSED void put_file(int dir, const char *name, const char *content)
{
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), strlen(content));
}

/* Returns the content of a small file, "" if it does not exist. Valid until the next call. */
static UNUSED const char *get_file(int dir, const char *name)
{
	static char content[4096];
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, content, sizeof(content) - 1) : 0;

	content[n > 0 ? n : 0] = '\0';
	return content;
}

static UNUSED bool exists_at(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static UNUSED void put_link(int dir, const char *name, const char *prefix, const char *target)
{
	char text[256];

	snprintf(text, sizeof(text), "%s%s", prefix, target);
	assert_int_equal(symlinkat(text, dir, name), 0);
}

static UNUSED int count_entries(int dir)
{
	_cleanup_close_ int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fdopendir(fd);
	int n = 0;

	assert_non_null(stream);
	fd = -1;
	while (readdir(stream))
		n++;
	closedir(stream);
	return n - 2;
}

static UNUSED int fixture_setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	umask(022);
	fixture->scratch = scratch_new();
	fixture->base = fixture->scratch.path;
	snprintf(fixture->visible, sizeof(fixture->visible), "%s/ws", fixture->base);
	fixture->base_fd = open(fixture->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(fixture->base_fd, "ws", 0755), 0);
	assert_int_equal(mkdirat(fixture->base_fd, "outside", 0755), 0);
	put_file(fixture->base_fd, "outside/secret", SECRET);
	fixture->ws = openat(fixture->base_fd, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fixture->root.fd = openat(fixture->base_fd, "ws", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fixture->root.layers = -1;
	fixture->root.proc_self_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fixture->root.visible = text_from(fixture->visible);
	assert_true(fixture->ws >= 0 && fixture->root.fd >= 0 && fixture->root.proc_self_fd >= 0);
	*state = fixture;
	return 0;
}

static UNUSED int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;

	close(fixture->base_fd);
	close(fixture->ws);
	close(fixture->root.fd);
	close_fd(&fixture->root.proc_self_fd);
	scratch_done(&fixture->scratch);
	free(fixture);
	return 0;
}

/* Fails if anything outside the workspace was written, created or removed. */
static UNUSED void assert_outside_untouched(const struct fixture *fixture)
{
	_cleanup_close_ int outside =
		openat(fixture->base_fd, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(count_entries(fixture->base_fd), 2);
	assert_int_equal(count_entries(outside), 1);
	assert_string_equal(get_file(outside, "secret"), SECRET);
}

/* The decoded answer of an operation. */
struct answer {
	int fd; /* a memfd that the reply is written to */
	struct reply *reply;
	uint8_t *frames;
	char *data; /* content of all FILES_DATA and FILES_IMAGE frames */
	size_t data_len;
	size_t data_frames, image_frames, other_frames;
	struct files_end end;
};

static UNUSED void answer_begin(struct answer *answer, uint64_t call)
{
	*answer = (struct answer){.fd = memfd_create("answer", MFD_CLOEXEC)};
	assert_true(answer->fd >= 0);
	answer->reply = reply_new(answer->fd, call);
	assert_non_null(answer->reply);
}

/* Checks that each frame is well-formed, of @call, and that the only FILES_END is the last. */
static UNUSED void answer_parse(struct answer *answer, uint64_t call)
{
	struct stat st;
	size_t at = 0, size;
	bool ended = false;

	assert_int_equal(fstat(answer->fd, &st), 0);
	size = (size_t)st.st_size;
	answer->frames = malloc(size + 1);
	answer->data = malloc(size + 1);
	assert_int_equal(pread(answer->fd, answer->frames, size, 0), size);
	while (at < size) {
		struct wire_header header;
		struct text payload;

		assert_false(ended);
		assert_true(size - at >= sizeof(header));
		memcpy(&header, answer->frames + at, sizeof(header));
		at += sizeof(header);
		assert_int_equal(header.version, WIRE_VERSION);
		assert_int_equal(header.fds, 0);
		assert_int_equal(header.call, call);
		assert_true(header.length <= WIRE_PAYLOAD_MAX && header.length <= size - at);
		payload = (struct text){(const char *)answer->frames + at, header.length};
		at += header.length;
		if (header.type == FILES_DATA || header.type == FILES_IMAGE) {
			memcpy(answer->data + answer->data_len, payload.data, payload.len);
			answer->data_len += payload.len;
			*(header.type == FILES_DATA ? &answer->data_frames
						    : &answer->image_frames) += 1;
		} else if (header.type == FILES_END) {
			assert_int_equal(files_end_get(payload, &answer->end), 0);
			ended = true;
		} else {
			answer->other_frames++;
		}
	}
	assert_true(ended);
	answer->data[answer->data_len] = '\0';
}

static UNUSED void answer_done(struct answer *answer)
{
	reply_free(answer->reply);
	close_fd(&answer->fd);
	free(answer->frames);
	free(answer->data);
}

static UNUSED void assert_error(const struct answer *answer, enum tool_error error)
{
	assert_string_equal(tool_error_name(answer->end.error), tool_error_name(error));
}

static UNUSED void assert_text(struct text text, const char *expected)
{
	char copy[4096];

	assert_true(text.len < sizeof(copy));
	snprintf(copy, sizeof(copy), "%.*s", (int)text.len, text.data);
	assert_string_equal(copy, expected);
}

/* Plays a hostile tenant, who swaps two names as fast as possible. */
struct swapper {
	int dir;
	const char *a, *b;
	_Atomic bool stop;
	_Atomic uint64_t swaps;
	pthread_t thread;
};

static UNUSED void *swap(void *context)
{
	struct swapper *swapper = context;

	while (!swapper->stop)
		if (renameat2(swapper->dir, swapper->a, swapper->dir, swapper->b,
			    RENAME_EXCHANGE) == 0)
			swapper->swaps++;
	return NULL;
}

/* Returns once it swaps. */
static UNUSED void swapper_start(struct swapper *swapper, int dir, const char *a, const char *b)
{
	swapper->dir = dir;
	swapper->a = a;
	swapper->b = b;
	swapper->stop = false;
	swapper->swaps = 0;
	assert_int_equal(pthread_create(&swapper->thread, NULL, swap, swapper), 0);
	while (swapper->swaps == 0)
		sched_yield();
}

static UNUSED void swapper_stop(struct swapper *swapper)
{
	swapper->stop = true;
	assert_int_equal(pthread_join(swapper->thread, NULL), 0);
}
