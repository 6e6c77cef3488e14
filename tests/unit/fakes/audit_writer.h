/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* In place of supervisor/audit/audit_writer.c: lines are kept for the test and go nowhere. */

#include "supervisor/audit/audit_writer.h"

/* What the writer says of itself (queued, error and the rest), set by the test. */
extern struct audit_writer_state fake_audit_state;
/* Whether there is room for a line. */
extern bool fake_audit_full;
/* Of the last line: how much of the queue it had to leave free. */
extern size_t fake_audit_kept;
/* How often it was asked to open its file again. */
extern unsigned fake_audit_reopened;

/** The members of the lines since the last call, each on a line; borrowed until the next one. */
const char *fake_audit_take(void);
