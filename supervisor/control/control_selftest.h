/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The self-test as the control socket shows it. */

struct evbuffer;
struct json_text;
struct selftest;
struct session;

/** A run has ended: tells who waits for it and who watches. */
void control_selftest_ended(const struct selftest *selftest);

/** @session is gone and waits for nothing any more. */
void control_selftest_leave(struct session *session);

/** The member "selftest" of status. */
void control_selftest_put(struct json_text *json, const struct selftest *selftest);

/** Its metrics. */
void control_selftest_metrics(struct evbuffer *out, const struct selftest *selftest);
