/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Maps cloisterd's refusals to an HTTP status and a code of the Connect protocol, from which E2B's
 * clients make exceptions. Pure functions.
 */

#include "libcloister/cloister.h"

struct e2b_error {
	unsigned status;  /* of a REST answer */
	const char *code; /* of a Connect answer */
};

/** Maps an error of a tool. */
struct e2b_error e2b_error_of(enum cloister_error error);

/**
 * Maps a refusal of cloisterd. Parameters that cloisterd does not take are the client's mistake.
 */
struct e2b_error e2b_error_of_reply(const struct cloister_message *reply);

/** Returns the status that an answer to a unary request of Connect has with the code @code. */
unsigned e2b_error_connect_status(const char *code);
