/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is wrong, said once for people or, with --json, for programs. */

#include <stdbool.h>

/** The program's name, and whether what follows is JSON: then each complaint is a line
 * {"error":{"code":…,"message":…}} on stdout. */
void complain_as(const char *program, bool json);

/** Whether it is JSON. */
bool complains_json(void);

/** Prints "PROGRAM: ", the message and a newline on stderr; the code is FAILED. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/** As complain(), of an error that has a name: NO_SERVICE, USAGE, or one of the service's. */
__attribute__((format(printf, 2, 3))) void complain_code(const char *code, const char *format, ...);
