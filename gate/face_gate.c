// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate: what the gate tells of itself. It names no tenant, workspace or key. */
#include "common/cleanup.h"
#include "gate/face.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/request.h"

#include <json-c/json_object.h>
#include <stdio.h>

static void health(struct gate_request *request)
{
	gate_answer_bytes(request, 200, "application/json", TEXT_LITERAL("{\"status\":\"ok\"}\n"));
}

static const struct {
	const char *name, *help;
} counts[GATE_COUNTS] = {
	[GATE_CONNECTIONS] = {"connections", "Connections accepted"},
	[GATE_CONNECTIONS_REFUSED] = {"connections_refused",
		"Connections refused for how many their address had, or as no proxy's"},
	[GATE_CONNECTIONS_OVER_SHARE] = {"connections_over_share",
		"Connections ended since their tenant holds as many as it leaves free"},
	[GATE_REQUESTS] = {"requests", "Requests whose head came"},
	[GATE_HEADS_REFUSED] = {"heads_refused", "Requests refused for their head"},
	[GATE_KEYS_REFUSED] = {"keys_refused", "Requests without a valid key"},
	[GATE_KEYS_LIMITED] = {"keys_limited", "Those answered 429"},
	[GATE_LOOKUPS_EMPTY] = {"lookups_empty", "Requests for a sandbox that was not found"},
	[GATE_LOOKUPS_REFUSED] = {"lookups_refused",
		"Those not looked up for what their address had asked for, or for how many waited"},
	[GATE_REQUESTS_LOST] = {"requests_lost", "Requests whose client left before the end"},
	[GATE_REQUESTS_REVOKED] = {"requests_revoked", "Requests ended since their key was"},
	[GATE_MCP_RESUMED] = {"mcp_streams_resumed", "Streams of MCP that clients resumed"},
	[GATE_MCP_NOT_RESUMED] = {"mcp_streams_not_resumed",
		"Those whose events were not kept any more"},
	[GATE_LINKS] = {"links", "Connections made to cloisterd"},
	[GATE_LINKS_FAILED] = {"links_failed", "Those that cloisterd refused or had no room for"},
	[GATE_BYTES_IN] = {"bytes_in", "Bytes of bodies that came"},
	[GATE_BYTES_OUT] = {"bytes_out", "Bytes of bodies that were answered"},
};

static void write_number(struct gate_request *request, const char *name, const char *suffix,
	const char *type, const char *help, uint64_t value)
{
	char line[512];
	int len = snprintf(line, sizeof(line),
		"# HELP cloister_gate_%s%s %s.\n# TYPE cloister_gate_%s%s %s\n"
		"cloister_gate_%s%s %llu\n",
		name, suffix, help, name, suffix, type, name, suffix, (unsigned long long)value);

	gate_answer_write(request, (struct text){line, (size_t)len});
}

static void metrics(struct gate_request *request)
{
	const struct gate *gate = gate_request_gate(request);

	gate_answer_header(request, "Content-Type", "text/plain; version=0.0.4");
	gate_answer_begin(request, 200, GATE_UNKNOWN);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		write_number(request, counts[i].name, "_total", "counter", counts[i].help,
			gate->counts[i]);
	write_number(request, "connections", "_open", "gauge", "Connections that are open",
		gate->connections);
	write_number(request, "requests", "_open", "gauge", "Requests that are not answered",
		gate->requests);
	write_number(request, "links", "_open", "gauge", "Connections to cloisterd", gate->links);
	gate_answer_end(request);
}

static struct json_object *one_of(const char *text)
{
	struct json_object *array = json_object_new_array();

	json_object_array_add(array, json_object_new_string(text));
	return array;
}

/* RFC 9728: which authorization server has tokens for the gate. */
static void metadata(struct gate_request *request)
{
	const struct gate_config *config = gate_request_gate(request)->config;
	struct json_object *object;

	if (!config->jwt_keys) {
		gate_answer_error(request, 404, "there is no such path");
		return;
	}
	object = json_object_new_object();
	json_object_object_add(object, "resource", json_object_new_string(config->jwt_audience));
	json_object_object_add(object, "authorization_servers", one_of(config->jwt_issuer));
	json_object_object_add(object, "bearer_methods_supported", one_of("header"));
	gate_answer_json(request, 200, object);
}

static const struct gate_route routes[] = {
	{"GET", GATE_METADATA_PATH, metadata, .access = GATE_ACCESS_OPEN},
	{"GET", GATE_METADATA_PATH "/mcp", metadata, .access = GATE_ACCESS_OPEN},
	{"GET", GATE_METADATA_PATH "/agent", metadata, .access = GATE_ACCESS_OPEN},
	{"GET", "/health", health, .access = GATE_ACCESS_OPEN},
	{"GET", "/metrics", metrics, .access = GATE_ACCESS_OPEN, .loopback = true},
};

extern const struct gate_face face_gate;
const struct gate_face face_gate = {"gate", NULL, routes, ARRAY_SIZE(routes)};
