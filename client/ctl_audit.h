/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* `cloisterctl audit verify`: needs no service, only the files. */

/** Checks the chain through the files @argv, the oldest first, and prints what is wrong with which
 * line. @contains (NULL: any): a hash that one of the lines must have. @json: as JSON lines. The
 * exit status. */
int audit_verify(int argc, char **argv, const char *contains, bool json);
