/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The self-test on the control socket. */

struct json_text;
struct jsonrpc_request;
struct metrics_text;
struct selftest;
struct client;

/** The method: begins a run, and answers at its end. */
void control_selftest(struct client *client, struct jsonrpc_request *request);

/**
 * A run has ended: answers the clients that wait for it, and sends an event to watchers.
 */
void control_selftest_ended(const struct selftest *selftest);

/** @client is gone and no longer waits. */
void control_selftest_leave(struct client *client);

/** Writes the member "selftest" of status. */
void control_selftest_put(struct json_text *json, const struct selftest *selftest);

/** Writes its metrics. */
void control_selftest_metrics(const struct metrics_text *out, const struct selftest *selftest);
