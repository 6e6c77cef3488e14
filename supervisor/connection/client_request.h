/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A client's lines: each is a request of a method of its endpoint, or is refused. */

#include "common/text.h"

#include <stdbool.h>

struct client;

/**
 * Handles one line from the client, without its newline, and appends answers to the connection's
 * output.
 */
void client_line(struct client *client, struct text line);

/**
 * Refuses a line that cannot be kept, because it is too long or there is no memory for it. @id_text
 * NULL: it has no id.
 */
void client_refuse_line(struct client *client, bool too_long, const char *id_text);
