/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal of our standard input, while a program in a workspace has it: raw, so that every key
 * goes in as a byte. However we end, it is as it was before, but for SIGKILL.
 */

#include <stdbool.h>
#include <sys/ioctl.h>

/** Whether stdin and stdout are a terminal. */
bool raw_terminal_is_there(void);

/** Its size in rows and columns; 24 and 80 where it does not know. */
struct winsize raw_terminal_size(void);

/** Makes it raw; nothing to be done if it is. Returns 0 or -errno. */
int raw_terminal_enter(void);

/** Makes it raw again, if required, after another process has set its modes. */
void raw_terminal_enter_again(void);

/**
 * Makes it as it was before. Keys and answers of the terminal that nobody has read are dropped:
 * they were meant for the program. With @reset it also resets modes that a killed program may have
 * left: the alternate screen, mouse reports, colours and the like. Does nothing if it is not raw.
 */
void raw_terminal_leave(bool reset);
