// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client: requests for a port of a sandbox. They are not served
 * yet; a client is told whether the sandbox is there.
 */

#include "common/cleanup.h"
#include "gate/e2b/data.h"
#include "gate/e2b/sandbox.h"
#include "gate/face.h"
#include "gate/request.h"

static void refuse(struct op *op)
{
	if (sandbox_admits_traffic(op))
		op_fail(op, 501, "unimplemented", "The ports of a sandbox are not served");
	else
		op_fail(op, 403, "permission_denied", "The port needs a traffic access token");
}

static void answer_port(struct gate_request *request)
{
	data_begin_open(request, refuse);
}

static const struct gate_route routes[] = {
	{"*", "/", answer_port, .max_body = 0, .access = GATE_ACCESS_OWN},
	{"*", "/{path...}", answer_port, .max_body = 0, .access = GATE_ACCESS_OWN},
};

const struct gate_face face_e2b_ports = {
	"e2b ports", .takes = data_takes_port, .routes = routes, .n_routes = ARRAY_SIZE(routes)};
