// SPDX-License-Identifier: Apache-2.0
/*
 * cloister exec: run_command with its output on our own stdout and stderr as it comes, byte for
 * byte, and its exit status as ours. The output is the command's: it is passed on and never
 * interpreted.
 */
#include "client/arguments.h"
#include "client/command.h"
#include "client/reply.h"
#include "client/session.h"
#include "common/base64.h"
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

/* How long a cancelled call may take to be answered: what ending a command takes, and a little
 * more. */
#define CANCEL_MS (LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS + 5000)

struct execution {
	struct cloister *cloister;
	int64_t call;
	int signal_fd;
	int status;     /* STATUS_OK, or the status that ended the call from our side */
	bool abandoned; /* a second signal: do not wait for the answer */
	bool answered;
	int answer; /* the status for the answer */
};

/* Appends one word to @line so that sh(1) reads it back as that word. */
static char *quote_word(char *out, const char *word)
{
	*out++ = '\'';
	for (; *word; word++) {
		if (*word == '\'')
			out = stpcpy(out, "'\\'");
		*out++ = *word;
	}
	*out++ = '\'';
	return out;
}

/* One word is a line for the shell already; several are a command and its arguments. */
static char *command_line(int argc, char **argv)
{
	size_t size = 1;
	char *line;
	char *out;

	if (argc == 1)
		return strdup(argv[0]);
	for (int i = 0; i < argc; i++)
		size += 4 * strlen(argv[i]) + 3; /* each byte quoted, two quotes, a space */
	line = malloc(size);
	if (!line)
		return NULL;
	out = line;
	for (int i = 0; i < argc; i++) {
		if (i > 0)
			*out++ = ' ';
		out = quote_word(out, argv[i]);
	}
	*out = '\0';
	return line;
}

static struct json_object *base64_string(struct text data)
{
	_cleanup_free_ char *encoded = malloc(base64_encoded_size(data.len) + 1);

	if (!encoded)
		return NULL;
	return json_object_new_string_len(encoded, (int)base64_encode(data, encoded));
}

/* Adds all of our stdin to @options, as base64. 0, or -errno after printing why not. */
static int add_stdin(struct json_object *options)
{
	_cleanup_free_ char *data = malloc(LIMIT_STDIN_BYTES + 1);
	size_t len;

	if (!data) {
		complain("out of memory");
		return -ENOMEM;
	}
	len = fread(data, 1, LIMIT_STDIN_BYTES + 1, stdin);
	if (ferror(stdin)) {
		complain("cannot read stdin: %s", strerror(errno));
		return -EIO;
	}
	if (len > LIMIT_STDIN_BYTES) {
		complain("stdin is longer than %llu MiB", LIMIT_STDIN_BYTES / MIB);
		return -EFBIG;
	}
	json_put(options, "stdin", base64_string((struct text){data, len}));
	return 0;
}

/* Asks for the end of the call; @status is what we exit with once it has come. */
static void cancel(struct execution *execution, int status)
{
	if (execution->status != STATUS_OK) {
		execution->abandoned = true;
		return;
	}
	execution->status = status;
	if (cloister_cancel(execution->cloister, execution->call) < 0)
		execution->abandoned = true;
}

static void take_signal(struct execution *execution)
{
	struct signalfd_siginfo info;

	if (read(execution->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		cancel(execution, STATUS_SIGNAL_BASE + (int)info.ssi_signo);
}

/* Waits for room in @fd, so that a reader that stalls cannot keep signals from being heard. */
static int wait_writable(struct execution *execution, int fd)
{
	struct pollfd fds[] = {
		{.fd = fd, .events = POLLOUT}, {.fd = execution->signal_fd, .events = POLLIN}};

	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (fds[1].revents) {
			take_signal(execution);
			return -ECANCELED;
		}
		if (fds[0].revents)
			return 0;
	}
}

/* Up to PIPE_BUF bytes fit without blocking where poll(2) says there is room, pipe(7). */
static void write_output(struct execution *execution, int fd, const unsigned char *data, size_t len)
{
	while (len > 0 && execution->status == STATUS_OK) {
		ssize_t n;

		if (wait_writable(execution, fd) < 0)
			return;
		n = write(fd, data, MIN(len, (size_t)PIPE_BUF));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0 && errno == EPIPE) {
			cancel(execution, STATUS_SIGNAL_BASE + SIGPIPE);
			return;
		}
		if (n < 0) {
			complain("cannot write output: %s", strerror(errno));
			cancel(execution, STATUS_OWN_FAILURE);
			return;
		}
		data += n;
		len -= (size_t)n;
	}
}

static void pass_on(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	(void)cloister;
	(void)id;
	write_output(
		userdata, stream == CLOISTER_STDERR ? STDERR_FILENO : STDOUT_FILENO, data, len);
}

/* A signal's number from its number or its name, with or without "SIG". 0: neither. */
static int signal_number(const struct cloister_message *reply)
{
	const char *name = cloister_get_string(reply, "/output/signal", NULL);
	int64_t number;

	if (cloister_get_int64(reply, "/output/signal", &number) == 0)
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

static int command_status(const struct cloister_message *reply)
{
	int64_t exit_code;
	int number;

	if (!cloister_succeeded(reply)) {
		reply_complain(reply);
		return cloister_json_error(reply) == 0 &&
				       cloister_error(reply) == CLOISTER_ERROR_TIMEOUT
			       ? STATUS_DEADLINE
			       : STATUS_OWN_FAILURE;
	}
	number = signal_number(reply);
	if (number > 0)
		return STATUS_SIGNAL_BASE + number;
	if (cloister_get_int64(reply, "/output/exit_code", &exit_code) == 0)
		return (int)exit_code;
	complain("cloisterd did not say how the command ended");
	return STATUS_OWN_FAILURE;
}

static void take_answer(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct execution *execution = userdata;

	(void)cloister;
	(void)id;
	execution->answered = true;
	if (execution->status != STATUS_OK) {
		execution->answer = execution->status;
	} else if (error < 0) {
		connection_complain(error);
		execution->answer = STATUS_OWN_FAILURE;
	} else {
		execution->answer = command_status(reply);
	}
}

/* Starts the call for the command line in the operands. */
static int start_call(const struct invocation *invocation, struct execution *execution)
{
	_cleanup_free_ char *line = command_line(invocation->argc, invocation->argv);
	struct json_object *arguments = json_object_new_object();
	int r;

	json_put(arguments, "command", line ? json_object_new_string(line) : NULL);
	/* As an argument it replaces the default of 30 s; an option could only shorten that. */
	if (invocation->timeout_ms > 0)
		json_put(arguments, "timeout_ms", json_object_new_int64(invocation->timeout_ms));
	r = cloister_start_call(execution->cloister,
		&(struct cloister_tool_call){
			.tool = "run_command",
			.arguments =
				json_object_to_json_string_ext(arguments, JSON_C_TO_STRING_PLAIN),
			.options = json_object_to_json_string_ext(
				invocation->options, JSON_C_TO_STRING_PLAIN),
			.on_output = pass_on,
			.on_reply = take_answer,
			.userdata = execution,
		},
		&execution->call);
	json_object_put(arguments);
	return r;
}

/* Passes output on until the call is answered: its status. */
static int follow(struct execution *execution)
{
	while (!execution->abandoned && !execution->answered) {
		struct pollfd fds[] = {
			{.fd = execution->signal_fd, .events = POLLIN},
			{.fd = cloister_fd(execution->cloister),
				.events = cloister_events(execution->cloister)},
		};
		int n = poll(fds, ARRAY_SIZE(fds), execution->status != STATUS_OK ? CANCEL_MS : -1);

		if (n < 0 && errno != EINTR) {
			complain("cannot wait: %s", strerror(errno));
			return STATUS_OWN_FAILURE;
		}
		if (n == 0)
			break; /* it should have ended long ago */
		if (n > 0 && fds[0].revents)
			take_signal(execution);
		else if (n > 0)
			(void)cloister_dispatch(execution->cloister);
	}
	return execution->answered ? execution->answer : execution->status;
}

/* SIGINT and SIGTERM become readable; blocked, so that none is lost before we look. signalfd(2) */
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

static int run_exec(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	_cleanup_close_ int signal_fd = -1;
	struct execution execution = {0};
	int r;

	if (invocation->argc == 0) {
		complain("exec needs a command: cloister exec -- COMMAND ...");
		return STATUS_OWN_FAILURE;
	}
	if (invocation->use_stdin && add_stdin(invocation->options) < 0)
		return STATUS_OWN_FAILURE;
	if (session_open(invocation, true, &session) < 0)
		return STATUS_OWN_FAILURE;
	signal_fd = open_signal_fd();
	if (signal_fd < 0) {
		complain("signalfd: %s", strerror(-signal_fd));
		return STATUS_OWN_FAILURE;
	}
	execution.cloister = session.cloister;
	execution.signal_fd = signal_fd;
	r = start_call(invocation, &execution);
	if (r < 0) {
		connection_complain(r);
		return STATUS_OWN_FAILURE;
	}
	return follow(&execution);
}

static const struct option options[] = {{"timeout", required_argument, NULL, 't'},
	{"env", required_argument, NULL, 'e'}, {"stdin", no_argument, NULL, 'i'}, CLOISTER_OPTIONS,
	{0}};

const struct command command_exec = {
	.name = "exec",
	.usage = "exec [--timeout=30s] [--env NAME=VALUE ...] [--stdin] -- COMMAND ...",
	.short_options = "+",
	.options = options,
	.usage_status = STATUS_OWN_FAILURE,
	.run = run_exec,
};
