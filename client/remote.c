// SPDX-License-Identifier: Apache-2.0
/* Runs in the client. The command's output is hostile; it is copied and never interpreted. */
#include "client/remote.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/reply.h"
#include "client/transfer/progress.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* How long the answer to a cancelled call may take: the time to end a command, and a margin. */
#define CANCEL_MS (LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS + 5000)

#define INPUT_BYTES (64 * KIB) /* in one message */

struct remote {
	const struct remote_call *call;
	struct cloister *cloister;
	int64_t id;
	int signal_fd;
	int status;     /* STATUS_OK, or the status of the reason for which we ended the call */
	bool abandoned; /* a second signal came: do not wait for the answer */
	bool answered;
	struct remote_end end; /* filled in from the answer */
	size_t unanswered;     /* bytes of input without an answer yet */
	bool input_over;       /* all input is sent, or the command does not read it any more */
};

/* Asks for the end of the call. @status becomes our exit status. */
static void cancel(struct remote *remote, int status)
{
	if (remote->status != STATUS_OK) {
		remote->abandoned = true;
		return;
	}
	remote->status = status;
	if (cloister_cancel(remote->cloister, remote->id) < 0)
		remote->abandoned = true;
}

static void take_signal(struct remote *remote)
{
	struct signalfd_siginfo info;

	if (read(remote->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		cancel(remote, STATUS_SIGNAL_BASE + (int)info.ssi_signo);
}

/*
 * Waits for room in @fd or a signal, so that a reader that stalls cannot delay the handling of
 * signals.
 */
static int wait_writable(struct remote *remote, int fd)
{
	struct pollfd fds[] = {
		{.fd = fd, .events = POLLOUT}, {.fd = remote->signal_fd, .events = POLLIN}};

	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (fds[1].revents) {
			take_signal(remote);
			return -ECANCELED;
		}
		if (fds[0].revents)
			return 0;
	}
}

/* If poll(2) reports room, PIPE_BUF bytes can be written without blocking, pipe(7). */
int remote_write(struct remote *remote, int fd, const void *data, size_t len)
{
	const char *from = data;

	progress_before_output(remote->call->progress, fd, data, len);
	while (len > 0 && remote->status == STATUS_OK) {
		ssize_t n;

		if (wait_writable(remote, fd) < 0)
			return -ECANCELED;
		n = write(fd, from, MIN(len, (size_t)PIPE_BUF));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0 && errno == EPIPE) {
			cancel(remote, STATUS_SIGNAL_BASE + SIGPIPE);
			return -EPIPE;
		}
		if (n < 0) {
			complain("cannot write output: %s", strerror(errno));
			return -errno;
		}
		from += n;
		len -= (size_t)n;
	}
	return 0;
}

static void on_remote_output(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	struct remote *remote = userdata;

	(void)cloister;
	(void)id;
	if (remote->status != STATUS_OK)
		return;
	progress_count(remote->call->progress, len);
	if (remote->call->output(remote, stream, data, len, remote->call->context) < 0 &&
		remote->status == STATUS_OK)
		cancel(remote, STATUS_OWN_FAILURE);
}

/* Returns the number of a signal given by number or name, with or without "SIG", or 0. */
static int signal_number(const struct cloister_message *reply, const char *pointer)
{
	const char *name = cloister_get_string(reply, pointer, NULL);
	int64_t number;

	if (cloister_get_int64(reply, pointer, &number) == 0)
		return number > 0 && number < NSIG ? (int)number : 0;
	if (!name)
		return 0;
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (number = 1; number < NSIG; number++) {
		const char *known = sigabbrev_np((int)number);

		if (known && strcmp(known, name) == 0)
			return (int)number;
	}
	return 0;
}

int remote_status(const struct cloister_message *reply, const char *pointer)
{
	char member[64];
	int64_t exit_code;
	int number;

	snprintf(member, sizeof(member), "%s/output/signal", pointer);
	number = signal_number(reply, member);
	if (number > 0)
		return STATUS_SIGNAL_BASE + number;
	snprintf(member, sizeof(member), "%s/output/exit_code", pointer);
	return cloister_get_int64(reply, member, &exit_code) == 0 ? (int)exit_code : -1;
}

/* The service's sentence is for models and speaks of an argument; ours names the option. */
static void complain_of_end(const struct remote_call *call, const struct cloister_message *reply)
{
	const char *ended_by = cloister_get_string(reply, "/output/ended_by", NULL);
	const char *code = complains_json() ? "" : " (TIMEOUT)";

	if (!ended_by || strcmp(ended_by, "timeout") != 0)
		reply_complain(reply);
	else if (call->timeout_ms > 0)
		complain_code("TIMEOUT",
			"the command was ended at its deadline; a larger --timeout gives it more "
			"time, at most the tenant's command_timeout_max%s",
			code);
	else
		complain_code("TIMEOUT",
			"the command was ended at the longest deadline, the tenant's "
			"command_timeout_max; --timeout can only shorten it%s",
			code);
}

static struct remote_end command_end(
	const struct remote_call *call, const struct cloister_message *reply)
{
	int status = remote_status(reply, "");

	if (!cloister_succeeded(reply)) {
		bool late = cloister_json_error(reply) == 0 &&
			    cloister_error(reply) == CLOISTER_ERROR_TIMEOUT;

		if (!call->ended || cloister_json_error(reply) != 0)
			complain_of_end(call, reply);
		return (struct remote_end){late ? STATUS_DEADLINE : STATUS_OWN_FAILURE, false};
	}
	if (status >= 0)
		return (struct remote_end){status, true};
	complain("cloisterd did not say how the command ended");
	return (struct remote_end){STATUS_OWN_FAILURE, false};
}

static struct json_object *diff_of(const struct cloister_message *reply)
{
	struct json_object *observation = reply_result(reply), *diff = NULL;

	if (json_object_object_get_ex(observation, "diff", &diff))
		json_object_get(diff);
	json_object_put(observation);
	return diff;
}

static void on_reply(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct remote *remote = userdata;

	(void)cloister;
	(void)id;
	remote->answered = true;
	progress_clear(remote->call->progress);
	if (remote->status != STATUS_OK) {
		remote->end.status = remote->status;
	} else if (error < 0) {
		connection_complain(error);
		remote->end.status = STATUS_OWN_FAILURE;
	} else {
		remote->end = command_end(remote->call, reply);
	}
	if (reply && remote->call->ret_diff)
		*remote->call->ret_diff = diff_of(reply);
	if (reply && remote->call->ended)
		remote->call->ended(reply, remote->call->context);
}

/* The answer to an input message. If the call is over, its own answer reports any problem. */
static void on_input_reply(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct remote *remote = userdata;
	bool closed = false;

	(void)cloister;
	(void)id;
	if (error < 0)
		return;
	remote->unanswered -= MIN(remote->unanswered, INPUT_BYTES);
	if (cloister_get_bool(reply, "/closed", &closed) < 0) {
		remote->input_over = true;
		if (cloister_error(reply) == CLOISTER_ERROR_NOT_FOUND ||
			remote->status != STATUS_OK)
			return;
		reply_complain(reply);
		cancel(remote, STATUS_OWN_FAILURE);
	}
	remote->input_over |= closed;
}

static int send_input(struct remote *remote, const void *data, size_t len)
{
	return cloister_start_input(
		remote->cloister, remote->id, data, len, len == 0, on_input_reply, remote, NULL);
}

static void take_input(struct remote *remote)
{
	static char buffer[INPUT_BYTES];
	ssize_t n = remote->call->input(buffer, sizeof(buffer), remote->call->context);

	if (n == -EAGAIN)
		return;
	if (n < 0 || send_input(remote, buffer, (size_t)n) < 0) {
		cancel(remote, STATUS_OWN_FAILURE);
		return;
	}
	progress_count(remote->call->progress, (size_t)n);
	/* Each counts as a full message, so that the number of small ones is bounded too. */
	remote->unanswered += INPUT_BYTES;
	remote->input_over |= n == 0;
}

static int start_ssh(struct remote *remote)
{
	const struct remote_call *call = remote->call;
	struct json_object *arguments = json_object_new_object();
	int r;

	json_put(arguments, "command", json_object_new_string(call->command));
	/*
	 * As an argument it replaces the default of 30 s; an option could only shorten that. The
	 * service takes the tenant's maximum if that is shorter.
	 */
	json_put(arguments, "timeout_ms",
		json_object_new_int64(
			call->timeout_ms > 0 ? call->timeout_ms : LIMIT_COMMAND_MAX_MS));
	/* The list advises models, and a person wrote this command. */
	if (!call->blocked_list)
		json_put(call->options, "blocked_list", json_object_new_boolean(0));
	json_put(call->options, "stream_bytes", json_object_new_boolean(1));
	if (call->input)
		json_put(call->options, "stdin_stream", json_object_new_boolean(1));
	r = cloister_start_call(remote->cloister,
		&(struct cloister_tool_call){
			.tool = "run_command",
			.arguments =
				json_object_to_json_string_ext(arguments, JSON_C_TO_STRING_PLAIN),
			.options = json_object_to_json_string_ext(
				call->options, JSON_C_TO_STRING_PLAIN),
			.on_output = on_remote_output,
			.on_reply = on_reply,
			.userdata = remote,
		},
		&remote->id);
	json_object_put(arguments);
	return r;
}

/* Waits once for the next event. Returns false if the answer is overdue. */
static bool turn(struct remote *remote)
{
	const struct remote_call *call = remote->call;
	bool wants = call->input && !remote->input_over && remote->status == STATUS_OK &&
		     remote->unanswered + INPUT_BYTES <= LIMIT_INPUT_WINDOW;
	struct pollfd fds[] = {
		{.fd = remote->signal_fd, .events = POLLIN},
		{.fd = cloister_fd(remote->cloister), .events = cloister_events(remote->cloister)},
		{.fd = wants ? call->input_fd : -1, .events = POLLIN},
	};
	int wait_ms = remote->status != STATUS_OK ? CANCEL_MS : progress_wait_ms(call->progress);
	int n = poll(fds, ARRAY_SIZE(fds), wants && call->input_fd < 0 ? 0 : wait_ms);

	if (n < 0 && errno != EINTR) {
		complain("cannot wait: %s", strerror(errno));
		return false;
	}
	if (n == 0 && remote->status != STATUS_OK)
		return false;
	if (remote->status == STATUS_OK)
		progress_show(call->progress);
	if (n > 0 && fds[0].revents) {
		take_signal(remote);
		return true;
	}
	if (n > 0 && fds[1].revents)
		(void)cloister_dispatch(remote->cloister);
	if (wants && !remote->answered && remote->status == STATUS_OK &&
		(call->input_fd < 0 || (n > 0 && fds[2].revents)))
		take_input(remote);
	return true;
}

/* Makes SIGINT and SIGTERM readable. They are blocked so that none is lost. signalfd(2) */
static int open_signal_fd(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

struct remote_end remote_run(struct cloister *cloister, const struct remote_call *call)
{
	struct remote remote = {.call = call, .cloister = cloister, .signal_fd = open_signal_fd()};
	int r = remote.signal_fd < 0 ? remote.signal_fd : start_ssh(&remote);

	remote.end.status = STATUS_OWN_FAILURE;
	if (r < 0) {
		connection_complain(r);
		close_fd(&remote.signal_fd);
		return remote.end;
	}
	while (!remote.abandoned && !remote.answered && turn(&remote))
		;
	progress_clear(call->progress);
	if (!remote.answered)
		cloister_forget(cloister, remote.id);
	close_fd(&remote.signal_fd);
	if (!remote.answered)
		remote.end.status = remote.status != STATUS_OK ? remote.status : STATUS_OWN_FAILURE;
	return remote.end;
}

ssize_t remote_read_stdin(void *buffer, size_t size, void *context)
{
	ssize_t n = read(STDIN_FILENO, buffer, size);

	(void)context;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return -EAGAIN;
	if (n < 0)
		complain("cannot read stdin: %s", strerror(errno));
	return n < 0 ? -errno : n;
}
