/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's log: lines on stderr. If stderr is the journal (systemd.exec(5), $JOURNAL_STREAM),
 * messages become entries with fields (systemd.journal-fields(7)), by which an administrator finds
 * all messages about a workspace, a tenant or a user. Logging never blocks. Only the process that
 * decides logs, and only once. Text from a client or a workspace is never logged unescaped.
 */

#include "common/text.h"

#include <stdbool.h>
#include <syslog.h>

/* A field of a journal entry. The name is upper case; the value is any text, or NULL for none. */
struct log_field {
	const char *name;
	struct text value;
};

/* The fields of a message: a list that ends with {NULL}. */
#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__, {0}})

/** Finds out whether the journal reads stderr. @quiet logs only warnings and errors. */
void log_init(bool quiet);

/**
 * Connects to the journal if it reads stderr; until then messages are lines. Call it before
 * lock-down and after inherited descriptors are closed.
 */
void log_connect(void);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Logs a line of another program's log unchanged. */
void log_relayed(struct text line);

/**
 * Like these, with a priority LOG_ERR, LOG_WARNING or LOG_INFO, and with @fields for the journal.
 */
void log_about(int priority, const struct log_field *fields, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
