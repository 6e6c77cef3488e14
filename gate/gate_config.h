/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* gate.conf: the section [gate]. cloister-gate(8) has the keys. Read once, at the start. */

#include "common/config/lists.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum gate_tls { GATE_TLS_NO, GATE_TLS_CERTIFICATE, GATE_TLS_PROXY };

struct gate_address {
	struct sockaddr_storage storage;
	socklen_t len;
	bool is_unix, is_loopback;
	char text[120]; /* as it was written */
};

struct gate_addresses {
	struct gate_address *items;
	size_t count;
};

struct gate_config {
	struct gate_addresses listen, tls_proxy;
	enum gate_tls tls;
	char *tls_certificate, *tls_key; /* files */
	char *agent_socket, *keys;       /* paths */
	/* Whose JSON Web Tokens are taken; jwt_keys NULL: none are. */
	char *jwt_keys, *jwt_issuer, *jwt_audience, *jwt_tenant;
	char *domain; /* hosts PORT-ID.DOMAIN are the gate's; NULL: none are */
	struct string_list hosts, origins;
	uint64_t connections, connections_per_address;
	uint64_t failed_keys; /* of one address in a minute */
	uint64_t head_ms;     /* between requests, and for a head */
	uint64_t idle_ms;     /* without a byte, while one is awaited */
};

/** Reads @path; mistakes have been reported to stderr when it returns -EINVAL. */
int gate_config_read(const char *path, struct gate_config *ret);
void gate_config_done(struct gate_config *config);

bool gate_address_is_loopback(const struct sockaddr_storage *storage);

/** Whether a request for @host is for the gate. */
bool gate_config_has_host(const struct gate_config *config, const char *host);
/** Whether a browser's page of @origin may use the gate that it reached as @host_header. */
bool gate_config_has_origin(
	const struct gate_config *config, const char *origin, const char *host_header);
