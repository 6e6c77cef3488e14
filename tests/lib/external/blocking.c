// SPDX-License-Identifier: Apache-2.0
/*
 * A program of an outside user of the library: it uses cloister.h and the C library, nothing of
 * this tree. usage: blocking SOCKET|private:CLOISTERD DIRECTORY [OTHER]. test_libcloister.py
 * expects its output.
 */
#include <cloister.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-r));
	exit(1);
}

/* Starts a private service, which ends with the connection. */
static int start_private(const char *cloisterd, pid_t *ret_pid)
{
	int pair[2];

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
	*ret_pid = fork();
	if (*ret_pid == 0) {
		/* dup2(2) onto itself would leave close-on-exec set. */
		if (pair[1] == 3 ? fcntl(3, F_SETFD, 0) == 0 : dup2(pair[1], 3) == 3)
			execl(cloisterd, "cloisterd", "--connection-fd=3", (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	return pair[0];
}

static struct cloister *open_at(const char *place, const char *directory, pid_t *ret_pid)
{
	struct cloister_message *reply;
	struct cloister *cloister;

	if (strncmp(place, "private:", 8) == 0)
		check(cloister_open_fd(start_private(place + 8, ret_pid), &cloister), "open_fd");
	else
		check(cloister_open(place, &cloister), "open");
	check(cloister_workspace(cloister, directory, &reply), "workspace");
	printf("opened %s\n", cloister_get_string(reply, "/kind", NULL));
	cloister_message_free(reply);
	return cloister;
}

/* Calls a tool and returns its reply. */
static struct cloister_message *call(struct cloister *cloister, const char *tool,
	struct cloister_object *arguments, const char *options)
{
	struct cloister_tool_call tool_call = {.tool = tool};
	struct cloister_message *reply;

	tool_call.arguments = cloister_object_text(arguments);
	tool_call.options = options;
	check(cloister_call(cloister, &tool_call, &reply), tool);
	cloister_object_free(arguments);
	return reply;
}

static void use_files(struct cloister *cloister, struct cloister *other)
{
	static const char content[] = "one\n\"two\"\n";
	struct cloister_object *arguments = cloister_object_new();
	struct cloister_message *reply;
	int64_t bytes = 0;

	cloister_object_string(arguments, "path", "a.txt", 5);
	cloister_object_string(arguments, "content", content, sizeof(content) - 1);
	reply = call(cloister, "write_file", arguments, NULL);
	check(cloister_get_int64(reply, "/output/bytes_written", &bytes), "bytes_written");
	printf("written %d\n", (int)bytes);
	cloister_message_free(reply);

	arguments = cloister_object_new();
	cloister_object_string(arguments, "path", "a.txt", 5);
	reply = call(cloister, "read_file", arguments, "{\"line_numbers\": false}");
	printf("same %d\n",
		strcmp(cloister_get_string(reply, "/output/content", NULL), content) == 0);
	cloister_message_free(reply);

	/* Another connection does not see this workspace. */
	arguments = cloister_object_new();
	cloister_object_string(arguments, "path", "a.txt", 5);
	reply = call(other, "read_file", arguments, NULL);
	printf("other %d %d %s\n", cloister_succeeded(reply),
		cloister_error(reply) == CLOISTER_ERROR_NOT_FOUND, cloister_error_name(reply));
	cloister_message_free(reply);

	arguments = cloister_object_new();
	cloister_object_string(arguments, "path", "../x", 4);
	reply = call(cloister, "read_file", arguments, NULL);
	printf("outside %d\n", cloister_error(reply) == CLOISTER_ERROR_PATH_OUTSIDE_WORKSPACE);
	cloister_message_free(reply);

	check(cloister_request(cloister, "no.such", NULL, &reply), "request");
	printf("method %d\n", cloister_json_error(reply) == CLOISTER_JSON_METHOD_NOT_FOUND);
	cloister_message_free(reply);
}

/* The userdata is the path of a file; the command goes on when that exists. */
static void print_output(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	(void)cloister;
	(void)id;
	if (userdata)
		close(open(userdata, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	printf("%s ", stream == CLOISTER_STDERR ? "stderr" : "stdout");
	fwrite(data, 1, len, stdout);
}

static void cancel_it(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	print_output(cloister, id, stream, data, len, userdata);
	check(cloister_cancel(cloister, id), "cancel");
}

static void stream_and_cancel(struct cloister *cloister)
{
	struct cloister_tool_call tool_call = {.tool = "run_command", .on_output = print_output};
	struct cloister_message *reply;
	char heard[] = "heard";
	void *data;
	size_t len;

	tool_call.arguments = "{\"command\": \"echo out; until [ -e heard ]; do sleep 0.05; done; "
			      "echo err >&2; exit 3\"}";
	tool_call.userdata = heard;
	check(cloister_call(cloister, &tool_call, &reply), "stream");
	check(cloister_get_bytes(reply, "/output/stdout", &data, &len), "stdout");
	printf("exit %s, %d bytes\n", cloister_get_json(reply, "/output/exit_code", false),
		(int)len);
	free(data);
	cloister_message_free(reply);

	tool_call.arguments = "{\"command\": \"echo started; sleep 600\", \"timeout_ms\": 500000}";
	tool_call.on_output = cancel_it;
	tool_call.userdata = NULL;
	check(cloister_call(cloister, &tool_call, &reply), "cancel");
	printf("cancelled %d\n", cloister_error(reply) == CLOISTER_ERROR_CANCELLED);
	cloister_message_free(reply);

	tool_call.arguments = "{\"command\": \"sleep 600\"}";
	tool_call.on_output = NULL;
	tool_call.timeout_ms = 300;
	check(cloister_call(cloister, &tool_call, &reply), "deadline");
	printf("deadline %d\n", cloister_error(reply) == CLOISTER_ERROR_TIMEOUT);
	cloister_message_free(reply);
}

/* The first call cannot end before the last one has begun. */
static void concurrently(struct cloister *cloister)
{
	struct cloister_tool_call tool_call = {.tool = "run_command"};
	struct cloister_message *reply;
	int64_t ids[2];

	tool_call.arguments = "{\"command\": \"until [ -e go ]; do sleep 0.05; done; echo first\"}";
	check(cloister_start_call(cloister, &tool_call, &ids[0]), "start");
	tool_call.arguments = "{\"command\": \"touch go; echo second\"}";
	check(cloister_start_call(cloister, &tool_call, &ids[1]), "start");
	for (int i = 1; i >= 0; i--) {
		check(cloister_wait(cloister, ids[i], -1, &reply), "wait");
		printf("%s", cloister_get_string(reply, "/output/stdout", NULL));
		cloister_message_free(reply);
	}
}

int main(int argc, char **argv)
{
	struct cloister *cloister, *other = NULL;
	pid_t service = 0;
	int status;

	if (argc < 3)
		return 2;
	check(chdir(argv[2]), "chdir");
	cloister = open_at(argv[1], argv[2], &service);
	if (argc > 3) {
		other = open_at(argv[1], argv[3], &service);
		use_files(cloister, other);
	}
	stream_and_cancel(cloister);
	concurrently(cloister);
	cloister_close(other);
	cloister_close(cloister);
	if (service > 0 && waitpid(service, &status, 0) == service)
		printf("service ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return 0;
}
