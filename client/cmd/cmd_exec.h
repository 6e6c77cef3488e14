/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct invocation;

/** Runs the operands as `cloister exec` does, and returns its exit status. */
int exec_run(const struct invocation *invocation);
