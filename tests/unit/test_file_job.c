/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "worker/files/file_job.h"

#include "common/wire/channel.h"
#include "common/wire/wire_files.h"
#include "tests/lib/unit.h"

static struct job_table *table;
static struct channel up; /* what cloisterd reads */
static int up_in, hold[2];

static int set_up(void **state)
{
	int ends[2];

	(void)state;
	signal(SIGCHLD, SIG_IGN); /* as in cloister-files */
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	channel_init(&up, ends[0], -1, 0);
	up_in = ends[1];
	table = job_table_new(up_in);
	assert_non_null(table);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(table);
	channel_done(&up);
	close(up_in);
	close(hold[0]);
	return 0;
}

FIXTURE(set_up, tear_down)

/* A process that holds the job's descriptors, like one that was killed and has no CPU. */
static void stay(void)
{
	char c;

	if (fork() != 0)
		return;
	close(hold[1]);
	while (read(hold[0], &c, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void release(void)
{
	close(hold[1]);
}

static void act_answer(const struct root *root, const void *request, struct reply *reply)
{
	(void)root;
	reply_end(reply, &(struct files_end){.count = *(const uint32_t *)request});
}

static void act_answer_and_stay(const struct root *root, const void *request, struct reply *reply)
{
	stay();
	act_answer(root, request, reply);
}

static void act_hang(const struct root *root, const void *request, struct reply *reply)
{
	(void)root;
	(void)request;
	(void)reply;
	for (;;)
		pause();
}

static void act_stay_and_hang(const struct root *root, const void *request, struct reply *reply)
{
	stay();
	reply_entry(reply, &(struct files_entry){.path = TEXT_LITERAL("begun")});
	reply_flush(reply);
	act_hang(root, request, reply);
}

static void act_die(const struct root *root, const void *request, struct reply *reply)
{
	(void)root;
	(void)request;
	(void)reply;
	_exit(0);
}

static int start(uint64_t call, job_function function)
{
	static const uint32_t count = 7;
	struct root root = {.fd = -1, .proc_self_fd = -1, .layers = -1};

	return job_table_start(table, &root, call, function, &count);
}

static size_t jobs(void)
{
	struct pollfd poll_fds[JOB_TABLE_SIZE];

	return job_table_poll_fds(table, poll_fds);
}

/* Waits until a job has written to the table, then serves the jobs. */
static void serve(void)
{
	struct pollfd poll_fds[JOB_TABLE_SIZE];
	size_t n = job_table_poll_fds(table, poll_fds);

	assert_true(n > 0);
	assert_true(poll(poll_fds, n, -1) > 0);
	assert_int_equal(job_table_serve(table), 0);
}

/* Takes the next frame for cloisterd. Returns false if there is none. */
static bool next_frame(struct channel_frame *frame)
{
	int filled = channel_fill(&up, WIRE_FRAME_MAX);
	int r = channel_next(&up, frame);

	assert_true(filled >= 0 || filled == -EAGAIN);
	assert_true(r >= 0);
	return r > 0;
}

static void check_answer(uint64_t call, enum tool_error error)
{
	struct channel_frame frame;
	struct files_end end;

	assert_true(next_frame(&frame));
	assert_int_equal(frame.call, call);
	assert_int_equal(frame.type, FILES_END);
	assert_int_equal(files_end_get(frame.payload, &end), 0);
	assert_int_equal(end.error, error);
}

static void check_no_answer(void)
{
	struct channel_frame frame;

	assert_false(next_frame(&frame));
}

/* A job that has answered is still dying. The files process answers other calls meanwhile. */
TEST(test_an_answer_does_not_wait_for_its_job_to_die)
{
	assert_int_equal(start(1, act_answer_and_stay), 0);
	serve();
	check_answer(1, TOOL_OK);
	assert_int_equal(job_table_serve(table), 0);
	assert_int_equal(jobs(), 1);
	release();
	while (jobs() > 0)
		serve();
	check_no_answer();
}

/* When the call of a cancelled job is answered, the job has ended and changes nothing more. */
TEST(test_cancelled_is_answered_when_the_job_is_gone)
{
	struct channel_frame frame;

	assert_int_equal(start(2, act_stay_and_hang), 0);
	serve();
	assert_true(next_frame(&frame));
	assert_int_equal(frame.type, FILES_ENTRY);
	job_table_cancel(table, 3); /* no job has this call */
	job_table_cancel(table, 2);
	job_table_cancel(table, 2);
	assert_int_equal(job_table_serve(table), 0);
	check_no_answer();
	release();
	while (jobs() > 0)
		serve();
	check_answer(2, TOOL_CANCELLED);
	check_no_answer();
}

static void act_tell(const struct root *root, const void *request, struct reply *reply)
{
	const struct files_event event = {.type = FILES_EVENT_CREATED, .path = TEXT_LITERAL("a")};

	(void)root;
	(void)request;
	for (int i = 0; i < 10000; i++)
		reply_event(reply, &event);
	reply_end(reply, &(struct files_end){0});
}

static size_t count_events(void)
{
	struct channel_frame frame;
	size_t count = 0;

	while (next_frame(&frame)) {
		assert_int_equal(frame.type, FILES_EVENT);
		count++;
	}
	return count;
}

/* Allows events of @bytes each, and serves until they came: the job may have written them before.
 */
static void pull_events(size_t wanted, size_t bytes)
{
	size_t came = 0;

	assert_int_equal(job_table_more(table, 6, wanted * bytes), 0);
	while ((came += count_events()) < wanted)
		serve();
	assert_int_equal(came, wanted);
}

/* No more bytes are passed on than cloisterd has allowed, and less than a frame more. */
TEST(test_a_job_that_is_pulled)
{
	const size_t bytes = WIRE_HEADER_SIZE + 12; /* of an event */
	static const uint32_t unused = 0;
	struct root root = {.fd = -1, .proc_self_fd = -1, .layers = -1};
	struct pollfd poll_fds[JOB_TABLE_SIZE];

	assert_int_equal(job_table_start_pulled(table, &root, 6, act_tell, &unused), 0);
	assert_int_equal(job_table_poll_fds(table, poll_fds), 1);
	assert_int_equal(poll_fds[0].fd, -1);
	assert_int_equal(job_table_serve(table), 0);
	check_no_answer();
	assert_int_equal(job_table_more(table, 5, 1000), 0); /* no job has this call */
	pull_events(10, bytes);
	assert_int_equal(job_table_more(table, 6, 1), 0);
	assert_int_equal(count_events(), 1);
	assert_int_equal(job_table_more(table, 6, bytes - 1), 0);
	check_no_answer();
	for (size_t told = 11; told < 10000; told += 1427)
		pull_events(1427, bytes);
	check_no_answer();
	assert_int_equal(jobs(), 1);
	assert_int_equal(job_table_more(table, 6, 1), 0);
	while (jobs() > 0)
		serve();
	check_answer(6, TOOL_OK);
	release();
}

/* What a cancelled job has written is not waited for. */
TEST(test_a_job_that_is_pulled_is_cancelled)
{
	static const uint32_t unused = 0;
	struct root root = {.fd = -1, .proc_self_fd = -1, .layers = -1};

	assert_int_equal(job_table_start_pulled(table, &root, 6, act_tell, &unused), 0);
	job_table_cancel(table, 6);
	while (jobs() > 0)
		serve();
	check_answer(6, TOOL_CANCELLED);
	release();
}

TEST(test_a_job_that_dies_is_answered_for)
{
	assert_int_equal(start(4, act_die), 0);
	while (jobs() > 0)
		serve();
	check_answer(4, TOOL_EXECUTION_ERROR);
	release();
}

TEST(test_a_full_table_waits_for_the_killed_only)
{
	for (uint64_t call = 0; call < JOB_TABLE_SIZE; call++)
		assert_int_equal(start(call, act_hang), 0);
	assert_int_equal(start(100, act_answer), -EBUSY);
	job_table_cancel(table, 5);
	assert_int_equal(start(100, act_answer), 0);
	check_answer(5, TOOL_CANCELLED);
	serve();
	check_answer(100, TOOL_OK);
	for (uint64_t call = 0; call < JOB_TABLE_SIZE; call++)
		job_table_cancel(table, call);
	while (jobs() > 0)
		serve();
	release();
}
