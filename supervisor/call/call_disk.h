/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides whether a call may write to the disk, and adds the use of disk to its answer. */

#include <stdbool.h>
#include <stdint.h>

struct call;
struct disk_state;
struct files_end;
struct observation;
struct refusal;

/**
 * Whether @call, which is to begin, must not write: its workspace takes more than its disk class
 * allows, or the host's disk is nearly full. Then @ret_refusal says why. A call that only removes
 * or renames files is never refused.
 */
bool call_disk_refuses(struct call *call, struct refusal *ret_refusal);

/**
 * Whether a stream of @call may write @bytes more: its workspace has room for them, with what all
 * streams have written that is not measured yet, and so has the host's disk.
 */
bool call_disk_takes(struct call *call, uint64_t bytes);

/** Tells a command that it begins without the right to write to files: @disk is over its limit. */
void call_disk_note(struct call *call, const struct disk_state *disk);

/** Lends the use of disk by @end, of a file call, and by its workspace to @observation. */
void call_disk_tell(
	struct call *call, const struct files_end *end, struct observation *observation);
