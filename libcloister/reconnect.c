// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the program that uses the library. A call that may change something gets a key, so that
 * it can be repeated on a new connection: the service runs it at most once. The new connection has
 * the old one's descriptor, and its socket is trusted for the same reason.
 */
#include "libcloister/reconnect.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "libcloister/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define REPEATS          3 /* of a call, each after a lost connection */
#define FIRST_PAUSE_MS   50
#define LONGEST_PAUSE_MS 2000
#define KEY_WAIT_MS      10000 /* how much longer than the client a call waits for it */
#define KEY_RANDOM_BYTES 16

static_assert(2 * KEY_RANDOM_BYTES + 1 == sizeof(((struct cloister *)0)->needless_key),
	"a key is its random bytes in hexadecimal");

int cloister_set_reconnect(struct cloister *cloister, int64_t patience_ms)
{
	if (patience_ms < 0 || patience_ms > LIMIT_COMMAND_MAX_MS ||
		(patience_ms > 0 && !cloister->path))
		return -EINVAL;
	cloister->patience_ms = patience_ms;
	return 0;
}

void reconnect_forget_workspace(struct cloister *cloister)
{
	free(TAKE_PTR(cloister->workspace));
	cloister->keeps_keys = false;
	cloister->needless_key[0] = '\0';
}

void reconnect_note_workspace(
	struct cloister *cloister, const char *workspace, const struct cloister_message *reply)
{
	int64_t horizon;

	reconnect_forget_workspace(cloister);
	if (!cloister_succeeded(reply))
		return;
	cloister->workspace = strdup(workspace);
	cloister->keeps_keys =
		cloister->workspace && cloister_get_int64(reply, "/key_horizon_ms", &horizon) == 0;
}

bool reconnect_wants_key(const struct cloister *cloister, const struct cloister_tool_call *call)
{
	static const char reads[][16] = {"read_file", "list_directory", "search_files"};
	static const char against[][16] = {
		"key", "forget_key", "stdin_stream", "keep_output", "transaction"};
	struct json_object *options = NULL;
	bool wanted = cloister->patience_ms > 0 && cloister->keeps_keys && !call->workspace;

	for (size_t i = 0; wanted && call->tool && i < ARRAY_SIZE(reads); i++)
		wanted = strcmp(call->tool, reads[i]) != 0;
	if (wanted && call->options &&
		(object_read(call->options, strlen(call->options), &options) < 0 ||
			!json_object_is_type(options, json_type_object)))
		wanted = false; /* the call says what is wrong with it */
	for (size_t i = 0; wanted && i < ARRAY_SIZE(against); i++)
		wanted = !json_object_object_get_ex(options, against[i], NULL);
	json_object_put(options);
	return wanted;
}

/* Makes the options of @call with a new key. Returns them, or NULL. */
static struct json_object *options_with_key(const struct cloister *cloister,
	const struct cloister_tool_call *call, char key[static 2 * KEY_RANDOM_BYTES + 1])
{
	const char *text = call->options ? call->options : "{}";
	int64_t most = LIMIT_COMMAND_MAX_MS - KEY_WAIT_MS;
	int64_t wait_ms =
		(cloister->patience_ms < most ? cloister->patience_ms : most) + KEY_WAIT_MS;
	struct json_object *options = NULL;
	unsigned char bytes[KEY_RANDOM_BYTES];
	int r = object_read(text, strlen(text), &options);

	if (r == 0 && getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		r = -EIO;
	for (size_t i = 0; r == 0 && i < sizeof(bytes); i++)
		snprintf(key + 2 * i, 3, "%02x", bytes[i]);
	if (r == 0)
		r = json_add(options, "key", json_object_new_string(key));
	if (r == 0)
		r = json_add(options, "key_wait_ms", json_object_new_int64(wait_ms));
	if (r == 0 && cloister->needless_key[0])
		r = json_add(options, "forget_key", json_object_new_string(cloister->needless_key));
	if (r == 0)
		return options;
	json_object_put(options);
	return NULL;
}

/*
 * Whether a function's @error says that the connection is lost, and no more. After -ECANCELED
 * @cloister does not exist any more: a handler has closed it.
 */
static bool is_lost(const struct cloister *cloister, int error)
{
	return error < 0 && error != -ECANCELED && error == cloister->error && error != -EBADMSG &&
	       error != -EMSGSIZE && error != -EPROTO && error != -ENOMEM;
}

/* Gives @cloister a new connection in the place of the one that has ended. Returns 0 or -errno. */
static int connect_again(struct cloister *cloister)
{
	struct cloister *fresh = NULL;
	int r = connection_open(cloister->path, cloister->found, &fresh);

	if (r < 0)
		return r;
	r = dup3(fresh->fd, cloister->fd, O_CLOEXEC) < 0 ? -errno : 0;
	cloister_close(fresh);
	if (r < 0)
		return r;
	requests_lose(cloister);
	buffer_consume(&cloister->in, buffer_used(&cloister->in));
	buffer_consume(&cloister->out, buffer_used(&cloister->out));
	cloister_message_free(TAKE_PTR(cloister->refusal));
	cloister->scanned = 0;
	cloister->payload.left = 0;
	cloister->payloads = PAYLOADS_UNKNOWN;
	cloister->send_failed = cloister->retiring = false;
	cloister->error = 0;
	return 0;
}

/*
 * Connects and opens the workspace again. Returns 0; -EAGAIN if that may be possible later;
 * -ECONNRESET if calls cannot be repeated; -ECANCELED if a handler has closed the connection.
 */
static int attempt(struct cloister *cloister)
{
	_cleanup_free_ char *workspace = strdup(cloister->workspace);
	struct cloister_message *reply = NULL;
	enum cloister_error error;
	int r = workspace ? connect_again(cloister) : -ENOMEM;
	int64_t id = 0;

	if (r == 0)
		r = cloister_start_workspace(cloister, workspace, NULL, NULL, &id);
	if (r == 0)
		r = cloister_wait(cloister, id, LIMIT_CLIENT_CONNECT_MS, &reply);
	if (r == -ECANCELED)
		return r;
	error = r == 0 ? cloister_error(reply) : CLOISTER_ERROR_NONE;
	if (r < 0 || error == CLOISTER_ERROR_BUSY || error == CLOISTER_ERROR_SHUTTING_DOWN) {
		/* A late answer must not meet the next attempt. */
		cloister->error = cloister->error ? cloister->error : -ECONNRESET;
		free(cloister->workspace);
		cloister->workspace = TAKE_PTR(workspace);
		r = -EAGAIN;
	} else {
		reconnect_note_workspace(cloister, workspace, reply);
		r = cloister->keeps_keys ? 0 : -ECONNRESET;
	}
	cloister_message_free(reply);
	return r;
}

static int reconnect(struct cloister *cloister)
{
	const int64_t deadline_ms = connection_now_ms() + cloister->patience_ms;
	int64_t pause_ms = FIRST_PAUSE_MS;
	int r;

	while ((r = attempt(cloister)) == -EAGAIN && connection_now_ms() < deadline_ms) {
		const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};

		nanosleep(&pause, NULL);
		pause_ms = 2 * pause_ms < LONGEST_PAUSE_MS ? 2 * pause_ms : LONGEST_PAUSE_MS;
	}
	return r;
}

/*
 * Whether the service has not begun the call, whose answer is @reply, because another process takes
 * its place. The answer is freed then.
 */
static bool is_retired(const struct cloister *cloister, struct cloister_message **reply)
{
	if (!cloister->retiring || cloister->requests ||
		cloister_error(*reply) != CLOISTER_ERROR_BUSY)
		return false;
	cloister_message_free(TAKE_PTR(*reply));
	return true;
}

int reconnect_call(struct cloister *cloister, const struct cloister_tool_call *call,
	struct cloister_message **ret_reply)
{
	char key[2 * KEY_RANDOM_BYTES + 1];
	struct json_object *options = options_with_key(cloister, call, key);
	struct cloister_tool_call keyed = *call;
	int64_t id = 0;
	int r = -ENOMEM, again;

	keyed.options =
		options ? json_object_to_json_string_ext(options, JSON_C_TO_STRING_PLAIN) : NULL;
	for (int left = REPEATS; keyed.options; left--) {
		r = cloister_start_call(cloister, &keyed, &id);
		if (r == 0)
			r = cloister_wait(cloister, id, -1, ret_reply);
		if (left == 0 ||
			!(is_lost(cloister, r) || (r == 0 && is_retired(cloister, ret_reply))))
			break;
		again = reconnect(cloister);
		if (again < 0 && r == 0)
			r = cloister->error ? cloister->error : -ECONNRESET;
		if (again == -ECANCELED)
			r = again;
		if (again < 0)
			break;
	}
	json_object_put(options);
	if (r == 0)
		memcpy(cloister->needless_key, key, sizeof(key));
	return r;
}
