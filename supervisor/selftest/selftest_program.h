/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The probe program that a self-test runs in its canary workspace. */

/** The probe program as base64, malloc'ed; NULL: out of memory. */
char *selftest_program(void);
