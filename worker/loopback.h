/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** Raises the loopback interface of the caller's network namespace. Returns 0 or -errno. */
int loopback_raise(void);
