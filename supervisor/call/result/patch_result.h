/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of a patch as the files process has reported it before each step. After the death of
 * the files process, each file is therefore known to be unchanged, changed, or the one that it was
 * working on. It is hostile: amounts are bounded here.
 */

#include "common/wire/channel.h"

#include <stdbool.h>

struct evbuffer;
struct json_text;
struct key_change;
struct notes;
struct patch_result;

/** Returns an empty result, to be freed with patch_result_free(), or NULL: no memory. */
struct patch_result *patch_result_new(void);

/** NULL is allowed. */
void patch_result_free(struct patch_result *result);

/** Takes a frame FILES_PATCHED or FILES_STEP. Returns 0, or -EBADMSG for any other. */
int patch_result_add(struct patch_result *result, const struct channel_frame *frame);

/** Returns about how many bytes it holds. */
size_t patch_result_size(const struct patch_result *result);

/** Writes the array of the files, and the same as lines to @text unless that is NULL. */
void patch_result_write(
	const struct patch_result *result, struct json_text *json, struct evbuffer *text);

/** Whether files have been changed and not been put back, or may have been. */
bool patch_result_is_partial(const struct patch_result *result);

/** Writes an object with the state of each file, for error.data. Returns 0 or -ENOMEM. */
int patch_result_write_states(const struct patch_result *result, struct evbuffer *out);

/**
 * Returns the change that the files process has reported, which the caller frees with free(), or
 * NULL.
 */
struct key_change *patch_result_change(const struct patch_result *result);

/** Sets @result to that of an earlier patch that has made all of @change. */
void patch_result_set_made(struct patch_result *result, const struct key_change *change);

/** Sets the fate of an earlier patch: the files @found, in comparison with its @change. */
void patch_result_set_found(
	struct patch_result *result, const struct key_change *change, const char *found);

/** Adds sentences about the work of a patch whose end was lost. */
void patch_result_note(const struct patch_result *result, struct notes *notes);
