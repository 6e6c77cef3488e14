/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A payload: bytes behind a line that gives their number. Also when the line is refused they are
 * never read as lines, because others may have chosen them.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

struct client;
struct client_payload;

/** Returns the number of bytes of the last line's payload that are still to come. */
size_t client_payload_left(const struct client *client);

/** Whether to keep the received part of the payload until the rest has come. */
bool client_may_keep_payload(const struct client *client);

/**
 * Takes @part of the payload, or all of it. If the payload must not be kept, it refuses its line
 * and drops the payload.
 */
void client_payload(struct client *client, struct text part);

/** The current line has a payload of @payload->left bytes. Takes @payload and its texts. */
void client_expect_payload(struct client *client, const struct client_payload *payload);
