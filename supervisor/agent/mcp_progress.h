/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * MCP's notifications/progress for a call whose request brought a progressToken: the milliseconds
 * that it has taken, once a second and soon after its command writes, with the last line that it
 * wrote. cloisterd; what a command wrote is hostile.
 */

#include "common/text.h"

#define PROGRESS_MS        1000 /* how often progress is told */
#define PROGRESS_OUTPUT_MS 200  /* and at most, when a command writes much */
#define PROGRESS_DELAY_MS  50   /* from output to the progress that tells of it */

struct mcp_progress;
struct session_call;

/** Progress under the token that is @token as JSON text. NULL: out of memory. */
struct mcp_progress *mcp_progress_new(const char *token);

/** No more of it is told. NULL is allowed. */
void mcp_progress_free(struct mcp_progress *progress);

/** From now on, until it is freed, the client of @call is told. */
void mcp_progress_start(struct mcp_progress *progress, struct session_call *call);

/** The call's command wrote @data. */
void mcp_progress_output(struct mcp_progress *progress, struct text data);
