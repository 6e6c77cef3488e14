/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's log: lines on stderr, with the journal's priority prefix when stderr is the journal
 * (sd-daemon(3)). Only the process that decides logs, and only once; nothing a client or a
 * workspace wrote is logged as it came.
 */

#include <stdbool.h>

/** @quiet: warnings and errors only. */
void log_init(bool quiet);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
