/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The first message of a TLS client, of which only the name of the server is read: RFC 8446, 4.1.2;
 * RFC 6066, 3. Nothing is decrypted.
 */

#include "common/egress/host.h"

/**
 * Finds the server's name in @bytes, which begin a connection. Returns 1 with the host in @ret; 0
 * if bytes are missing, with the number of bytes that the next attempt needs in @ret_needed;
 * -EBADMSG if they are not TLS, or not a ClientHello as the RFCs have it; -E2BIG if it is longer
 * than LIMIT_EGRESS_HELLO_BYTES; -ENOENT if it names no server; -EINVAL if what it names is no
 * host.
 */
int client_hello_name(struct text bytes, size_t *ret_needed, struct host *ret);
