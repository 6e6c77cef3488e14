/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces supervisor/cell/helper_process.c: the test has the other end of the socket of a
 * program that cloisterd starts, and no process runs. Signals to it are counted. */

#include "supervisor/cell/helper_process.h"

struct fake_helper {
	char started[160]; /* its arguments, each with a blank behind it; "": none was started */
	int error;         /* with which the next one cannot be started */
	int given;         /* cloisterd's end, borrowed */
	int socket;        /* the program's end; the test takes it */
	int log;           /* the program's stderr */
	unsigned killed;   /* how often SIGKILL was sent */
	unsigned ended;    /* calls of helper_process_end() for it */
};

extern struct fake_helper fake_helper;
