// SPDX-License-Identifier: Apache-2.0
/*
 * cloister exec: run_command with its output on our own stdout and stderr as it comes, byte for
 * byte, and its exit status as ours. The output is the command's: it is passed on and never
 * interpreted.
 */
#include "client/arguments.h"
#include "client/client.h"
#include "client/cloister.h"
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
	struct client *client;
	int64_t call;
	int signal_fd;
	int status;     /* STATUS_OK, or the status that ended the call from our side */
	bool abandoned; /* a second signal: do not wait for the answer */
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

/* tool.call's params for the command line in the operands. */
static struct json_object *build_params(const struct invocation *invocation)
{
	_cleanup_free_ char *line = command_line(invocation->argc, invocation->argv);
	struct json_object *options = invocation->options;
	struct json_object *arguments = json_object_new_object();
	struct json_object *params = json_object_new_object();

	json_put(options, "stream", json_object_new_boolean(1));
	json_put(options, "encoding", json_object_new_string("base64"));
	json_put(arguments, "command", line ? json_object_new_string(line) : NULL);
	/* As an argument it replaces the default of 30 s; an option could only shorten that. */
	if (invocation->timeout_ms > 0)
		json_put(arguments, "timeout_ms", json_object_new_int64(invocation->timeout_ms));
	json_put(params, "tool", json_object_new_string("run_command"));
	json_put(params, "arguments", arguments);
	json_put(params, "options", json_object_get(options));
	return params;
}

/* Asks for the end of the call; @status is what we exit with once it has come. */
static void cancel(struct execution *execution, int status)
{
	struct json_object *params = json_object_new_object();
	int64_t id;

	if (execution->status != STATUS_OK) {
		execution->abandoned = true;
		json_object_put(params);
		return;
	}
	execution->status = status;
	json_put(params, "id", json_object_new_int64(execution->call));
	if (client_send(execution->client, "tool.cancel", params, &id) < 0)
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

static void pass_on(struct execution *execution, struct json_object *message)
{
	struct json_object *params, *data, *stream;
	_cleanup_free_ unsigned char *bytes = NULL;
	struct text encoded;
	size_t len;
	int fd = STDOUT_FILENO;

	if (!json_object_object_get_ex(message, "params", &params) ||
		!json_object_object_get_ex(params, "data", &data) ||
		!json_object_is_type(data, json_type_string) ||
		!json_object_object_get_ex(params, "stream", &stream))
		return;
	if (strcmp(json_object_get_string(stream), "stderr") == 0)
		fd = STDERR_FILENO;
	encoded = (struct text){
		json_object_get_string(data), (size_t)json_object_get_string_len(data)};
	bytes = malloc(base64_decoded_size(encoded.len) + 1);
	if (!bytes || base64_decode(encoded, bytes, &len) < 0) {
		complain("cloisterd sent output that is not base64");
		cancel(execution, STATUS_OWN_FAILURE);
		return;
	}
	write_output(execution, fd, bytes, len);
}

static bool is_output(struct json_object *message)
{
	struct json_object *method;

	return json_object_object_get_ex(message, "method", &method) &&
	       json_object_is_type(method, json_type_string) &&
	       strcmp(json_object_get_string(method), "tool.output") == 0;
}

/* A signal's number from its number or its name, with or without "SIG". 0: neither. */
static int signal_number(struct json_object *signal)
{
	const char *name;

	if (json_object_is_type(signal, json_type_int))
		return json_object_get_int(signal);
	if (!json_object_is_type(signal, json_type_string))
		return 0;
	name = json_object_get_string(signal);
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (int number = 1; number < NSIG; number++) {
		const char *known = sigabbrev_np(number);

		if (known && strcmp(known, name) == 0)
			return number;
	}
	return 0;
}

/* Our exit status for a call that cloister ended or could not start. */
static int failure_status(struct json_object *observation)
{
	struct json_object *error = NULL, *code = NULL, *message = NULL;

	json_object_object_get_ex(observation, "error", &error);
	json_object_object_get_ex(error, "code", &code);
	json_object_object_get_ex(error, "message", &message);
	complain("%s (%s)", message ? json_object_get_string(message) : "the call failed",
		code ? json_object_get_string(code) : "no code");
	if (code && strcmp(json_object_get_string(code), "TIMEOUT") == 0)
		return STATUS_DEADLINE;
	return STATUS_OWN_FAILURE;
}

static int command_status(struct json_object *reply)
{
	struct json_object *observation = reply_result(reply);
	struct json_object *field = NULL, *output = NULL;
	int number;

	if (!observation) {
		reply_complain(reply);
		return STATUS_OWN_FAILURE;
	}
	json_object_object_get_ex(observation, "success", &field);
	if (!json_object_get_boolean(field))
		return failure_status(observation);
	json_object_object_get_ex(observation, "output", &output);
	json_object_object_get_ex(output, "signal", &field);
	number = signal_number(field);
	if (number > 0)
		return STATUS_SIGNAL_BASE + number;
	if (json_object_object_get_ex(output, "exit_code", &field) &&
		json_object_is_type(field, json_type_int))
		return json_object_get_int(field);
	complain("cloisterd did not say how the command ended");
	return STATUS_OWN_FAILURE;
}

/* Passes output on until the call is answered: its status. */
static int follow(struct execution *execution)
{
	struct json_object *message;
	int status;
	int r;

	while (!execution->abandoned) {
		bool cancelled = execution->status != STATUS_OK;

		r = client_receive(execution->client, execution->signal_fd,
			cancelled ? CANCEL_MS : -1, &message);
		if (r == 0) {
			take_signal(execution);
			continue;
		}
		if (r < 0 && cancelled)
			break;
		if (r < 0) {
			client_complain(r);
			return STATUS_OWN_FAILURE;
		}
		if (reply_is_for(message, execution->call)) {
			status = cancelled ? execution->status : command_status(message);
			json_object_put(message);
			return status;
		}
		if (is_output(message))
			pass_on(execution, message);
		json_object_put(message);
	}
	return execution->status;
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
	execution.client = session.client;
	execution.signal_fd = signal_fd;
	r = client_send(session.client, "tool.call", build_params(invocation), &execution.call);
	if (r < 0) {
		client_complain(r);
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
