/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether a call may write to the disk, and what it is told of it. */

#include <stdbool.h>

struct call;
struct disk_state;
struct files_end;
struct observation;

/**
 * Whether @call, which is to begin, must not write: its workspace takes more than its disk class
 * allows, or the host's disk is nearly full. It is answered then. A patch that only removes files
 * is never refused.
 */
bool call_disk_refuses(struct call *call);

/** Tells a command that it begins without the right to write to files: @disk is over its limit. */
void call_disk_note(struct call *call, const struct disk_state *disk);

/** Lends what @end, of a file call, and its workspace say of the disk to @observation. */
void call_disk_tell(
	struct call *call, const struct files_end *end, struct observation *observation);
