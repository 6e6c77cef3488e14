// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client: the ports of sandboxes, by a host PORT-ID.DOMAIN, by
 * the headers with which E2B's clients name a sandbox, and by the path /ports/ID/PORT/. Under
 * PORT-ID.DOMAIN each server is a separate origin and answers CORS requests itself.
 */
#include "common/cleanup.h"
#include "gate/e2b/data.h"
#include "gate/e2b/sandbox.h"
#include "gate/e2b/target.h"
#include "gate/face.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/ports/exchange.h"
#include "gate/request.h"

#include <stdio.h>

static void forward_to_port(struct op *op)
{
	char host[EXCHANGE_HOST_BYTES];

	if (!sandbox_admits_traffic(op)) {
		op_fail(op, 403, "permission_denied",
			"The port needs the sandbox's token in e2b-traffic-access-token");
		return;
	}
	sandbox_mask_host(op->sandbox, exchange_port(op), host, sizeof(host));
	exchange_begin(op, host);
}

/* The target is copied into the request to the server. */
static bool is_target(const char *target)
{
	for (; *target; target++)
		if (*target <= ' ' || *target >= 0x7f)
			return false;
	return true;
}

static void begin_exchange(
	struct gate_request *request, const struct target *target, const struct exchange_to *to)
{
	struct op *op = op_new(request, OP_REST);

	if (!op || !exchange_new(op, to))
		return;
	if (is_target(to->target))
		sandbox_find(op, target->id, forward_to_port);
	else
		op_fail(op, 400, "invalid_argument", "The path has a byte that must be escaped");
}

static bool takes_host(const struct gate_request *request)
{
	struct target target;

	return target_of_host(text_from(gate_request_host(request)),
		text_from(gate_request_gate(request)->config->domain), &target);
}

static void answer_named(struct gate_request *request)
{
	struct target target;

	if (data_target(request, &target))
		begin_exchange(request, &target,
			&(struct exchange_to){.target = gate_request_target(request),
				.port = target.port,
				.has_name = takes_host(request)});
}

/* Where the server's own path begins: behind "/ports/ID/PORT". */
static const char *rest_of(const char *target)
{
	for (unsigned n = 0; n < 3; n++)
		target += 1 + strcspn(target + 1, "/?");
	return target;
}

static void answer_path(struct gate_request *request)
{
	struct text port = text_from(gate_request_segment(request, "port"));
	struct target target;
	struct exchange_to to = {
		.target = rest_of(gate_request_target(request)), .shares_origin = true};

	if (!target_of_headers(text_from(gate_request_segment(request, "id")), port, 0, &target)) {
		gate_answer_error(request, 404, "there is no such path");
		return;
	}
	to.port = target.port;
	snprintf(to.prefix, sizeof(to.prefix), "/ports/%.*s/%u", SANDBOX_ID_LETTERS, target.id.data,
		target.port);
	begin_exchange(request, &target, &to);
}

/* Relative links of a page are right only below a path that ends with a slash. */
static void answer_bare(struct gate_request *request)
{
	const char *target = gate_request_target(request), *rest = rest_of(target);
	char *location;

	if (asprintf(&location, "%.*s/%s", (int)(rest - target), target, rest) < 0) {
		gate_answer_error(request, 503, "memory is out");
		return;
	}
	gate_answer_header(request, "Location", location);
	gate_answer_bytes(request, 308, "text/plain", TEXT_LITERAL(""));
	free(location);
}

#define ALL .max_body = GATE_BODY_STREAM, .access = GATE_ACCESS_OWN

/* These come behind those of the data plane, which has one of the ports. */
static const struct gate_route host_routes[] = {{"*", "/*", answer_named, ALL, .relayed = true}};
static const struct gate_route header_routes[] = {{"*", "/*", answer_named, ALL}};
static const struct gate_route path_routes[] = {
	{"*", "/ports/{id}/{port}", answer_bare, ALL},
	{"*", "/ports/{id}/{port}/", answer_path, ALL},
	{"*", "/ports/{id}/{port}/{path...}", answer_path, ALL},
};

extern const struct gate_face face_ports_host, face_ports_header, face_ports_path;
const struct gate_face face_ports_host = {
	"ports", .takes = takes_host, .routes = host_routes, .n_routes = ARRAY_SIZE(host_routes)};
const struct gate_face face_ports_header = {"ports", .takes = data_takes_port,
	.routes = header_routes, .n_routes = ARRAY_SIZE(header_routes)};
const struct gate_face face_ports_path = {
	"ports", .routes = path_routes, .n_routes = ARRAY_SIZE(path_routes)};
