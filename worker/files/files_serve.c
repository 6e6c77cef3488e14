// SPDX-License-Identifier: Apache-2.0
/*
 * The loop and the dispatch of the files process. Short calls are answered at once, in order; calls
 * that may take long go to a job (file_job.h). Requests come from cloisterd, which has checked
 * them; they are decoded strictly nevertheless.
 */
#include "worker/files/files_serve.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/edit/file_diff.h"
#include "worker/files/edit/file_edit.h"
#include "worker/files/edit/file_patch.h"
#include "worker/files/file_fetch.h"
#include "worker/files/file_job.h"
#include "worker/files/file_list.h"
#include "worker/files/file_ops.h"
#include "worker/files/file_read.h"
#include "worker/files/file_sweep.h"
#include "worker/files/file_watch.h"
#include "worker/files/file_write.h"
#include "worker/files/search/file_search.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

#define LONG_READ_BYTES (4 * MIB) /* a range of a larger file is read by a job */
#define LONG_LIST_BYTES (1 * MIB) /* size of a directory inode: some 40,000 names */
/* CPU time that a files process may use: for each call, or this part of the time since the last */
#define SMALL_CALL_NS   200000
#define SMALL_CALL_PART 4
/* CPU time beyond that, before the files process gets a session of its own */
#define SMALL_CALL_DEBT_NS 100000000

/* A call whose body still comes: a write, an edit or a patch. All NULL: this entry is free. */
struct open_body {
	uint64_t call;
	uint64_t left; /* bytes of the body still to come */
	struct file_write *write;
	struct file_edit *edit;
	struct file_patch *patch;
	bool streamed; /* FILES_GO ends its content */
	bool held;     /* it is to wait for FILES_GO */
	bool waits;    /* it does, and FILES_HELD is sent */
};

struct server {
	struct channel *channel;
	struct reply *reply; /* for calls that are answered at once */
	const struct root *root;
	struct job_table *jobs;
	struct open_body bodies[LIMIT_FILE_WRITES + LIMIT_FILE_STREAMS];
	struct file_fetch fetches[LIMIT_FILE_STREAMS];
	int64_t debt_ns;    /* CPU time by which calls exceeded the share of small ones */
	int64_t counted_ns; /* the time when debt_ns was counted last */
};

/* It has a session of its own. */
static volatile sig_atomic_t alone;

/* CPU time at which the present call began. */
static volatile int64_t began_ns;

/*
 * All files processes share one session, which may have priority over computing commands
 * (startup_come_first). That is meant for small calls, of which cloisterd cannot forward many at a
 * time. A files process whose calls are not small moves to a session of its own, so that one
 * tenant's calls cannot take the CPUs from others' commands.
 */
static void leave_session(void)
{
	if (!alone)
		(void)setsid();
	alone = 1;
}

static int64_t time_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

/* A handler of SIGALRM. */
static void look_at_call(int number)
{
	const int saved = errno;

	(void)number;
	if (time_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns > SMALL_CALL_DEBT_NS)
		leave_session();
	errno = saved;
}

/*
 * While a call is watched, this process leaves the session as soon as the call has computed for
 * long, and not when it is over: names and patterns can make a small directory's list one that
 * does. Only a list is watched: a write may be cut short by a signal. setitimer(2)
 */
static void watch_call(bool on)
{
	static const struct timeval every = {.tv_usec = SMALL_CALL_DEBT_NS / 1000};
	const struct itimerval timer = {
		on ? every : (struct timeval){0}, on ? every : (struct timeval){0}};

	(void)setitimer(ITIMER_REAL, &timer, NULL);
}

/*
 * Called after each call. A call that comes after a pause may take longer: an agent that lists a
 * large directory now and then keeps its place.
 */
static void count_debt(struct server *server)
{
	int64_t used = time_ns(CLOCK_PROCESS_CPUTIME_ID), now = time_ns(CLOCK_MONOTONIC);
	int64_t allowed = (now - server->counted_ns) / SMALL_CALL_PART;

	server->counted_ns = now;
	server->debt_ns += used - began_ns - (allowed > SMALL_CALL_NS ? allowed : SMALL_CALL_NS);
	if (server->debt_ns < 0)
		server->debt_ns = 0;
	if (server->debt_ns > SMALL_CALL_DEBT_NS)
		leave_session();
	began_ns = used;
}

/* Answers @call at once by @function. */
static int answer_files_request(
	struct server *server, uint64_t call, job_function function, const void *request)
{
	reply_next(server->reply, call);
	function(server->root, request, server->reply);
	return 0;
}

static int answer_error(struct server *server, uint64_t call, enum tool_error error)
{
	reply_next(server->reply, call);
	return reply_error(server->reply, error, NULL);
}

/* Answers @call if its job could not be started, which is what the error @r says. */
static int have_started(struct server *server, uint64_t call, int r)
{
	if (r == 0)
		return 0;
	return answer_error(server, call, r == -EBUSY ? TOOL_BUSY : TOOL_EXECUTION_ERROR);
}

static int answer_in_job(
	struct server *server, uint64_t call, job_function function, const void *request)
{
	return have_started(
		server, call, job_table_start(server->jobs, server->root, call, function, request));
}

/* Only decides between a job and this process; the reader opens the file itself. */
static bool is_long_read(const struct root *root, const struct files_read *request)
{
	_cleanup_close_ int fd = -1;
	struct stat stat_buf;

	if (request->start_line == 0 && request->end_line == 0)
		return false; /* a whole file is short, or too large to answer */
	if (root_open(root, request->path, O_PATH, &fd, NULL) != TOOL_OK ||
		fstat(fd, &stat_buf) < 0)
		return false;
	return stat_buf.st_size > (off_t)LONG_READ_BYTES;
}

static void act_read(const struct root *root, const void *request, struct reply *reply)
{
	file_read(root, request, reply);
}

static void act_list(const struct root *root, const void *request, struct reply *reply)
{
	file_list(root, request, reply);
}

static void act_search(const struct root *root, const void *request, struct reply *reply)
{
	file_search(root, request, reply);
}

static void act_diff(const struct root *root, const void *request, struct reply *reply)
{
	file_diff(root, request, reply);
}

static void act_clear(const struct root *root, const void *request, struct reply *reply)
{
	(void)request;
	file_clear(root, reply);
}

static void act_sweep(const struct root *root, const void *request, struct reply *reply)
{
	struct files_end end = {0};

	file_sweep(root, request, &end);
	if (root->has_quota)
		reply_tell_disk(reply, root->fd);
	reply_end(reply, &end);
}

static int handle_read(struct server *server, const struct channel_frame *frame)
{
	struct files_read request;
	int r = files_read_get(frame->payload, &request);

	if (r < 0)
		return r;
	return is_long_read(server->root, &request)
		       ? answer_in_job(server, frame->call, act_read, &request)
		       : answer_files_request(server, frame->call, act_read, &request);
}

/*
 * All names of a directory are read and sorted before the first is answered, however few are
 * wanted.
 */
static bool is_long_list(const struct root *root, struct text path)
{
	_cleanup_close_ int fd = -1;
	struct stat stat_buf;

	return root_open(root, path, O_PATH, &fd, NULL) == TOOL_OK && fstat(fd, &stat_buf) == 0 &&
	       stat_buf.st_size > (off_t)LONG_LIST_BYTES;
}

static int answer_listing(struct server *server, uint64_t call, struct text path,
	job_function function, const void *request)
{
	int r;

	if (!alone && is_long_list(server->root, path))
		leave_session();
	if (alone)
		return answer_files_request(server, call, function, request);
	watch_call(true);
	r = answer_files_request(server, call, function, request);
	watch_call(false);
	return r;
}

static int handle_list(struct server *server, const struct channel_frame *frame)
{
	struct files_list request;
	int r = files_list_get(frame->payload, &request);

	if (r < 0)
		return r;
	if (request.recursive)
		return answer_in_job(server, frame->call, act_list, &request);
	return answer_listing(server, frame->call, request.path, act_list, &request);
}

static int handle_search(struct server *server, const struct channel_frame *frame)
{
	struct files_search request;
	int r = files_search_get(frame->payload, &request);

	return r < 0 ? r : answer_in_job(server, frame->call, act_search, &request);
}

static int handle_diff(struct server *server, const struct channel_frame *frame)
{
	struct files_diff request;
	int r = files_diff_get(frame->payload, &request);

	return r < 0 ? r : answer_in_job(server, frame->call, act_diff, &request);
}

/* The methods file.stat and so on. */
struct asked {
	struct files_ask ask;
	void (*act)(const struct root *root, const struct files_ask *ask, struct reply *reply);
};

static void act_asked(const struct root *root, const void *request, struct reply *reply)
{
	const struct asked *asked = request;

	if (asked->act == file_make_directory && root->has_quota)
		reply_tell_disk(reply, root->fd);
	asked->act(root, &asked->ask, reply);
}

/* A directory may hold a million names, so it is removed by a job. */
static int handle_ask(struct server *server, const struct channel_frame *frame)
{
	static const struct asked rows[] = {
		[FILES_STAT] = {.act = file_stat},
		[FILES_TREE] = {.act = file_tree},
		[FILES_MAKE_DIRECTORY] = {.act = file_make_directory},
		[FILES_RENAME] = {.act = file_rename},
		[FILES_REMOVE] = {.act = file_remove},
		[FILES_WATCH] = {.act = file_watch},
	};
	struct asked asked = rows[frame->type];
	int r = files_ask_get(frame->payload, &asked.ask);

	if (r < 0)
		return r;
	if (frame->type == FILES_WATCH)
		return have_started(server, frame->call,
			job_table_start_pulled(
				server->jobs, server->root, frame->call, act_asked, &asked));
	if (frame->type == FILES_TREE ? asked.ask.depth != 1
				      : frame->type == FILES_REMOVE && asked.ask.recursive)
		return answer_in_job(server, frame->call, act_asked, &asked);
	if (frame->type == FILES_TREE)
		return answer_listing(server, frame->call, asked.ask.path, act_asked, &asked);
	return answer_files_request(server, frame->call, act_asked, &asked);
}

static struct file_fetch *find_fetch(struct server *server, uint64_t call)
{
	for (size_t i = 0; i < ARRAY_SIZE(server->fetches); i++)
		if (server->fetches[i].fd >= 0 && server->fetches[i].call == call)
			return &server->fetches[i];
	return NULL;
}

static int handle_fetch(struct server *server, const struct channel_frame *frame)
{
	struct file_fetch *unused = NULL;
	struct files_ask request;
	int r = files_ask_get(frame->payload, &request);

	if (r < 0 || find_fetch(server, frame->call))
		return -EBADMSG;
	for (size_t i = 0; !unused && i < ARRAY_SIZE(server->fetches); i++)
		if (server->fetches[i].fd < 0)
			unused = &server->fetches[i];
	if (!unused)
		return answer_error(server, frame->call, TOOL_BUSY);
	reply_next(server->reply, frame->call);
	file_fetch_begin(server->root, &request, frame->call, unused, server->reply);
	return 0;
}

static int handle_more(struct server *server, const struct channel_frame *frame)
{
	struct file_fetch *fetch = find_fetch(server, frame->call);
	struct files_amount amount;
	int r = files_amount_get(frame->payload, &amount);

	if (r < 0)
		return r;
	if (!fetch) /* a watch's, or the end was on its way */
		return job_table_more(server->jobs, frame->call, amount.bytes);
	reply_next(server->reply, frame->call);
	if (file_fetch_more(fetch, amount.bytes, server->reply))
		file_fetch_end(fetch);
	return 0;
}

static int handle_clear(struct server *server, const struct channel_frame *frame)
{
	if (frame->payload.len > 0)
		return -EBADMSG;
	return answer_in_job(server, frame->call, act_clear, NULL);
}

static int handle_sweep(struct server *server, const struct channel_frame *frame)
{
	struct files_sweep request;
	int r = files_sweep_get(frame->payload, &request);

	return r < 0 ? r : answer_in_job(server, frame->call, act_sweep, &request);
}

static bool is_free(const struct open_body *body)
{
	return !body->write && !body->edit && !body->patch;
}

static struct open_body *find_body(struct server *server, uint64_t call)
{
	for (size_t i = 0; i < ARRAY_SIZE(server->bodies); i++)
		if (!is_free(&server->bodies[i]) && server->bodies[i].call == call)
			return &server->bodies[i];
	return NULL;
}

static struct open_body *free_body(struct server *server)
{
	for (size_t i = 0; i < ARRAY_SIZE(server->bodies); i++)
		if (is_free(&server->bodies[i]))
			return &server->bodies[i];
	return NULL;
}

static void end_body(struct open_body *body)
{
	file_write_free(body->write);
	file_edit_free(body->edit);
	file_patch_free(body->patch);
	*body = (struct open_body){0};
}

static int commit_body(struct server *server, struct open_body *body)
{
	/* Send the waiting answers first: fsync(2) may wait for the disk. */
	int r = reply_flush(server->reply);

	reply_next(server->reply, body->call);
	if (server->root->has_quota)
		reply_tell_disk(server->reply, server->root->fd);
	if (r == 0 && body->edit)
		r = file_edit_commit(body->edit, server->reply);
	else if (r == 0 && body->patch)
		r = file_patch_commit(body->patch, server->reply);
	else if (body->write)
		file_write_commit(body->write, server->reply);
	end_body(body);
	return r;
}

/* The body has come: makes the change, or says what it would be. */
static int complete(struct server *server, struct open_body *body)
{
	if (!body->held)
		return commit_body(server, body);
	reply_next(server->reply, body->call);
	if (body->patch)
		body->waits = file_patch_hold(body->patch, server->reply);
	else
		body->waits = body->edit ? file_edit_hold(body->edit, server->reply)
					 : file_write_hold(body->write, server->reply);
	if (!body->waits)
		end_body(body);
	return 0;
}

static int handle_go(struct server *server, const struct channel_frame *frame)
{
	struct open_body *body = find_body(server, frame->call);

	/* A stream that has failed has been answered while this frame was on its way. */
	if (frame->payload.len == 0 && !body)
		return 0;
	if (frame->payload.len > 0 || !(body->waits || body->streamed))
		return -EBADMSG;
	return commit_body(server, body);
}

static int handle_write(struct server *server, const struct channel_frame *frame)
{
	struct open_body *body = free_body(server);
	struct files_write request;
	int r = files_write_get(frame->payload, &request);

	if (r < 0 || find_body(server, frame->call))
		return -EBADMSG;
	if (!body)
		return answer_error(server, frame->call, TOOL_BUSY);
	r = file_write_begin(server->root, &request, frame->call, &body->write);
	if (r < 0)
		return answer_error(server, frame->call, TOOL_EXECUTION_ERROR);
	body->call = frame->call;
	body->left = request.streamed ? UINT64_MAX : request.size;
	body->held = request.held;
	body->streamed = request.streamed;
	if (body->streamed)
		return file_write_has_failed(body->write) ? commit_body(server, body) : 0;
	return request.size == 0 ? complete(server, body) : 0;
}

/* The number of bodies in memory. */
static size_t open_edits(const struct server *server, size_t *ret_patches)
{
	size_t count = 0;

	*ret_patches = 0;
	for (size_t i = 0; i < ARRAY_SIZE(server->bodies); i++) {
		count += server->bodies[i].edit || server->bodies[i].patch;
		*ret_patches += server->bodies[i].patch != NULL;
	}
	return count;
}

static int handle_edit(struct server *server, const struct channel_frame *frame)
{
	struct open_body *body = free_body(server);
	struct files_edit request;
	int r = files_edit_get(frame->payload, &request);
	size_t patches;

	if (r < 0 || find_body(server, frame->call))
		return -EBADMSG;
	if (!body || open_edits(server, &patches) >= LIMIT_FILE_EDITS)
		return answer_error(server, frame->call, TOOL_BUSY);
	r = file_edit_begin(server->root, &request, frame->call, &body->edit);
	if (r < 0)
		return answer_error(server, frame->call, TOOL_EXECUTION_ERROR);
	body->call = frame->call;
	body->left = request.size;
	body->held = request.held;
	return 0;
}

static int handle_patch(struct server *server, const struct channel_frame *frame)
{
	struct open_body *body = free_body(server);
	struct files_patch request;
	int r = files_patch_get(frame->payload, &request);
	size_t patches;

	if (r < 0 || find_body(server, frame->call))
		return -EBADMSG;
	if (!body || open_edits(server, &patches) >= LIMIT_FILE_EDITS ||
		patches >= LIMIT_FILE_PATCHES)
		return answer_error(server, frame->call, TOOL_BUSY);
	r = file_patch_begin(server->root, &request, frame->call, &body->patch);
	if (r < 0)
		return answer_error(server, frame->call, TOOL_EXECUTION_ERROR);
	body->call = frame->call;
	body->left = request.size;
	body->held = request.held;
	return 0;
}

/* Takes a part of a stream, of which each is acknowledged; or says at once why it has failed. */
static int take_streamed(struct server *server, struct open_body *body, struct text part)
{
	file_write_append(body->write, part.data, part.len);
	if (file_write_has_failed(body->write))
		return commit_body(server, body);
	reply_next(server->reply, body->call);
	return reply_taken(server->reply, &(struct files_amount){.bytes = part.len});
}

static int handle_body(struct server *server, const struct channel_frame *frame)
{
	struct open_body *body = find_body(server, frame->call);

	if (!body)
		return 0; /* the call was refused or cancelled while this frame was on its way */
	if (frame->payload.len > body->left || (body->streamed && frame->payload.len == 0))
		return -EBADMSG;
	if (body->streamed)
		return take_streamed(server, body, frame->payload);
	if (body->edit)
		file_edit_append(body->edit, frame->payload.data, frame->payload.len);
	else if (body->patch)
		file_patch_append(body->patch, frame->payload.data, frame->payload.len);
	else
		file_write_append(body->write, frame->payload.data, frame->payload.len);
	body->left -= frame->payload.len;
	return body->left == 0 ? complete(server, body) : 0;
}

static int handle_cancel(struct server *server, const struct channel_frame *frame)
{
	struct open_body *body = find_body(server, frame->call);
	struct file_fetch *fetch = find_fetch(server, frame->call);

	if (frame->payload.len > 0)
		return -EBADMSG;
	if (fetch) {
		file_fetch_end(fetch);
		return answer_error(server, frame->call, TOOL_CANCELLED);
	}
	if (!body) {
		job_table_cancel(server->jobs, frame->call);
		return 0;
	}
	end_body(body);
	return answer_error(server, frame->call, TOOL_CANCELLED);
}

static int handle_files_frame(struct server *server, const struct channel_frame *frame)
{
	static int (*const handlers[])(struct server *, const struct channel_frame *) = {
		[FILES_READ] = handle_read,
		[FILES_WRITE] = handle_write,
		[FILES_LIST] = handle_list,
		[FILES_SEARCH] = handle_search,
		[FILES_BODY] = handle_body,
		[FILES_CANCEL] = handle_cancel,
		[FILES_CLEAR] = handle_clear,
		[FILES_SWEEP] = handle_sweep,
		[FILES_EDIT] = handle_edit,
		[FILES_GO] = handle_go,
		[FILES_PATCH] = handle_patch,
		[FILES_DIFF] = handle_diff,
		[FILES_STAT] = handle_ask,
		[FILES_TREE] = handle_ask,
		[FILES_MAKE_DIRECTORY] = handle_ask,
		[FILES_RENAME] = handle_ask,
		[FILES_REMOVE] = handle_ask,
		[FILES_FETCH] = handle_fetch,
		[FILES_MORE] = handle_more,
		[FILES_WATCH] = handle_ask,
	};

	if (frame->type >= ARRAY_SIZE(handlers) || !handlers[frame->type])
		return -EBADMSG;
	return handlers[frame->type](server, frame);
}

static int receive_files_frames(struct server *server)
{
	struct channel_frame frame;
	int r = channel_fill(server->channel, WIRE_FRAME_MAX), flushed;

	began_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	while ((r = channel_next(server->channel, &frame)) > 0) {
		r = handle_files_frame(server, &frame);
		if (r < 0)
			break;
		count_debt(server);
	}
	flushed = reply_flush(server->reply);
	return r < 0 ? r : flushed;
}

/* Waits for events and handles them. */
static int serve_once(struct server *server)
{
	struct pollfd poll_fds[1 + JOB_TABLE_SIZE] = {
		{.fd = server->channel->in, .events = POLLIN}};
	size_t jobs = job_table_poll_fds(server->jobs, poll_fds + 1);
	int r = 0;

	if (jobs == 0) /* without jobs a blocking read is enough */
		return receive_files_frames(server);
	if (poll(poll_fds, 1 + jobs, -1) < 0 && errno != EINTR)
		return -errno;
	r = job_table_serve(server->jobs);
	if (r == 0 && poll_fds[0].revents)
		r = receive_files_frames(server);
	return r;
}

int files_serve(struct channel *channel, const struct root *root)
{
	struct server server = {
		.channel = channel,
		.reply = reply_new(channel->out, 0),
		.root = root,
		.jobs = job_table_new(channel->out),
		.counted_ns = time_ns(CLOCK_MONOTONIC),
	};
	const struct sigaction action = {.sa_handler = look_at_call, .sa_flags = SA_RESTART};
	int r = server.jobs && server.reply ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(server.fetches); i++)
		server.fetches[i].fd = -1;

	if (r == 0 && sigaction(SIGALRM, &action, NULL) < 0)
		r = -errno;
	while (r == 0)
		r = serve_once(&server);
	return r == -EPIPE ? 0 : r;
}
