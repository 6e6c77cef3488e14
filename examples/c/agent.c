// SPDX-License-Identifier: Apache-2.0
/*
 * A small agent for Ollama whose tools run in a cloister workspace, in one event loop of libevent.
 * usage: agent DIRECTORY PROMPT. Built by itself:
 *   cc agent.c $(pkg-config --cflags --libs libcloister libevent_core libevent_extra json-c)
 */
#include <cloister.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ROUNDS 25

struct agent {
	struct event_base *base;
	struct cloister *cloister;
	struct event *readable, *writable; /* watch the descriptor of the cloister connection */
	struct evhttp_connection *model;
	struct evhttp_uri *uri;
	struct json_object *tools;
	struct json_object *messages;
	/* tool calls of the model's last message, borrowed from messages */
	struct json_object *calls;
	size_t next_call;
	int rounds;
	int status; /* exit status; -1 while the program runs */
};

static void ask_model(struct agent *agent);

/* Ends the program, with a complaint unless @complaint is NULL. */
static void finish(struct agent *agent, const char *complaint)
{
	if (complaint)
		fprintf(stderr, "agent: %s\n", complaint);
	agent->status = complaint ? 1 : 0;
	event_base_loopbreak(agent->base);
}

static struct json_object *member(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) ? value : NULL;
}

/*
 * Watches for the events that libcloister waits for now. Call it after a request has been started.
 */
static void watch(struct agent *agent)
{
	short events = cloister_events(agent->cloister);

	if (events & POLLIN)
		event_add(agent->readable, NULL);
	else
		event_del(agent->readable);
	if (events & POLLOUT)
		event_add(agent->writable, NULL);
	else
		event_del(agent->writable);
}

static void on_event(evutil_socket_t fd, short what, void *context)
{
	struct agent *agent = context;
	int r = cloister_dispatch(agent->cloister);

	(void)fd;
	(void)what;
	if (r < 0 && agent->status < 0)
		finish(agent, strerror(-r));
	watch(agent);
}

/* Whether the request succeeded; ends the program if not. */
static int has_worked(struct agent *agent, int error, const struct cloister_message *reply)
{
	if (error == 0 && cloister_succeeded(reply))
		return 1;
	finish(agent, error < 0 ? strerror(-error) : cloister_error_message(reply));
	return 0;
}

static void call_next(struct agent *agent);

/* Makes the message that goes back to the model, also for a tool that failed. */
static void on_tool_message(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *context)
{
	struct agent *agent = context;

	(void)cloister;
	(void)id;
	if (!has_worked(agent, error, reply))
		return;
	json_object_array_add(
		agent->messages, json_tokener_parse(cloister_get_json(reply, "", false)));
	call_next(agent);
}

static void call_next(struct agent *agent)
{
	struct cloister_tool_call call = {
		.options = "{\"reply\": \"message\"}",
		.on_reply = on_tool_message,
		.userdata = agent,
	};
	int r;

	if (agent->next_call == json_object_array_length(agent->calls)) {
		ask_model(agent);
		return;
	}
	call.tool_call = json_object_to_json_string(
		json_object_array_get_idx(agent->calls, agent->next_call++));
	r = cloister_start_call(agent->cloister, &call, NULL);
	if (r < 0)
		finish(agent, strerror(-r));
	watch(agent);
}

static struct json_object *parse_body(struct evhttp_request *http)
{
	struct evbuffer *body = evhttp_request_get_input_buffer(http);

	evbuffer_add(body, "", 1);
	return json_tokener_parse((const char *)evbuffer_pullup(body, -1));
}

static void on_model(struct evhttp_request *http, void *context)
{
	struct agent *agent = context;
	struct json_object *body, *message;

	if (!http || evhttp_request_get_response_code(http) != HTTP_OK) {
		finish(agent, "the model's server does not answer as it should");
		return;
	}
	body = parse_body(http);
	message = member(body, "message");
	if (!message) {
		finish(agent, "the model's server sent no message");
	} else {
		json_object_array_add(agent->messages, json_object_get(message));
		agent->calls = member(message, "tool_calls");
		agent->next_call = 0;
		if (agent->calls && json_object_array_length(agent->calls) > 0) {
			call_next(agent);
		} else {
			puts(json_object_get_string(member(message, "content")));
			finish(agent, NULL);
		}
	}
	json_object_put(body);
}

static void ask_model(struct agent *agent)
{
	const char *model = getenv("MODEL");
	struct json_object *body = json_object_new_object();
	struct evhttp_request *http = evhttp_request_new(on_model, agent);
	struct evkeyvalq *headers = evhttp_request_get_output_headers(http);

	if (agent->rounds++ == ROUNDS) {
		finish(agent, "the model is not done after many rounds");
		evhttp_request_free(http);
		json_object_put(body);
		return;
	}
	json_object_object_add(body, "model", json_object_new_string(model ? model : "qwen3:4b"));
	json_object_object_add(body, "messages", json_object_get(agent->messages));
	json_object_object_add(body, "tools", json_object_get(agent->tools));
	json_object_object_add(body, "stream", json_object_new_boolean(0));
	evbuffer_add_printf(evhttp_request_get_output_buffer(http), "%s",
		json_object_to_json_string_ext(body, JSON_C_TO_STRING_PLAIN));
	evhttp_add_header(headers, "Host", evhttp_uri_get_host(agent->uri));
	evhttp_add_header(headers, "Content-Type", "application/json");
	evhttp_make_request(agent->model, http, EVHTTP_REQ_POST, "/api/chat");
	json_object_put(body);
}

static void on_tools(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *context)
{
	struct agent *agent = context;

	(void)cloister;
	(void)id;
	if (!has_worked(agent, error, reply))
		return;
	agent->tools = json_tokener_parse(cloister_get_json(reply, "/tools", false));
	ask_model(agent);
}

static void on_opened(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *context)
{
	static const char params[] = "{\"format\": \"ollama\"}";
	int r;

	(void)id;
	if (!has_worked(context, error, reply))
		return;
	r = cloister_start(cloister, "tools.list", params, on_tools, context, NULL);
	if (r < 0)
		finish(context, strerror(-r));
}

static int connect_cloister(struct agent *agent, const char *root)
{
	int fd;

	if (cloister_open(NULL, &agent->cloister) < 0) {
		fputs("agent: no cloisterd answers; start one with `cloisterd`, or "
		      "`systemctl --user enable --now cloister.socket`\n",
			stderr);
		return -1;
	}
	fd = cloister_fd(agent->cloister);
	agent->readable = event_new(agent->base, fd, EV_READ | EV_PERSIST, on_event, agent);
	agent->writable = event_new(agent->base, fd, EV_WRITE | EV_PERSIST, on_event, agent);
	if (cloister_start_workspace(agent->cloister, root, on_opened, agent, NULL) < 0)
		return -1;
	watch(agent);
	return 0;
}

/* Ollama takes OLLAMA_HOST without its scheme too, and then without its port. */
static int connect_model(struct agent *agent)
{
	const char *given = getenv("OLLAMA_HOST"), *host = given ? given : "";
	int port = strstr(host, "://") ? 80 : 11434;
	char url[1024];

	snprintf(url, sizeof(url), "%s%s%s", port == 80 ? "" : "http://",
		*host == ':' || *host == '\0' ? "127.0.0.1" : "", host);
	agent->uri = evhttp_uri_parse(url);
	if (!agent->uri || !evhttp_uri_get_host(agent->uri) ||
		strcmp(evhttp_uri_get_scheme(agent->uri), "http") != 0) {
		fprintf(stderr, "agent: OLLAMA_HOST is %s: this agent speaks http only\n", host);
		return -1;
	}
	if (evhttp_uri_get_port(agent->uri) > 0)
		port = evhttp_uri_get_port(agent->uri);
	agent->model = evhttp_connection_base_new(
		agent->base, NULL, evhttp_uri_get_host(agent->uri), port);
	/* libevent tries the first address only, and Ollama serves the IPv4 one */
	if (strcmp(evhttp_uri_get_host(agent->uri), "localhost") == 0)
		evhttp_connection_set_family(agent->model, AF_INET);
	/* the model may be slow on a small machine */
	evhttp_connection_set_timeout(agent->model, 600);
	return agent->model ? 0 : -1;
}

/* Sets the program up from its command line. */
static int begin(struct agent *agent, const char *directory, const char *prompt)
{
	struct json_object *message = json_object_new_object();
	char root[PATH_MAX];

	json_object_object_add(message, "role", json_object_new_string("user"));
	json_object_object_add(message, "content", json_object_new_string(prompt));
	json_object_array_add(agent->messages, message);
	if (!realpath(directory, root)) {
		perror(directory);
		return -1;
	}
	return connect_model(agent) < 0 ? -1 : connect_cloister(agent, root);
}

int main(int argc, char **argv)
{
	struct agent agent = {.status = -1};

	if (argc != 3) {
		fputs("usage: agent DIRECTORY PROMPT\n", stderr);
		return 2;
	}
	agent.base = event_base_new();
	agent.messages = json_object_new_array();
	if (begin(&agent, argv[1], argv[2]) == 0)
		event_base_dispatch(agent.base);
	if (agent.model)
		evhttp_connection_free(agent.model);
	if (agent.uri)
		evhttp_uri_free(agent.uri);
	if (agent.readable)
		event_free(agent.readable);
	if (agent.writable)
		event_free(agent.writable);
	cloister_close(agent.cloister);
	json_object_put(agent.messages);
	json_object_put(agent.tools);
	event_base_free(agent.base);
	return agent.status == 0 ? 0 : 1;
}
