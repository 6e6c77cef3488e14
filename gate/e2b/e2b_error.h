/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What cloisterd's refusals are for E2B's clients: a status of HTTP, and a code of the Connect
 * protocol, from which the clients make their own exceptions. Pure functions.
 */

#include "libcloister/cloister.h"

struct e2b_error {
	unsigned status;  /* of a REST answer */
	const char *code; /* of a Connect answer */
};

/** Returns what @error is for a client. */
struct e2b_error e2b_error_of(enum cloister_error error);

/** Returns what a refusal of cloisterd's is: parameters that it does not take are the client's. */
struct e2b_error e2b_error_of_reply(const struct cloister_message *reply);

/** Returns the status that an answer to a unary request of Connect has with the code @code. */
unsigned e2b_error_connect_status(const char *code);
