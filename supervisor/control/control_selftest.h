/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The self-test as the control socket shows it. */

struct evbuffer;
struct json_text;
struct jsonrpc_request;
struct selftest;
struct session;

/** The method: begins a run, and answers at its end. */
void control_selftest(struct session *session, struct jsonrpc_request *request);

/** A run has ended: tells who waits for it and who watches. */
void control_selftest_ended(const struct selftest *selftest);

/** @session is gone and waits for nothing any more. */
void control_selftest_leave(struct session *session);

/** The member "selftest" of status. */
void control_selftest_put(struct json_text *json, const struct selftest *selftest);

/** Its metrics. */
void control_selftest_metrics(struct evbuffer *out, const struct selftest *selftest);
