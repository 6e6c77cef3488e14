/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connects libcloister, which uses JSON text, and json-c, which the commands use for requests and
 * answers; and prints errors.
 */

#include "libcloister/cloister.h"

struct json_object;

static inline void cloister_closep(struct cloister **cloister)
{
	cloister_close(*cloister);
}
#define _cleanup_cloister_ _cleanup_(cloister_closep)

static inline void cloister_message_freep(struct cloister_message **message)
{
	cloister_message_free(*message);
}
#define _cleanup_message_ _cleanup_(cloister_message_freep)

/**
 * Sends a request and waits for its reply. Takes @params, also on failure. Returns 0 with the
 * reply, to be freed, or an error of cloister_request().
 */
int request(struct cloister *cloister, const char *method, struct json_object *params,
	struct cloister_message **ret_reply);

/**
 * Returns the result in @reply, or a notification's params, owned by the caller; NULL for an error.
 */
struct json_object *reply_result(const struct cloister_message *reply);

/**
 * Prints on stderr why @reply is an error. Returns the exit status for it: STATUS_USAGE or
 * STATUS_NO_SERVICE.
 */
int reply_complain(const struct cloister_message *reply);

/**
 * As request(), but prints on stderr why there is no result, and returns the exit status. With
 * STATUS_OK, *@ret_result is the result, to be put back by the caller; @ret_result may be NULL.
 */
int request_result(struct cloister *cloister, const char *method, struct json_object *params,
	struct json_object **ret_result);

/** As request_result(), and prints the result: as JSON if @json, otherwise with @print. */
int request_print(struct cloister *cloister, const char *method, struct json_object *params,
	bool json, void (*print)(struct json_object *result));

/** Prints on stderr why a function of libcloister failed with @error. */
void connection_complain(int error);
