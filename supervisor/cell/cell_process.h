/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One process of a cell: handles its frames, and decides when it must be ended and why. */

#include "supervisor/cell/cell_process_state.h"

/** Notes that @process must be ended because of @format. The first reason counts. */
void __attribute__((format(printf, 2, 3)))
cell_process_fail(struct process *process, const char *format, ...);

/** Fails a process that is lost, unless the spawner's answer may still give the reason. */
void cell_process_check_lost(struct process *process);

/** Makes its channels; the spawner gets @child_fds. Returns 0 or -errno. */
int cell_process_make(struct process *process, int child_fds[2]);

/** Makes @link, of a spare cell, the link of this process. */
void cell_process_adopt(struct process *process, struct process_link *link);

/** Kills and frees it. Must not be called from a process link's callback. */
void cell_process_drop(struct process *process);
