// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process. A job is its own child, but has read hostile files, so its output is
 * checked.
 */
#include "worker/files/file_job.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * A job's slot is in use until its pipe has no writer, so until it has given up its memory and
 * descriptors. The kernel reaps it then (SIGCHLD is ignored). The files process never waits for a
 * job: one that has been killed needs a CPU to die, and where commands compute it waits for that
 * far longer than a small call may take.
 */
struct job {
	pid_t pid; /* 0: unused */
	uint64_t call;
	bool killed;
	enum tool_error owed; /* the answer to a killed job's call; TOOL_OK: it has been given */
	/* bytes of frames that may be passed on; INT64_MAX: any number */
	int64_t allowed;
	struct channel results;
};

struct job_table {
	int up;
	struct job jobs[JOB_TABLE_SIZE];
};

struct job_table *job_table_new(int up)
{
	struct job_table *table = calloc(1, sizeof(*table));

	if (table)
		table->up = up;
	return table;
}

static _Noreturn void run_file_job(
	const struct root *root, int fd, uint64_t call, job_function function, const void *request)
{
	struct root own = *root;
	struct reply *reply = reply_new(fd, call);

	/* The descriptor refers to the parent's /proc/self/fd. */
	own.proc_self_fd = -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/*
	 * A session of its own has its own share of the CPUs, apart from the processes that answer
	 * small calls.
	 */
	setsid();
	if (!reply)
		_exit(1);
	function(&own, request, reply);
	reply_free(reply);
	_exit(0);
}

static int pass_on_job(int up, const struct channel_frame *frame)
{
	struct wire_header header = {
		.version = WIRE_VERSION,
		.type = frame->type,
		.length = (uint32_t)frame->payload.len,
		.call = frame->call,
	};
	struct iovec iov[] = {
		{.iov_base = &header, .iov_len = sizeof(header)},
		{.iov_base = (void *)frame->payload.data, .iov_len = frame->payload.len},
	};
	struct iovec *at = iov;

	while (at < iov + ARRAY_SIZE(iov)) {
		ssize_t n = writev(up, at, (int)(iov + ARRAY_SIZE(iov) - at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		while (at < iov + ARRAY_SIZE(iov) && (size_t)n >= at->iov_len)
			n -= (ssize_t)(at++)->iov_len;
		if (at < iov + ARRAY_SIZE(iov)) {
			at->iov_base = (char *)at->iov_base + n;
			at->iov_len -= (size_t)n;
		}
	}
	return 0;
}

/* Kills @job. When it is gone, its call is answered with @owed; TOOL_OK: the call has been
 * answered. */
static void kill_job(struct job *job, enum tool_error owed)
{
	kill(job->pid, SIGKILL);
	job->killed = true;
	job->owed = owed;
}

static int forget_job(struct job_table *table, struct job *job)
{
	struct reply *reply = NULL;
	int r = 0;

	channel_done(&job->results);
	job->pid = 0;
	if (job->owed == TOOL_OK)
		return 0;
	reply = reply_new(table->up, job->call);
	r = reply ? reply_error(reply, job->owed, NULL) : -ENOMEM;
	reply_free(reply);
	return r;
}

/* The rest of what it writes waits in its pipe, and then in the kernel's queue of events. */
static bool may_pass_on(const struct job *job)
{
	return job->killed || job->allowed > 0;
}

static void count_passed(struct job *job, const struct channel_frame *frame)
{
	if (job->allowed < INT64_MAX)
		job->allowed -= (int64_t)(WIRE_HEADER_SIZE + frame->payload.len);
}

/* Forwards the whole frames that @job has written, up to its last one. */
static int pass_on_all(struct job_table *table, struct job *job)
{
	struct channel_frame frame;
	int r = 0, next = 0;

	while (r == 0 && !job->killed && may_pass_on(job) &&
		(next = channel_next(&job->results, &frame)) > 0) {
		if (frame.call != job->call || frame.type < FILES_DATA || frame.type > FILES_END) {
			kill_job(job, TOOL_EXECUTION_ERROR);
			break;
		}
		count_passed(job, &frame);
		r = pass_on_job(table->up, &frame);
		if (frame.type == FILES_END)
			kill_job(job, TOOL_OK);
	}
	if (next < 0)
		kill_job(job, TOOL_EXECUTION_ERROR);
	return r;
}

/* Whether a killed job has closed its end of the pipe. Frames that it wrote last are dropped. */
static bool is_gone(const struct job *job)
{
	char rest[4096];
	ssize_t n;

	do
		n = read(job->results.in, rest, sizeof(rest));
	while (n > 0 || (n < 0 && errno == EINTR));
	return n == 0;
}

/* Called when the pipe of @job has something to read or no writer any more. */
static int serve_job(struct job_table *table, struct job *job)
{
	if (!job->killed) {
		int filled = 0, r = pass_on_all(table, job);

		if (r == 0 && !job->killed && may_pass_on(job)) {
			filled = channel_fill(&job->results, WIRE_FRAME_MAX);
			r = pass_on_all(table, job);
		}
		if (r < 0 || ((filled >= 0 || filled == -EAGAIN) && !job->killed) ||
			!may_pass_on(job))
			return r;
		if (!job->killed) /* it has died without a last frame, or memory is out */
			kill_job(job, TOOL_EXECUTION_ERROR);
	}
	return is_gone(job) ? forget_job(table, job) : 0;
}

static struct job *unused_job(struct job_table *table)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->jobs); i++)
		if (table->jobs[i].pid == 0)
			return &table->jobs[i];
	return NULL;
}

/* Returns an unused slot. If all are in use, waits for a killed job; if none is killed, returns
 * NULL. */
static struct job *take_slot(struct job_table *table)
{
	struct job *unused = unused_job(table);

	for (size_t i = 0; !unused && i < ARRAY_SIZE(table->jobs); i++) {
		struct pollfd gone = {.fd = table->jobs[i].results.in, .events = POLLIN};

		while (table->jobs[i].killed && table->jobs[i].pid != 0)
			if ((poll(&gone, 1, -1) < 0 && errno != EINTR) ||
				serve_job(table, &table->jobs[i]) < 0)
				return NULL;
		unused = unused_job(table);
	}
	return unused;
}

static int start_file_job(struct job_table *table, const struct root *root, struct job wanted,
	job_function function, const void *request)
{
	_cleanup_close_ int read_end = -1, write_end = -1;
	struct job *job = take_slot(table);
	int ends[2];
	pid_t pid;

	if (!job)
		return -EBUSY;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	read_end = ends[0];
	write_end = ends[1];
	if (fcntl(read_end, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_file_job(root, write_end, wanted.call, function, request);
	*job = wanted;
	job->pid = pid;
	channel_init(&job->results, TAKE_FD(read_end), -1, 0);
	return 0;
}

int job_table_start(struct job_table *table, const struct root *root, uint64_t call,
	job_function function, const void *request)
{
	return start_file_job(
		table, root, (struct job){.call = call, .allowed = INT64_MAX}, function, request);
}

int job_table_start_pulled(struct job_table *table, const struct root *root, uint64_t call,
	job_function function, const void *request)
{
	return start_file_job(table, root, (struct job){.call = call}, function, request);
}

int job_table_more(struct job_table *table, uint64_t call, uint64_t bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->jobs); i++) {
		struct job *job = &table->jobs[i];

		if (job->pid == 0 || job->killed || job->call != call || job->allowed == INT64_MAX)
			continue;
		job->allowed += (int64_t)bytes;
		return serve_job(table, job);
	}
	return 0;
}

void job_table_cancel(struct job_table *table, uint64_t call)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->jobs); i++) {
		struct job *job = &table->jobs[i];

		if (job->pid != 0 && !job->killed && job->call == call)
			kill_job(job, TOOL_CANCELLED);
	}
}

size_t job_table_poll_fds(const struct job_table *table, struct pollfd *poll_fds)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(table->jobs); i++)
		if (table->jobs[i].pid != 0)
			poll_fds[n++] = (struct pollfd){
				.fd = may_pass_on(&table->jobs[i]) ? table->jobs[i].results.in : -1,
				.events = POLLIN};
	return n;
}

int job_table_serve(struct job_table *table)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(table->jobs); i++)
		if (table->jobs[i].pid != 0)
			r = serve_job(table, &table->jobs[i]);
	return r;
}
