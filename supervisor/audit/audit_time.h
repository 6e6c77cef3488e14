/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>
#include <time.h>

#define AUDIT_TIME_BYTES 40

/** Formats the current time by RFC 3339, in UTC with microseconds. Returns @buffer. */
static inline const char *audit_time(char buffer[static AUDIT_TIME_BYTES])
{
	struct timespec now;
	struct tm tm;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	len = gmtime_r(&now.tv_sec, &tm) ? strftime(buffer, 24, "%Y-%m-%dT%H:%M:%S", &tm) : 0;
	snprintf(buffer + len, AUDIT_TIME_BYTES - len, ".%06ldZ", now.tv_nsec / 1000);
	return buffer;
}
