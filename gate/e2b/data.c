// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. */

#include "gate/e2b/data.h"

#include "common/base64.h"
#include "common/cleanup.h"
#include "gate/e2b/sandbox.h"
#include "gate/e2b/target.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/request.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define ENVD_PORT     49983
#define HOME          "/home/user"
#define KEEPALIVE_MAX 3600

bool data_target(const struct gate_request *request, struct target *ret)
{
	const struct gate *gate = gate_request_gate(request);
	const char *id = gate_request_header(request, "E2b-Sandbox-Id");
	const char *port = gate_request_header(request, "E2b-Sandbox-Port");

	if (target_of_host(
		    text_from(gate_request_host(request)), text_from(gate->config->domain), ret))
		return true;
	return id && target_of_headers(text_from(id), text_from(port), ENVD_PORT, ret);
}

bool data_takes(const struct gate_request *request)
{
	struct target target;

	return data_target(request, &target) && target.port == ENVD_PORT;
}

bool data_takes_port(const struct gate_request *request)
{
	struct target target;

	return data_target(request, &target) && target.port != ENVD_PORT;
}

static void find_data_target(struct op *op, void (*then)(struct op *op))
{
	struct target target;

	if (data_target(op->request, &target))
		sandbox_find(op, target.id, then);
	else
		op_fail(op, 404, "not_found", "No sandbox is named");
}

static void collect(struct op *op)
{
	if (sandbox_admits(op))
		op_collect(op);
	else
		gate_request_denied(op->request);
}

/* The body waits until the token was checked: a client without one costs no memory for it. */
static void begin_call(struct gate_request *request, enum op_form form)
{
	struct op *op = op_new(request, form);

	if (op) {
		op_hold_body(op);
		find_data_target(op, collect);
	}
}

void data_begin(struct gate_request *request)
{
	begin_call(request, OP_RPC);
}

void data_begin_stream(struct gate_request *request)
{
	begin_call(request, OP_RPC_STREAM);
}

void data_begin_open(struct gate_request *request)
{
	struct op *op = op_new(request, OP_REST);

	if (op)
		find_data_target(op, op_act);
}

struct text data_user(const struct op *op, char buffer[static 64])
{
	const char *value = gate_request_header(op->request, "Authorization");
	struct text encoded, user;
	size_t len;

	if (value == NULL || strncmp(value, "Basic ", 6) != 0)
		return (struct text){0};
	encoded = text_from(value + 6);
	if (base64_decoded_size(encoded.len) > 64 || base64_decode(encoded, buffer, &len) < 0)
		return TEXT_LITERAL("?");
	user = (struct text){buffer, len};
	return text_take(&user, ':');
}

bool data_user_fits(struct op *op, struct text user)
{
	if (user.len == 0 || text_equal(user, TEXT_LITERAL("user")))
		return true;
	if (text_equal(user, TEXT_LITERAL("root")) && sandbox_has_root(op->sandbox))
		return true;
	op_fail(op, 401, "unauthenticated", "%s",
		text_equal(user, TEXT_LITERAL("root")) ? "This sandbox has no user root: its "
							 "tenant has no root_inside, or it is no "
							 "whole root file system"
						       : "This sandbox has no such user");
	return false;
}

bool data_path(struct op *op, struct text path, char ret_path[static 4097])
{
	char joined[4097];
	int n;

	if (path.len > 0 && path.data[0] == '~' && (path.len == 1 || path.data[1] == '/')) {
		path.data++;
		path.len--;
		while (path.len > 0 && path.data[0] == '/') {
			path.data++;
			path.len--;
		}
	}
	if (path.len > 4096 || text_has_nul(path)) {
		op_fail(op, 400, "invalid_argument", "The path is too long, or has a NUL");
		return false;
	}
	if (path.len > 0 && path.data[0] == '/')
		n = snprintf(joined, sizeof(joined), "%.*s", (int)path.len, path.data);
	else
		n = snprintf(joined, sizeof(joined), HOME "/%.*s", (int)path.len, path.data);
	if (n < 0 || (size_t)n >= sizeof(joined)) {
		op_fail(op, 400, "invalid_argument", "The path is too long");
		return false;
	}
	path_clean(joined, ret_path);
	return true;
}

static int64_t header_number(const struct op *op, const char *name, int64_t max)
{
	const char *value = gate_request_header(op->request, name);
	char *end;
	long long number;

	if (value == NULL || value[0] < '0' || value[0] > '9')
		return 0;
	number = strtoll(value, &end, 10);
	return *end == '\0' && number > 0 ? (number < max ? number : max) : 0;
}

int64_t data_deadline(const struct op *op)
{
	return header_number(op, "Connect-Timeout-Ms", 9999999999);
}

int64_t data_keepalive(const struct op *op)
{
	int64_t seconds = header_number(op, "Keepalive-Ping-Interval", KEEPALIVE_MAX);

	return (seconds > 0 ? seconds : 90) * 1000;
}

/* Health asks cloisterd each time: the lease may have ended, or another gate paused it. */
static void healthy(struct op *op, const struct cloister_message *reply)
{
	if (sandbox_row_runs(op, reply)) {
		op_answer(op, 204, NULL);
		return;
	}
	sandbox_forget(op->sandbox);
	sandbox_answer_gone(op);
}

void data_health(struct op *op)
{
	sandbox_ask_row(op, healthy);
}
