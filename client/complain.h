/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Error messages, for people or, with --json, for programs. */

#include <stdbool.h>

/**
 * Sets the program's name, and whether complaints are JSON: each is then a line
 * {"error":{"code":…,"message":…}} on stdout.
 */
void complain_as(const char *program, bool json);

/** Whether complaints are JSON. */
bool complains_json(void);

/** Prints "PROGRAM: ", the message and a newline on stderr. In JSON the code is FAILED. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/** Like complain(), with a code: NO_SERVICE, USAGE, or an error code of the service. */
__attribute__((format(printf, 2, 3))) void complain_code(const char *code, const char *format, ...);
