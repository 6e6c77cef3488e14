/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* `cloisterctl audit verify` works on the files alone, without a service. */

/**
 * Checks the chain through the files @argv, the oldest first, and prints which lines are wrong and
 * why. @contains (NULL: any) is a hash that one of the lines must have. @json prints JSON lines.
 * Returns the exit status.
 */
int audit_verify(int argc, char **argv, const char *contains, bool json);
