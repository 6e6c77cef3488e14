/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The probe program that a self-test runs in its canary workspace. */

/** Returns the probe program in base64, malloc'ed; NULL if memory is out. */
char *selftest_program(void);
