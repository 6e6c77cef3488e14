/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of any size between a client and a sandbox. A transfer has a link of its own, so that it
 * can wait for the client without making other requests of the sandbox wait, and never holds more
 * than its window.
 */

#include "common/limits.h"
#include "gate/e2b/op.h"

#define TRANSFER_WINDOW (256 * KIB) /* bytes of an upload that cloisterd has not taken */
#define TRANSFER_MS     3600000     /* the longest that cloisterd allows a call */

/** Opens a link with the workspace of the op's sandbox in the sandbox's place. Calls @then. */
void transfer_open(struct op *op, void (*then)(struct op *op));

/**
 * Checks that the client may read or write (@operation) what the query names: by the access token
 * or by the signature of the URL. Returns false if the request has been answered.
 */
bool transfer_admits(struct op *op, const char *operation);
