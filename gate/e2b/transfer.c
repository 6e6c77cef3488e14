// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. What downloads and uploads share. */

#include "gate/e2b/transfer.h"

#include "common/cleanup.h"
#include "gate/agent_link.h"
#include "gate/e2b/data.h"
#include "gate/e2b/facts.h"
#include "gate/e2b/sandbox.h"
#include "gate/request.h"

#include <json-c/json.h>
#include <stdlib.h>

static void opened(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	op->on_ready(op);
}

void transfer_open(struct op *op, void (*then)(struct op *op))
{
	op->on_ready = then;
	op->link = NULL;
	if (!op_open_link(op, &(struct gate_identity){.tenant = sandbox_tenant(op->sandbox),
				      .key = sandbox_id_of(op->sandbox).data}))
		return;
	op_ask(op, "workspace.open", sandbox_opening(op->sandbox), opened);
}

bool transfer_admits(struct op *op, const char *operation)
{
	struct text signature = text_from(gate_request_query(op->request, "signature"));
	struct text expiration = text_from(gate_request_query(op->request, "signature_expiration"));
	struct text path = text_from(gate_request_query(op->request, "path"));
	struct text user = text_from(gate_request_query(op->request, "username"));

	if (signature.len == 0) {
		if (!sandbox_admits(op)) {
			gate_request_denied(op->request);
			return false;
		}
	} else if (!sandbox_admits_url(
			   op, path, text_from(operation), user, expiration, signature)) {
		gate_request_denied(op->request);
		return false;
	} else if (expiration.len > 0 && strtoll(expiration.data, NULL, 10) < facts_now() / 1000) {
		op_fail(op, 401, "unauthenticated", "signature is already expired");
		return false;
	}
	return data_user_fits(op, user);
}
