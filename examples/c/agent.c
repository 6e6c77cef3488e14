// SPDX-License-Identifier: Apache-2.0
/*
 * A small agent for Ollama whose tools run in a cloister workspace, in one event loop of libevent.
 * usage: agent DIRECTORY PROMPT. Built by itself:
 *   cc agent.c $(pkg-config --cflags --libs libevent_core libevent_extra json-c)
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ROUNDS 25

struct agent {
	struct event_base *base;
	struct bufferevent *cloister;
	struct evhttp_connection *model;
	struct evhttp_uri *uri;
	/* What the next line of cloisterd's answers: one request is in flight at a time. */
	void (*answered)(struct agent *agent, struct json_object *result);
	struct json_object *tools;
	struct json_object *messages;
	struct json_object *calls; /* of the model's last message, borrowed from messages */
	size_t next_call;
	int rounds;
	int status;
};

static void ask_model(struct agent *agent);

/* The program is over, with a complaint if it is not NULL. */
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

/* Sends a request of JSON-RPC 2.0, one message a line. Takes @params. */
static void request(struct agent *agent, const char *method, struct json_object *params,
	void (*answered)(struct agent *agent, struct json_object *result))
{
	struct json_object *message = json_object_new_object();
	const char *line;

	json_object_object_add(message, "jsonrpc", json_object_new_string("2.0"));
	json_object_object_add(message, "id", json_object_new_int(1));
	json_object_object_add(message, "method", json_object_new_string(method));
	json_object_object_add(message, "params", params);
	line = json_object_to_json_string_ext(message, JSON_C_TO_STRING_PLAIN);
	agent->answered = answered;
	evbuffer_add_printf(bufferevent_get_output(agent->cloister), "%s\n", line);
	json_object_put(message);
}

static void on_answer(struct bufferevent *bufferevent, void *context)
{
	struct agent *agent = context;
	struct json_object *answer, *result;
	char *line;

	while ((line = evbuffer_readln(
			bufferevent_get_input(bufferevent), NULL, EVBUFFER_EOL_LF))) {
		answer = json_tokener_parse(line);
		free(line);
		result = member(answer, "result");
		if (result)
			agent->answered(agent, result);
		else
			finish(agent,
				json_object_get_string(member(member(answer, "error"), "message")));
		json_object_put(answer);
	}
}

static void on_cloister_event(struct bufferevent *bufferevent, short what, void *context)
{
	(void)bufferevent;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		finish(context, "no cloisterd, or it has closed the connection");
}

static void call_next(struct agent *agent);

/* The message that goes back to the model, also when the tool failed. */
static void on_tool_message(struct agent *agent, struct json_object *result)
{
	json_object_array_add(agent->messages, json_object_get(result));
	call_next(agent);
}

static void call_next(struct agent *agent)
{
	struct json_object *params, *options;

	if (agent->next_call == json_object_array_length(agent->calls)) {
		ask_model(agent);
		return;
	}
	options = json_object_new_object();
	json_object_object_add(options, "reply", json_object_new_string("message"));
	params = json_object_new_object();
	json_object_object_add(params, "tool_call",
		json_object_get(json_object_array_get_idx(agent->calls, agent->next_call++)));
	json_object_object_add(params, "options", options);
	request(agent, "tool.call", params, on_tool_message);
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

static void on_tools(struct agent *agent, struct json_object *result)
{
	agent->tools = json_object_get(member(result, "tools"));
	ask_model(agent);
}

static void on_opened(struct agent *agent, struct json_object *result)
{
	struct json_object *params = json_object_new_object();

	(void)result;
	json_object_object_add(params, "format", json_object_new_string("ollama"));
	request(agent, "tools.list", params, on_tools);
}

static int connect_cloister(struct agent *agent)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv("CLOISTER_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
	int n;

	if (path)
		n = snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	else
		n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/cloister/agent.sock",
			runtime ? runtime : "/run");
	if (n >= (int)sizeof(address.sun_path))
		return -1;
	agent->cloister = bufferevent_socket_new(agent->base, -1, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(agent->cloister, on_answer, NULL, on_cloister_event, agent);
	bufferevent_enable(agent->cloister, EV_READ | EV_WRITE);
	return bufferevent_socket_connect(
		agent->cloister, (struct sockaddr *)&address, sizeof(address));
}

static int connect_model(struct agent *agent)
{
	const char *host = getenv("OLLAMA_HOST");
	int port;

	agent->uri = evhttp_uri_parse(host ? host : "http://127.0.0.1:11434");
	if (!agent->uri || !evhttp_uri_get_host(agent->uri))
		return -1;
	port = evhttp_uri_get_port(agent->uri);
	agent->model = evhttp_connection_base_new(
		agent->base, NULL, evhttp_uri_get_host(agent->uri), port > 0 ? port : 80);
	evhttp_connection_set_timeout(agent->model, 600); /* small machines think slowly */
	return agent->model ? 0 : -1;
}

/* What the agent works with, from the command line. */
static int begin(struct agent *agent, const char *directory, const char *prompt)
{
	struct json_object *message = json_object_new_object(), *params = json_object_new_object();
	char root[PATH_MAX];

	json_object_object_add(message, "role", json_object_new_string("user"));
	json_object_object_add(message, "content", json_object_new_string(prompt));
	json_object_array_add(agent->messages, message);
	if (!realpath(directory, root) || connect_cloister(agent) < 0 || connect_model(agent) < 0) {
		json_object_put(params);
		return -1;
	}
	json_object_object_add(params, "root", json_object_new_string(root));
	json_object_object_add(params, "kind", json_object_new_string("directory"));
	request(agent, "workspace.open", params, on_opened);
	return 0;
}

int main(int argc, char **argv)
{
	struct agent agent = {.status = 1};

	if (argc != 3) {
		fputs("usage: agent DIRECTORY PROMPT\n", stderr);
		return 2;
	}
	agent.base = event_base_new();
	agent.messages = json_object_new_array();
	if (begin(&agent, argv[1], argv[2]) == 0)
		event_base_dispatch(agent.base);
	else
		fputs("agent: no such directory, or nothing to connect to\n", stderr);
	if (agent.model)
		evhttp_connection_free(agent.model);
	if (agent.uri)
		evhttp_uri_free(agent.uri);
	if (agent.cloister)
		bufferevent_free(agent.cloister);
	json_object_put(agent.messages);
	json_object_put(agent.tools);
	event_base_free(agent.base);
	return agent.status;
}
