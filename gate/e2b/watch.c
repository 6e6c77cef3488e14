// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client: filesystem.Filesystem/WatchDir. */

#include "gate/e2b/data.h"

static void watch(struct op *op)
{
	op_fail(op, 501, "unimplemented", "Directories cannot be watched here yet");
}

void filesystem_watch(struct gate_request *request)
{
	data_begin(request, OP_RPC_STREAM, watch);
}
