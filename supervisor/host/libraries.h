/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks of the shared libraries that cloisterd is loaded with: another version or build may behave
 * differently than at the build and in the tests.
 */

/**
 * Checks the behaviour of each library on which cloisterd relies. Call it before anything else uses
 * them. Returns 0, or -ELIBBAD with a sentence in @ret_message (static) that names the library,
 * what it does wrong, and what to do.
 */
int libraries_check(const char **ret_message);
