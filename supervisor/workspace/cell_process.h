/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One process of a cell: what it says, and why it must go. */

#include "supervisor/workspace/cell_state.h"

/** @process must go, because of @format. The first reason counts. */
void __attribute__((format(printf, 2, 3)))
cell_process_fail(struct process *process, const char *format, ...);

/** Fails one that is lost, unless the spawner has yet to say why. */
void cell_process_check_lost(struct process *process);

/** Its channels, of which the spawner gets @child_fds. 0 or -errno. */
int cell_process_make(struct process *process, int child_fds[2]);

/** @link, which was made ahead, is it from now on. */
void cell_process_adopt(struct process *process, struct process_link *link);

/** Kills and forgets it. Not from inside a process link's callback. */
void cell_process_drop(struct process *process);
