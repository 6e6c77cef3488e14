// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. The output is hostile: a terminal does what it says, as for any program that
 * is run on it, and it is for those who trust theirs with that. What the terminal answers goes to
 * the program, and to nothing else.
 */
#include "client/interactive.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/raw_terminal.h"
#include "client/remote.h"
#include "client/reply.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

/* How long the end may take: the time to end a command, and a margin. */
#define END_MS (LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS + 5000)

#define READ_MS     60000 /* one session.read waits for output */
#define READ_BYTES  65536
#define INPUT_BYTES 16384
#define PIECE_BYTES 512 /* that a terminal takes at once, if it takes anything */
#define AGAIN_MS    50  /* until input is sent again that was not taken */

struct interactive {
	struct cloister *cloister;
	char *session; /* its id */
	int signal_fd;
	int64_t next; /* cursor of the output */
	int64_t lost; /* bytes of it that were not kept until the terminal had taken those before */
	char *output; /* that is still to be written; NULL: none */
	size_t output_len, written;
	char input[INPUT_BYTES];
	size_t input_len;
	bool sending;        /* input is on its way */
	bool busy;           /* and was not taken: it is sent again later */
	struct winsize size; /* that the session was told, or is being told */
	bool sizing;         /* a size is on its way */
	bool size_is_due;    /* the service had no room for it: it is sent again later */
	bool over;           /* it has ended and its output is written, or the connection is lost */
	int status;
	int signalled;  /* the status for the signal for which it is ended; 0: none */
	bool abandoned; /* a second signal came */
	bool broken;    /* it did not end by itself */
	bool is_lost;   /* the connection */
	int error;
};

/* Takes @params. */
static int ask_interactive(struct interactive *run, const char *method, struct json_object *params,
	cloister_reply_handler *on_reply)
{
	int r;

	json_put(params, "session", json_object_new_string(run->session));
	r = cloister_start(run->cloister, method,
		json_object_to_json_string_ext(params, JSON_C_TO_STRING_PLAIN), on_reply, run,
		NULL);
	json_object_put(params);
	return r;
}

static void lose(struct interactive *run, int error)
{
	run->over = true;
	run->is_lost = true;
	run->error = error;
}

static void ignore(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	(void)cloister;
	(void)id;
	(void)reply;
	if (error < 0)
		lose(userdata, error);
}

static void end_interactive(struct interactive *run, int status)
{
	if (run->signalled) {
		run->abandoned = true;
		return;
	}
	run->signalled = status;
	if (ask_interactive(run, "session.end", json_object_new_object(), ignore) < 0)
		run->abandoned = true;
}

/* Output. */

static void on_interactive_output(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata);
static void write_output(struct interactive *run);

static void read_on(struct interactive *run)
{
	struct json_object *params = json_object_new_object();
	int r;

	json_put(params, "after", json_object_new_int64(run->next));
	json_put(params, "max_bytes", json_object_new_int(READ_BYTES));
	json_put(params, "wait_ms", json_object_new_int(READ_MS));
	json_put(params, "encoding", json_object_new_string("base64"));
	r = ask_interactive(run, "session.read", params, on_interactive_output);
	if (r < 0)
		lose(run, r);
}

/* Joins the chunks: all that comes from a terminal is one stream. */
static int take_output(struct interactive *run, const struct cloister_message *reply)
{
	size_t n = 0;

	if (cloister_get_count(reply, "/chunks", &n) < 0)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		char pointer[64];
		void *data;
		char *grown;
		size_t len;
		int r;

		snprintf(pointer, sizeof(pointer), "/chunks/%zu/data", i);
		r = cloister_get_bytes(reply, pointer, &data, &len);
		if (r < 0)
			return r;
		grown = realloc(run->output, run->output_len + len);
		if (grown)
			memcpy(grown + run->output_len, data, len);
		free(data);
		if (!grown)
			return -ENOMEM;
		run->output = grown;
		run->output_len += len;
	}
	return 0;
}

static void take_end(struct interactive *run, const struct cloister_message *reply)
{
	bool success = false;

	run->over = true;
	(void)cloister_get_bool(reply, "/end/success", &success);
	run->broken = !success;
	run->status = success ? remote_status(reply, "/end") : STATUS_OWN_FAILURE;
	if (success && run->status < 0) {
		run->status = STATUS_OWN_FAILURE;
		run->broken = true;
	}
	if (success && run->status >= STATUS_SIGNAL_BASE)
		run->broken = true;
	if (!success && !run->signalled) {
		const char *message = cloister_get_string(reply, "/end/error/message", NULL);
		const char *code = cloister_get_string(reply, "/end/error/code", NULL);

		raw_terminal_leave(true);
		complain_code(code ? code : "EXECUTION_ERROR", "%s%s%s%s",
			message ? message : "cloisterd did not say how the program ended",
			code ? " (" : "", code ? code : "", code ? ")" : "");
	}
}

/* A terminal that takes nothing must not stop the client: it has signals and keys to take. */
static bool terminal_has_room(void)
{
	struct pollfd terminal = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&terminal, 1, 0) == 1;
}

static void on_interactive_output(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct interactive *run = userdata;
	int64_t lost = 0;
	int r = error;
	size_t count;

	(void)cloister;
	(void)id;
	if (r == 0 && !cloister_succeeded(reply)) {
		raw_terminal_leave(true);
		reply_complain(reply);
		run->over = true;
		run->broken = true;
		return;
	}
	if (r == 0)
		r = take_output(run, reply);
	if (r == 0)
		r = cloister_get_int64(reply, "/next", &run->next);
	if (r == 0 && cloister_get_int64(reply, "/lost_bytes", &lost) == 0)
		run->lost += lost;
	if (r < 0)
		lose(run, r);
	else if (run->output_len == 0 && cloister_get_count(reply, "/end", &count) == 0)
		take_end(run, reply);
	else if (run->output_len == 0)
		read_on(run);
	/* At once, and not in the next turn, which costs a look at all else. */
	else if (terminal_has_room())
		write_output(run);
}

static void write_output(struct interactive *run)
{
	size_t left = run->output_len - run->written;
	ssize_t n = write(
		STDOUT_FILENO, run->output + run->written, left < PIECE_BYTES ? left : PIECE_BYTES);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	/* The terminal is gone. */
	if (n < 0) {
		end_interactive(run, STATUS_SIGNAL_BASE + SIGHUP);
		n = (ssize_t)left;
	}
	run->written += (size_t)n;
	if (run->written < run->output_len)
		return;
	free(TAKE_PTR(run->output));
	run->output_len = run->written = 0;
	read_on(run);
}

/* Input. */

static void on_taken(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct interactive *run = userdata;
	bool closed = false;
	int64_t taken = 0;

	(void)cloister;
	(void)id;
	run->sending = false;
	if (error < 0) {
		lose(run, error);
		return;
	}
	if (cloister_get_bool(reply, "/closed", &closed) == 0 && closed)
		taken = (int64_t)run->input_len;
	else
		(void)cloister_get_int64(reply, "/taken", &taken);
	if (taken < 0 || (size_t)taken > run->input_len)
		taken = (int64_t)run->input_len;
	run->input_len -= (size_t)taken;
	memmove(run->input, run->input + taken, run->input_len);
	run->busy = run->input_len > 0 && taken == 0;
}

static void send_input(struct interactive *run)
{
	struct cloister_object *params = cloister_object_new();
	const char *text = NULL;
	int r = -ENOMEM;

	if (params &&
		cloister_object_string(params, "session", run->session, strlen(run->session)) ==
			0 &&
		cloister_object_bytes(params, "data", run->input, run->input_len) == 0 &&
		cloister_object_string(params, "encoding", "base64", 6) == 0)
		text = cloister_object_text(params);
	if (text)
		r = cloister_start(run->cloister, "session.write", text, on_taken, run, NULL);
	cloister_object_free(params);
	run->busy = false;
	run->sending = r == 0;
	if (r < 0)
		lose(run, r);
}

static void take_keys(struct interactive *run)
{
	size_t room = run->input_len < INPUT_BYTES ? INPUT_BYTES - run->input_len : 0;
	ssize_t n;

	if (room == 0)
		return;
	n = read(STDIN_FILENO, run->input + run->input_len, room);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0)
		run->input_len += (size_t)n;
	else
		end_interactive(run, STATUS_SIGNAL_BASE + SIGHUP);
}

/* Signals. */

static struct json_object *size_params(struct winsize size)
{
	struct json_object *params = json_object_new_object();
	int rows = size.ws_row < LIMIT_TERMINAL_SIDE ? size.ws_row : LIMIT_TERMINAL_SIDE;
	int cols = size.ws_col < LIMIT_TERMINAL_SIDE ? size.ws_col : LIMIT_TERMINAL_SIDE;

	json_put(params, "rows", json_object_new_int(rows));
	json_put(params, "cols", json_object_new_int(cols));
	return params;
}

static void on_sized(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata);

static void send_size(struct interactive *run)
{
	int r;

	run->size = raw_terminal_size();
	r = ask_interactive(run, "session.resize", size_params(run->size), on_sized);
	run->size_is_due = false;
	run->sizing = r == 0;
	if (r < 0)
		lose(run, r);
}

/* One size is on its way at a time. What has changed meanwhile is sent when that has arrived. */
static void resize(struct interactive *run)
{
	struct winsize now = raw_terminal_size();

	if (!run->sizing && !run->over &&
		(now.ws_row != run->size.ws_row || now.ws_col != run->size.ws_col))
		send_size(run);
}

static void on_sized(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct interactive *run = userdata;

	(void)cloister;
	(void)id;
	run->sizing = false;
	if (error < 0)
		lose(run, error);
	else if (cloister_error(reply) == CLOISTER_ERROR_BUSY)
		run->size_is_due = true;
	else
		resize(run);
}

/* Somebody else stops us: the terminal is theirs meanwhile. */
static void stop(struct interactive *run)
{
	raw_terminal_leave(false);
	raise(SIGSTOP);
	(void)raw_terminal_enter();
	resize(run);
}

/* After SIGSTOP nothing could be given back: the shell has set the modes that it wanted. */
static void go_on(struct interactive *run)
{
	raw_terminal_enter_again();
	resize(run);
}

static void take_signal(struct interactive *run)
{
	struct signalfd_siginfo info;

	if (read(run->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGWINCH)
		resize(run);
	else if (info.ssi_signo == SIGCONT)
		go_on(run);
	else if (info.ssi_signo == SIGTSTP)
		stop(run);
	else
		end_interactive(run, STATUS_SIGNAL_BASE + (int)info.ssi_signo);
}

static int open_signal_fd(void)
{
	static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		sigaddset(&set, taken[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Waits once for the next event. Returns false if the end is overdue. */
static bool turn(struct interactive *run)
{
	bool has_room = run->input_len < INPUT_BYTES && !run->signalled;
	struct pollfd fds[] = {
		{.fd = run->signal_fd, .events = POLLIN},
		{.fd = cloister_fd(run->cloister), .events = cloister_events(run->cloister)},
		{.fd = has_room ? STDIN_FILENO : -1, .events = POLLIN},
		{.fd = run->output ? STDOUT_FILENO : -1, .events = POLLOUT},
	};
	bool again = run->busy || run->size_is_due;
	int n = poll(fds, ARRAY_SIZE(fds), again ? AGAIN_MS : run->signalled ? END_MS : -1);

	if (n < 0)
		return errno == EINTR;
	if (n == 0 && !again)
		return false;
	if (n == 0 && run->size_is_due)
		send_size(run);
	if (fds[0].revents)
		take_signal(run);
	if (fds[2].revents && !run->over)
		take_keys(run);
	if (fds[1].revents)
		(void)cloister_dispatch(run->cloister);
	if (fds[3].revents && !run->over)
		write_output(run);
	if (run->input_len > 0 && !run->sending && !run->over && (!run->busy || n == 0)) {
		send_input(run);
		/* Now: a key is not to wait for one more turn. */
		(void)cloister_dispatch(run->cloister);
	}
	return true;
}

/* Starts the session. Returns 0, or -errno after printing why. */
static int start_interactive(struct interactive *run, const char *command, struct json_object *env)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *params = json_object_new_object();
	const char *id;
	int r;

	json_put(params, "command", json_object_new_string(command));
	run->size = raw_terminal_size();
	json_put(params, "pty", size_params(run->size));
	/* The list advises models, and a person wrote this command. */
	json_put(params, "blocked_list", json_object_new_boolean(0));
	if (env)
		json_put(params, "env", json_object_get(env));
	r = request(run->cloister, "session.start", params, &reply);
	if (r < 0) {
		connection_complain(r);
		return r;
	}
	if (!cloister_succeeded(reply)) {
		reply_complain(reply);
		return -EACCES;
	}
	id = cloister_get_string(reply, "/session", NULL);
	run->session = id ? strdup(id) : NULL;
	return run->session ? 0 : -ENOMEM;
}

int interactive_run(struct cloister *cloister, const char *command, struct json_object *env)
{
	struct interactive run = {.cloister = cloister, .status = STATUS_OWN_FAILURE};
	int r;

	/* First, so that a new size is not missed. */
	run.signal_fd = open_signal_fd();
	if (run.signal_fd < 0) {
		complain("cannot wait for signals: %s", strerror(-run.signal_fd));
		return STATUS_OWN_FAILURE;
	}
	if (start_interactive(&run, command, env) < 0) {
		close_fd(&run.signal_fd);
		return STATUS_OWN_FAILURE;
	}
	r = raw_terminal_enter();
	if (r < 0)
		lose(&run, r);
	else
		read_on(&run);
	while (!run.over && !run.abandoned && turn(&run))
		;
	raw_terminal_leave(run.broken || run.is_lost || !run.over);
	if (run.lost > 0)
		complain("%lld bytes of the output were lost: this terminal took them slower than "
			 "the program wrote",
			(long long)run.lost);
	if (run.is_lost && !run.signalled)
		connection_complain(run.error);
	free(run.output);
	free(run.session);
	close_fd(&run.signal_fd);
	return run.signalled ? run.signalled : run.status;
}
