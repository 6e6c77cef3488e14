/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * --detach: the process that was started waits until its grandchild, which is the cloisterd, serves
 * or has ended. The grandchild is a child of the service manager by then (or of init), which hears
 * of its end.
 */

/**
 * Goes on in a grandchild, in a new session. The caller's process exits with 0 after detach_tell(),
 * and with 1 if the grandchild ends before it; the log says why. Call it first of all, as there
 * must be no thread.
 */
void detach_begin(void);

/**
 * Call it before the first irrevocable step. Until then the grandchild ends if the process that was
 * started is killed, as a service manager does when a reload takes too long.
 */
void detach_stay(void);

/** Lets the started process exit with success. Does nothing if there is none. */
void detach_tell(void);
