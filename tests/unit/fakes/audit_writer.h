/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces supervisor/audit/audit_writer.c: keeps the lines for the test and writes nothing. */

#include "supervisor/audit/audit_writer.h"

/* The state that audit_writer_look() returns; the test sets it. */
extern struct audit_writer_state fake_audit_state;
/* Whether the queue is full, so that no line can be added. */
extern bool fake_audit_full;
/* How many bytes of the queue the last line had to leave free. */
extern size_t fake_audit_kept;
/* Whether the writer is held, and whether it cannot be, because a line waits for its disk. */
extern bool fake_audit_held, fake_audit_stuck;
/* The descriptor that it gives its lines to; -1: none. */
extern int fake_audit_relay;
/* How often the writer was asked to reopen its file. */
extern unsigned fake_audit_reopened;

/** Returns the lines' members since the last call, one line each; valid until the next call. */
const char *fake_audit_take(void);
