/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A client that no tenant admits. It may send one request, is answered FORBIDDEN, and the
 * connection closes. It learns nothing else: neither which tenants and methods there are nor how
 * busy the service is.
 */

#include "supervisor/call/service.h"

#include <stdbool.h>

struct peer_credentials;

#define UNAUTHORIZED_CLIENT_MESSAGE "This user may not use this service"

/**
 * Waits for the request of the unauthorized client @peer at the connected socket *@fd, for at most
 * LIMIT_UNAUTHORIZED_MS. With @takes_fds the kernel does not refuse descriptors on that socket.
 * Returns 0 and takes the socket (*@fd is -1 then), or returns -ENOMEM.
 */
int unauthorized_client_new(
	struct service *service, const struct peer_credentials *peer, int *fd, bool takes_fds);

/** Closes all of them at once. */
void unauthorized_clients_close(void);
