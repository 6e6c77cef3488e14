/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* What generations of cloisterd say to each other, and the table of what the old daemon uses. */
#include "supervisor/host/handover.h"

#include "supervisor/workspace/managed/elsewhere.h"
#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"

#include <sys/un.h>

#define DESCRIPTORS_MOST 20 /* more than there is room for */

static int open_scratch(void)
{
	int fd = open(scratch.path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* Makes both ends of a talk. */
static void connect_both(int directory, int *ret_listener, int *ret_old_daemon, int *ret_new_daemon)
{
	pid_t pid = 0;

	assert_int_equal(handover_listen(directory, ret_listener), 0);
	assert_int_equal(handover_connect(directory, ret_new_daemon), 0);
	assert_int_equal(handover_accept(*ret_listener, ret_old_daemon, &pid), 0);
	assert_int_equal(pid, getpid());
}

FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_messages)
{
	_cleanup_close_ int directory = open_scratch(), listener = -1, old_daemon = -1,
			    new_daemon = -1;
	struct handover_message sent = {.type = HANDOVER_GIVEN,
		.dev = 1,
		.ino = UINT64_MAX,
		.uid = 3,
		.number = HANDOVER_HAS_CONTROL,
		.watchdog_us = 5,
		.text = TEXT_LITERAL("why"),
		.n_fds = 3};
	struct handover_message got = {0};
	struct stat a, b;

	connect_both(directory, &listener, &old_daemon, &new_daemon);
	for (unsigned i = 0; i < sent.n_fds; i++)
		sent.fds[i] = listener;
	assert_int_equal(handover_send(old_daemon, &sent), 0);
	assert_int_equal(handover_await(new_daemon, 1000, &got), 1);
	assert_int_equal(got.type, HANDOVER_GIVEN);
	assert_int_equal(got.pid, getpid());
	assert_true(got.dev == 1 && got.ino == UINT64_MAX && got.uid == 3 &&
		    got.number == HANDOVER_HAS_CONTROL && got.watchdog_us == 5);
	assert_true(text_equal(got.text, sent.text));
	assert_int_equal(got.n_fds, 3);
	assert_int_equal(fstat(listener, &a), 0);
	assert_int_equal(fstat(got.fds[2], &b), 0);
	assert_true(a.st_ino == b.st_ino && fcntl(got.fds[0], F_GETFD) & FD_CLOEXEC);
	handover_drop(&got);
	assert_int_equal(handover_await(new_daemon, 1, &got), -ETIMEDOUT);
	assert_int_equal(handover_receive(old_daemon, &got), -EAGAIN);
	close_fd(&new_daemon);
	assert_int_equal(handover_receive(old_daemon, &got), 0);
}

/* Descriptors that come with it are closed. */
TEST(test_what_is_no_message)
{
	static const uint32_t heads[][2] = {{2, HANDOVER_ASK}, {1, 0}, {1, HANDOVER_TYPES}};
	_cleanup_close_ int directory = open_scratch(), listener = -1, old_daemon = -1,
			    new_daemon = -1;
	struct handover_message message = {.type = HANDOVER_ASK, .n_fds = HANDOVER_FDS_MOST + 1};
	char bytes[48] = {0};

	connect_both(directory, &listener, &old_daemon, &new_daemon);
	assert_int_equal(send(new_daemon, "x", 1, 0), 1);
	assert_int_equal(handover_receive(old_daemon, &message), -EBADMSG);
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		memcpy(bytes, heads[i], sizeof(heads[i]));
		assert_int_equal(send(new_daemon, bytes, sizeof(bytes), 0), sizeof(bytes));
		assert_int_equal(handover_receive(old_daemon, &message), -EBADMSG);
	}
	message.n_fds = HANDOVER_FDS_MOST + 1;
	assert_int_equal(handover_send(new_daemon, &message), -EMSGSIZE);
}

/* Sends @len bytes of a good message with @n descriptors. */
static void send_descriptors(int to, size_t len, unsigned n)
{
	uint32_t head[12] = {1, HANDOVER_ASK};
	struct iovec part = {head, len};
	union {
		char bytes[CMSG_SPACE(DESCRIPTORS_MOST * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	int fds[DESCRIPTORS_MOST];

	for (unsigned i = 0; i < n; i++)
		fds[i] = STDERR_FILENO;
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(rights), fds, n * sizeof(int));
	assert_int_equal(sendmsg(to, &message, 0), len);
}

/* All that are not expected are closed, however many they are and whatever they come with. */
TEST(test_descriptors)
{
	static const struct {
		size_t len;
		unsigned n;
		int answer;
	} rows[] = {
		{48, HANDOVER_FDS_MOST, 1},
		{48, HANDOVER_FDS_MOST + 1, -EBADMSG},
		{48, DESCRIPTORS_MOST, -EBADMSG},
		{4, HANDOVER_FDS_MOST, -EBADMSG},
		{4, DESCRIPTORS_MOST, -EBADMSG},
		{0, DESCRIPTORS_MOST, 0},
	};
	_cleanup_close_ int directory = open_scratch(), listener = -1, old_daemon = -1,
			    new_daemon = -1;
	struct handover_message message;
	int lowest;

	connect_both(directory, &listener, &old_daemon, &new_daemon);
	lowest = dup(STDERR_FILENO);
	close(lowest);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		/* Each side: one of them is told who sends. */
		int to = i % 2 ? new_daemon : old_daemon, from = i % 2 ? old_daemon : new_daemon,
		    fd;

		send_descriptors(from, rows[i / 2].len, rows[i / 2].n);
		assert_int_equal(handover_receive(to, &message), rows[i / 2].answer);
		if (rows[i / 2].answer == 1)
			handover_drop(&message);
		fd = dup(STDERR_FILENO);
		assert_int_equal(fd, lowest);
		close(fd);
	}
}

/* A socket that an earlier one has left is replaced, and no other user may connect. */
TEST(test_listening_again)
{
	_cleanup_close_ int directory = open_scratch(), first = -1, second = -1, fd = -1;
	struct stat stat_buf;

	assert_int_equal(handover_connect(directory, &fd), -ENOENT);
	assert_int_equal(handover_listen(directory, &first), 0);
	close_fd(&first);
	assert_int_equal(handover_connect(directory, &fd), -ECONNREFUSED);
	assert_int_equal(handover_listen(directory, &second), 0);
	assert_int_equal(handover_connect(directory, &fd), 0);
	assert_int_equal(fstatat(directory, "handover", &stat_buf, 0), 0);
	assert_int_equal(stat_buf.st_mode & 0777, 0600);
}

TEST(test_listeners)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), other = -1;
	char path[108], name[128];

	assert_true((size_t)snprintf(path, sizeof(path), "%s/s", scratch.path) < sizeof(path));
	strcpy(address.sun_path, path);
	assert_false(handover_is_listener(fd, NULL, name, sizeof(name)));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_false(handover_is_listener(fd, path, name, sizeof(name)));
	assert_int_equal(listen(fd, 1), 0);
	assert_true(handover_is_listener(fd, path, name, sizeof(name)));
	assert_true(handover_is_listener(fd, NULL, name, sizeof(name)));
	assert_string_equal(name, path);
	assert_false(handover_is_listener(fd, "/run/other", name, sizeof(name)));
	other = open_scratch();
	assert_false(handover_is_listener(other, NULL, name, sizeof(name)));
	close_fd(&other);
	assert_int_equal(handover_listen(open_scratch(), &other), 0);
	assert_false(handover_is_listener(other, NULL, name, sizeof(name)));
}

TEST_WITH(test_what_is_used_elsewhere, NULL, NULL)
{
	struct elsewhere *elsewhere = elsewhere_new();

	assert_non_null(elsewhere);
	assert_false(elsewhere_has(NULL, 1, 1));
	assert_false(elsewhere_has_uid(NULL, 1, 1, 1));
	assert_int_equal(elsewhere_count(NULL), 0);
	/* Two tenants use one directory. */
	assert_int_equal(elsewhere_add(elsewhere, 1, 10, 1000), 0);
	assert_int_equal(elsewhere_add(elsewhere, 1, 10, 1000), 0);
	assert_int_equal(elsewhere_add(elsewhere, 2, 10, 1001), 0);
	assert_true(elsewhere_has(elsewhere, 1, 10) && elsewhere_has(elsewhere, 2, 10));
	assert_false(elsewhere_has(elsewhere, 1, 11) || elsewhere_has(elsewhere, 3, 10));
	assert_true(elsewhere_has_uid(elsewhere, 1000, 9, 9));
	assert_false(elsewhere_has_uid(elsewhere, 1000, 1, 10));
	assert_false(elsewhere_has_uid(elsewhere, 1002, 9, 9));
	elsewhere_remove(elsewhere, 1, 10);
	assert_true(elsewhere_has(elsewhere, 1, 10));
	elsewhere_remove(elsewhere, 1, 10);
	assert_false(elsewhere_has(elsewhere, 1, 10));
	elsewhere_remove(elsewhere, 1, 10);
	assert_int_equal(elsewhere_count(elsewhere), 1);
	elsewhere_clear(elsewhere);
	assert_int_equal(elsewhere_count(elsewhere), 0);
	elsewhere_free(elsewhere);
	elsewhere_free(NULL);
}
