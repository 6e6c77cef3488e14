// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate: what a face asks of a request, and does with its body. The client is
 * hostile until its key was checked, and after that a tenant.
 */
#include "gate/request.h"

#include "common/cleanup.h"
#include "common/monotonic.h"
#include "gate/face.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/keys.h"
#include "gate/request_state.h"
#include "gate/tenant_share.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <strings.h>

struct gate *gate_request_gate(const struct gate_request *request)
{
	return request->gate;
}

const char *gate_request_method(const struct gate_request *request)
{
	return request->head.method;
}

const char *gate_request_path(const struct gate_request *request)
{
	return request->path;
}

const char *gate_request_target(const struct gate_request *request)
{
	return request->target;
}

bool gate_request_is_https(const struct gate_request *request)
{
	return request->conn->is_tls || request->gate->config->tls == GATE_TLS_PROXY;
}

const char *gate_request_host(const struct gate_request *request)
{
	return request->host.text;
}

const struct gate_route *gate_request_route(const struct gate_request *request)
{
	return request->route;
}

const char *gate_request_segment(const struct gate_request *request, const char *name)
{
	return gate_segments_find(&request->segments, name);
}

const char *gate_request_query(struct gate_request *request, const char *name)
{
	const char *value = MHD_lookup_connection_value(request->mhd, MHD_GET_ARGUMENT_KIND, name);
	char *decoded;

	if (!value || request->n_decoded == ARRAY_SIZE(request->decoded))
		return NULL;
	decoded = strdup(value);
	if (decoded && !gate_percent_decode(decoded)) {
		free(decoded);
		return NULL;
	}
	request->decoded[request->n_decoded++] = decoded;
	return decoded;
}

const char *gate_request_header(const struct gate_request *request, const char *name)
{
	return gate_head_field(&request->head, name);
}

const struct gate_head *gate_request_head(const struct gate_request *request)
{
	return &request->head;
}

const struct gate_identity *gate_request_identity(const struct gate_request *request)
{
	return request->key ? &request->identity : NULL;
}

/* Whether the tenant of a valid key may have the connection; otherwise the request is answered. */
static bool join_tenant(struct gate_request *request, const char *tenant)
{
	struct gate *gate = request->gate;

	if (conn_share_join(&request->conn->share, tenant, gate_keys_are_shared(gate->keys),
		    gate->config->connections, gate->connections))
		return true;
	gate->counts[GATE_CONNECTIONS_OVER_SHARE]++;
	request->closes = true;
	gate_answer_header(request, "Retry-After", "1");
	gate_answer_error(request, 503,
		"this tenant holds too many connections: close some, or use them again");
	return false;
}

/* The request is by @key, which is valid; NULL: it is not. */
static const struct gate_identity *use_valid_key(
	struct gate_request *request, const struct gate_key *key)
{
	if (!key || request->key)
		return key ? gate_request_identity(request) : NULL;
	if (!join_tenant(request, key->tenant))
		return NULL;
	request->key = malloc(sizeof(*key));
	if (!request->key)
		return NULL;
	*request->key = *key;
	request->identity = (struct gate_identity){
		.tenant = request->key->tenant,
		.workspace = request->key->workspace[0] ? request->key->workspace : NULL,
		.key = request->key->id,
	};
	return &request->identity;
}

const struct gate_identity *gate_request_check_key(struct gate_request *request, struct text text)
{
	return use_valid_key(request, gate_keys_check(request->gate->keys, text));
}

const struct gate_key *gate_request_key(const struct gate_request *request)
{
	return request->key;
}

bool gate_request_uses_key(struct gate_request *request, const struct gate_key *key)
{
	request->token_key = *key;
	return join_tenant(request, key->tenant);
}

bool request_check_key(struct gate_request *request)
{
	static const struct text scheme = TEXT_LITERAL("Bearer ");
	const char *bearer = gate_request_header(request, "Authorization");
	const char *key = gate_request_header(request, "X-API-Key");
	struct text text = text_from(key);
	struct gate_key token;

	if (bearer && strncasecmp(bearer, scheme.data, scheme.len) == 0)
		text = text_from(bearer + scheme.len);
	else
		bearer = NULL;
	if (bearer && request->route->takes_token && !gate_key_is_text(text))
		return gate_keys_check_token(request->gate->keys, text, &token) &&
		       use_valid_key(request, &token);
	return text.data && gate_request_check_key(request, text);
}

static void say_denied(const struct gate_request *request, uint64_t failures)
{
	char address[2 * sizeof(request->peer.bytes) + 1];

	for (size_t i = 0; i < sizeof(request->peer.bytes); i++)
		snprintf(address + 2 * i, 3, "%02x", request->peer.bytes[i]);
	gate_say("key refused: address=%s in_this_minute=%llu%s", address,
		(unsigned long long)failures, failures > 1 ? ", more are not logged" : "");
}

/* Says where a token can be had (RFC 9728). The Host was checked: it is one of the gate's. */
static void add_challenge(struct gate_request *request)
{
	const char *error =
		gate_request_header(request, "Authorization") ? "error=\"invalid_token\", " : "";
	char value[512];

	if (!request->gate->config->jwt_keys || !request->route || !request->route->takes_token) {
		gate_answer_header(request, "WWW-Authenticate", "Bearer");
		return;
	}
	snprintf(value, sizeof(value),
		"Bearer %sresource_metadata=\"%s://%s" GATE_METADATA_PATH "%s\"", error,
		gate_request_is_https(request) ? "https" : "http",
		gate_request_header(request, "Host"), gate_request_path(request));
	gate_answer_header(request, "WWW-Authenticate", value);
}

void gate_request_denied(struct gate_request *request)
{
	struct gate *gate = request->gate;
	uint64_t failures;

	/* The key is valid, and its tenant holds too many connections. */
	if (request->answer != GATE_ANSWER_NONE)
		return;
	failures = gate_failures_count(gate->failures, &request->peer, (int64_t)monotonic_ms());
	gate->counts[GATE_KEYS_REFUSED]++;
	if (failures == 1 || failures == gate->config->failed_keys)
		say_denied(request, failures);
	if (failures > gate->config->failed_keys) {
		gate->counts[GATE_KEYS_LIMITED]++;
		gate_answer_header(request, "Retry-After", "60");
		gate_answer_error(request, 429, "too many keys that are none; try again later");
		return;
	}
	add_challenge(request);
	gate_answer_error(request, 401,
		"a valid key is needed: Authorization: Bearer KEY, or X-API-Key: KEY");
}

const struct gate_peer *gate_request_peer(const struct gate_request *request)
{
	return &request->peer;
}

void gate_request_set_context(struct gate_request *request, void *context)
{
	request->context = context;
}

void *gate_request_context(const struct gate_request *request)
{
	return request->context;
}

void gate_request_on_end(struct gate_request *request, void (*on_end)(struct gate_request *))
{
	request->on_end = on_end;
}

bool gate_request_is_lost(const struct gate_request *request)
{
	return request->lost;
}

void gate_request_drop(struct gate_request *request)
{
	request_lose(request);
}

void gate_request_collect(
	struct gate_request *request, void (*done)(struct gate_request *, struct text))
{
	request->collected = done;
	request->in = evbuffer_new();
	request->body = request->in ? GATE_BODY_COLLECT : GATE_BODY_DROP;
	if (!request->in)
		gate_answer_error(request, 503, "memory is out");
}

void gate_request_stream(struct gate_request *request, const struct gate_reader *reader)
{
	request->reader = reader;
	request->body = GATE_BODY_READ;
}

void gate_request_more(struct gate_request *request)
{
	request->wants_more = true;
	if (!request->body_over)
		request_wake(request);
}

void request_free(struct gate_request *request)
{
	if (!request)
		return;
	gate_segments_done(&request->segments);
	gate_answer_clear(request);
	for (size_t i = 0; i < request->n_decoded; i++)
		free(request->decoded[i]);
	if (request->in)
		evbuffer_free(request->in);
	if (request->out)
		evbuffer_free(request->out);
	free(request->fields);
	free(request->target);
	free(request->path);
	free(request->key);
	free(request);
}
