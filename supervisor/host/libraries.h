/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The shared libraries that cloisterd is loaded with, where a version or a build of one could do
 * something else than the one that cloisterd was built and tested with.
 */

/**
 * Tries in each library what cloisterd relies on. Call it before anything else uses them. Returns
 * 0, or -ELIBBAD with a sentence in @ret_message (static) that says which library does what wrong,
 * and what to do.
 */
int libraries_check(const char **ret_message);
