/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The client's side of TLS to the host of a secret, by OpenSSL's libssl on a non-blocking socket.
 * tls.c is the only file that knows OpenSSL. TLS 1.2 at least; the host's certificate must be for
 * its name or address, and be signed by a trusted authority.
 */

#include "common/egress/host.h"

#include <sys/types.h>

struct tls_trust;
struct tls;

/** Returns the file of the system's certificates, or NULL if none is found. */
const char *tls_system_certificates(void);

/** Reads the certificates to trust from the file @path. Returns 0, -ENOMEM or -EINVAL. */
int tls_trust_new(const char *path, struct tls_trust **ret);
/** Connections that use it go on. NULL is allowed. */
void tls_trust_free(struct tls_trust *trust);

/** Begins TLS with @host on a connected socket, which stays the caller's. NULL: memory is out. */
struct tls *tls_new(const struct tls_trust *trust, const struct host *host, int fd);
/** Frees it, and all that was decrypted. NULL is allowed. */
void tls_free(struct tls *tls);

/*
 * Each of these returns -EAGAIN while it waits for the socket: to be writable if tls_wants_write(),
 * otherwise to be readable; and -EPROTO after a failure, which tls_failure() explains.
 */
/** Goes on with the handshake. Returns 1 when it is done and the host is who it should be. */
int tls_shake(struct tls *tls);
/** Returns the number of bytes read, at most @size; 0 if the host has said that it sends no more.
 */
ssize_t tls_read(struct tls *tls, void *buffer, size_t size);
/** Whether data has come, without reading it. Returns 1; 0 at the end; or as tls_read() does. */
int tls_peek(struct tls *tls);
/**
 * Returns the number of bytes that were sent, of @len, at least 1. After -EAGAIN the same bytes
 * come again, and no fewer.
 */
ssize_t tls_write(struct tls *tls, const void *data, size_t len);
/** Tells the host that nothing more comes, if that is possible at once. */
void tls_close(struct tls *tls);

bool tls_wants_write(const struct tls *tls);
/** Whether decrypted data waits here, for which the socket does not become readable. */
bool tls_has_more(const struct tls *tls);
/** Writes why it failed, in words of OpenSSL and never of the host. */
void tls_failure(const struct tls *tls, char *ret, size_t size);
