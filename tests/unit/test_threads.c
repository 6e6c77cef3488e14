/* links: supervisor-audit */
/* threads */
// SPDX-License-Identifier: Apache-2.0
/* cloisterd's threads as the event loop uses them: the writers of the log and of the audit log, and
 * the closer of descriptors. The preset tsan runs this under ThreadSanitizer. */
#include "supervisor/audit/audit_writer.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/base/log_writer.h"
#include "supervisor/base/thread.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

#include <poll.h>

#define LINES     2000
#define LOG_LINES (LIMIT_LOG_QUEUE_BYTES / 4) /* more than a pipe and the queue hold */
#define HANG_MS   60000

struct counting {
	struct thread thread;
	pthread_cond_t told;
	unsigned left, done;
};

static int64_t count_one(void *context)
{
	struct counting *counting = context;

	if (counting->left == 0)
		return THREAD_IDLE;
	counting->left--;
	counting->done++;
	pthread_cond_signal(&counting->told);
	return THREAD_AGAIN;
}

/* A thread sleeps until it is woken, and does what is left before it ends. */
TEST(test_a_thread_is_woken_and_ends_when_nothing_is_left)
{
	struct counting counting = {.thread = THREAD("counting", count_one, &counting)};

	thread_condition_init(&counting.told);
	thread_wake(&counting.thread); /* before it is started, this does nothing */
	assert_int_equal(thread_start(&counting.thread), 0);
	for (unsigned round = 1; round <= 100; round++) {
		thread_lock(&counting.thread);
		counting.left = 3;
		thread_wake(&counting.thread);
		while (counting.done < 3 * round)
			assert_true(thread_condition_wait(
				&counting.told, &counting.thread.mutex, HANG_MS));
		thread_unlock(&counting.thread);
	}
	thread_lock(&counting.thread);
	counting.left = 50;
	thread_unlock(&counting.thread);
	assert_true(thread_stop(&counting.thread, HANG_MS));
	assert_int_equal(counting.left, 0);
	assert_int_equal(counting.done, 350);
}

/* No descriptor is received; each is closed with the socket on which it was sent. */
TEST(test_descriptors_are_closed)
{
	int sockets[2], ends[2];
	char byte = 'x';
	struct iovec iov = {&byte, 1};
	union {
		char buffer[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof(control.buffer)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	struct pollfd end = {0};

	assert_int_equal(fd_closer_start(), 0);
	assert_int_equal(fd_closer_start(), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &ends[1], sizeof(int));
		assert_int_equal(send(sockets[0], "y", 1, 0), 1);
		assert_int_equal(fd_closer_receive(sockets[1], &iov), 1);
		assert_int_equal(byte, 'y');
		assert_int_equal(sendmsg(sockets[0], &message, 0), 1);
		close(ends[1]);
		assert_int_equal(fd_closer_receive(sockets[1], &iov), -1);
		assert_int_equal(errno, EBADMSG);
		fd_closer_close(sockets[1]);
		end = (struct pollfd){.fd = ends[0], .events = POLLIN};
		assert_int_equal(poll(&end, 1, HANG_MS), 1);
		assert_int_equal(end.revents, POLLHUP);
		close(ends[0]);
		end = (struct pollfd){.fd = sockets[0], .events = POLLIN};
		assert_int_equal(poll(&end, 1, HANG_MS), 1);
		assert_true(end.revents & POLLHUP);
		close(sockets[0]);
	}
}

/* Lines that do not fit are counted in their place, and the others come in order. */
TEST(test_the_log_has_every_line_or_its_loss)
{
	_cleanup_close_ int stderr_before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	unsigned long long told = 0, missing = 0, n;
	char line[256];
	int ends[2];
	FILE *log;

	assert_true(stderr_before >= 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	for (unsigned i = 0; i < LOG_LINES; i++) {
		if (i == 3)
			assert_int_equal(log_writer_start(), 0);
		log_writer_put(
			(struct text){line, (size_t)snprintf(line, sizeof(line), "line %u\n", i)});
	}
	alarm(HANG_MS / 1000);
	log = fdopen(ends[0], "re");
	assert_non_null(log);
	while (told < LOG_LINES && fgets(line, sizeof(line), log)) {
		if (sscanf(line, "cloisterd: %llu lines are missing here", &n) == 1) {
			told += n;
			missing += n;
		} else if (sscanf(line, "line %llu", &n) != 1 || n != told++) {
			break;
		}
	}
	alarm(0);
	n = log_writer_lost();
	dup2(stderr_before, STDERR_FILENO);
	assert_int_equal(told, LOG_LINES);
	assert_true(missing > 0);
	assert_int_equal(n, missing);
	fclose(log);
}

/* Checks the chain of the file @name after @last. Returns how many of our lines it holds. */
static size_t check_chain(int directory, const char *name, struct audit_chain *last)
{
	FILE *file = fdopen(openat(directory, name, O_RDONLY | O_CLOEXEC), "re");
	char line[1024];
	struct audit_link link;
	size_t count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		assert_int_equal(
			audit_link_read((struct text){line, strcspn(line, "\n")}, &link), 0);
		assert_int_equal(link.self.seq, last->seq + 1);
		assert_string_equal(link.prev, last->hash);
		*last = link.self;
		count += strstr(line, "\"mine\":") != NULL;
	}
	fclose(file);
	return count;
}

/* The file is renamed meanwhile: the chain goes through both, and no line is lost. */
TEST(test_the_audit_log_has_every_line_in_order)
{
	struct scratch scratch = scratch_new();
	int directory = fcntl(scratch.fd, F_DUPFD_CLOEXEC, 3);
	struct audit_writer *writer = NULL;
	struct audit_writer_state seen;
	struct audit_chain last = audit_chain_new();
	char members[64];
	size_t count;

	assert_int_equal(
		audit_writer_new(directory, "audit.log", (struct audit_rotation){0}, &writer), 0);
	assert_int_equal(audit_writer_start(writer), 0);
	for (int i = 0; i < LINES; i++) {
		struct text text = {
			members, (size_t)snprintf(members, sizeof(members), "\"mine\":%d", i)};

		assert_true(audit_writer_put(writer, text, 0));
		audit_writer_look(writer, &seen);
		assert_int_equal(seen.lost, 0);
		if (i != LINES / 2)
			continue;
		/* Wait until there are lines in it. */
		while (seen.last.seq < 2)
			audit_writer_look(writer, &seen);
		assert_int_equal(renameat(scratch.fd, "audit.log", scratch.fd, "audit.log.1"), 0);
		audit_writer_reopen(writer);
	}
	assert_int_equal(audit_writer_free(writer), 0);
	count = check_chain(scratch.fd, "audit.log.1", &last);
	assert_true(count > 0);
	assert_int_equal(count + check_chain(scratch.fd, "audit.log", &last), LINES);
	scratch_done(&scratch);
}
