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
#include <sys/wait.h>
#include <unistd.h>

struct job {
	pid_t pid; /* 0: unused */
	uint64_t call;
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

static _Noreturn void run(
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

int job_table_start(struct job_table *table, const struct root *root, uint64_t call,
	job_function function, const void *request)
{
	_cleanup_close_ int read_end = -1, write_end = -1;
	struct job *job = NULL;
	int ends[2];
	pid_t pid;

	for (size_t i = 0; !job && i < ARRAY_SIZE(table->jobs); i++)
		if (table->jobs[i].pid == 0)
			job = &table->jobs[i];
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
		run(root, write_end, call, function, request);
	job->pid = pid;
	job->call = call;
	channel_init(&job->results, TAKE_FD(read_end), -1, 0);
	return 0;
}

static void end_job(struct job *job)
{
	kill(job->pid, SIGKILL);
	while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
		;
	channel_done(&job->results);
	job->pid = 0;
}

/* Answers the call of @job, which cannot. */
static int answer_for(struct job_table *table, const struct job *job, enum tool_error error)
{
	struct reply *reply = reply_new(table->up, job->call);
	int r = reply ? reply_error(reply, error, NULL) : -ENOMEM;

	reply_free(reply);
	return r;
}

int job_table_cancel(struct job_table *table, uint64_t call)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->jobs); i++) {
		struct job *job = &table->jobs[i];

		if (job->pid == 0 || job->call != call)
			continue;
		end_job(job);
		return answer_for(table, job, TOOL_CANCELLED);
	}
	return 0;
}

size_t job_table_poll_fds(const struct job_table *table, struct pollfd *poll_fds)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(table->jobs); i++)
		if (table->jobs[i].pid != 0)
			poll_fds[n++] =
				(struct pollfd){.fd = table->jobs[i].results.in, .events = POLLIN};
	return n;
}

static int pass_on(int up, const struct channel_frame *frame)
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

static int serve_job(struct job_table *table, struct job *job)
{
	struct channel_frame frame;
	int filled = channel_fill(&job->results, WIRE_FRAME_MAX);
	int r = 0, next;

	while (r == 0 && (next = channel_next(&job->results, &frame)) > 0) {
		bool last = frame.type == FILES_END;

		if (frame.call != job->call || frame.type < FILES_DATA || frame.type > FILES_END)
			break;
		r = pass_on(table->up, &frame);
		if (last) {
			end_job(job);
			return r;
		}
	}
	if (r < 0 || filled == -EAGAIN || (filled > 0 && next == 0))
		return r;
	/* The job has died, or has written an invalid frame. */
	end_job(job);
	return answer_for(table, job, TOOL_EXECUTION_ERROR);
}

int job_table_serve(struct job_table *table)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(table->jobs); i++)
		if (table->jobs[i].pid != 0)
			r = serve_job(table, &table->jobs[i]);
	return r;
}
