/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * MCP's notifications/progress for a call whose request has a progressToken: the elapsed
 * milliseconds, once a second and soon after its command writes, with the last line of its output.
 * Runs in cloisterd; the output is hostile.
 */

#include "common/text.h"

#define PROGRESS_MS        1000 /* how often progress is told */
#define PROGRESS_OUTPUT_MS 200  /* the shortest interval, for a command that writes much */
#define PROGRESS_DELAY_MS  50   /* from output to the progress that reports it */

struct mcp_progress;
struct client_call;

/** Makes the progress state for the token @token, JSON text. Returns NULL if memory is out. */
struct mcp_progress *mcp_progress_new(const char *token);

/** Stops the notifications. NULL is allowed. */
void mcp_progress_free(struct mcp_progress *progress);

/** Starts to notify the client of @call, until the state is freed. */
void mcp_progress_start(struct mcp_progress *progress, struct client_call *call);

/** Takes @data, which the call's command wrote. */
void mcp_progress_output(struct mcp_progress *progress, struct text data);
