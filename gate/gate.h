/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* State that all parts of the gate share. */

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct gate_config;
struct gate_failures;
struct gate_keys;
struct gate_server;
struct http_loop;

/* What /metrics shows (face_gate.c has names and texts). */
enum gate_count {
	GATE_CONNECTIONS,
	GATE_CONNECTIONS_REFUSED,
	GATE_CONNECTIONS_OVER_SHARE,
	GATE_REQUESTS,
	GATE_HEADS_REFUSED,
	GATE_KEYS_REFUSED,
	GATE_KEYS_LIMITED,
	GATE_LOOKUPS_EMPTY,
	GATE_LOOKUPS_REFUSED,
	GATE_REQUESTS_LOST,
	GATE_REQUESTS_REVOKED,
	GATE_MCP_RESUMED,
	GATE_MCP_NOT_RESUMED,
	GATE_LINKS,
	GATE_LINKS_FAILED,
	GATE_BYTES_IN,
	GATE_BYTES_OUT,
	GATE_COUNTS
};

struct gate {
	struct event_base *base;
	const struct gate_config *config;
	struct gate_keys *keys;
	struct gate_failures *failures;
	struct gate_server *server;
	struct http_loop *http; /* to servers of workspaces */
	uint64_t counts[GATE_COUNTS];
	uint64_t connections, requests, links; /* now */
};

/** Writes a line to stderr, which has no text of a client's but what @format shows escaped. */
void gate_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
