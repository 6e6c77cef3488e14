/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The programs that cloisterd starts itself, before its lock-down forbids fork(2). Each function is
 * a step of the start and ends the process if it fails.
 */

struct daemon;

/** Starts cloister-spawner. Call it when the state is open, and as the user that cloisterd keeps.
 */
void helpers_start_spawner(struct daemon *daemon);

/**
 * Starts cloister-egress, or waits for it at its socket. It exists if a tenant needs it, or if it
 * has a socket, because a tenant may then need it after a reload.
 */
void helpers_start_egress(struct daemon *daemon);
