/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's log: lines on stderr. When stderr is the journal (systemd.exec(5), $JOURNAL_STREAM)
 * what is said goes to it as an entry with fields (systemd.journal-fields(7)), by which an
 * administrator finds everything about a workspace, a tenant or a user. Nobody waits for who reads
 * it. Only the process that decides logs, and only once; nothing a client or a workspace wrote is
 * logged as it came.
 */

#include "common/text.h"

#include <stdbool.h>
#include <syslog.h>

/* A field of a journal entry: its name is upper case, its value any text, NULL for none. */
struct log_field {
	const char *name;
	struct text value;
};

/* Fields of what is being logged, a list that ends with {NULL}. */
#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__, {0}})

/** Finds out who reads stderr. @quiet: warnings and errors only. */
void log_init(bool quiet);

/** Connects to the journal, if that is who does; until then it gets lines. Before lock-down, and
 * when descriptors that were inherited are closed. */
void log_connect(void);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** A line of another program's log, as it is. */
void log_relayed(struct text line);

/** As these, of LOG_ERR, LOG_WARNING or LOG_INFO, and with @fields for the journal. */
void log_about(int priority, const struct log_field *fields, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
