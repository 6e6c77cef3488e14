// SPDX-License-Identifier: Apache-2.0
#include "supervisor/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

static bool quiet_log, journal;

/* systemd.exec(5): the variable says which file the journal reads. What was started by a service
 * with its errors going elsewhere has it, too. */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	struct stat stat_buf;
	char ours[64];

	if (!stream || fstat(STDERR_FILENO, &stat_buf) < 0)
		return false;
	snprintf(ours, sizeof(ours), "%llu:%llu", (unsigned long long)stat_buf.st_dev,
		(unsigned long long)stat_buf.st_ino);
	return strcmp(stream, ours) == 0;
}

void log_init(bool quiet)
{
	quiet_log = quiet;
	journal = is_journal();
}

static void write_line(int priority, const char *format, va_list arguments)
{
	char line[1024];
	int n = 0;

	if (journal)
		n = snprintf(line, sizeof(line), "<%d>", priority);
	else
		n = snprintf(line, sizeof(line), "cloisterd: ");
	vsnprintf(line + n, sizeof(line) - (size_t)n, format, arguments);
	/* One write a line: lines of several processes do not mix. */
	fprintf(stderr, "%s\n", line);
}

#define DEFINE_LOG(name, priority)                         \
	void name(const char *format, ...)                 \
	{                                                  \
		va_list arguments;                         \
                                                           \
		if (quiet_log && (priority) > LOG_WARNING) \
			return;                            \
		va_start(arguments, format);               \
		write_line(priority, format, arguments);   \
		va_end(arguments);                         \
	}

DEFINE_LOG(log_error, LOG_ERR)
DEFINE_LOG(log_warning, LOG_WARNING)
DEFINE_LOG(log_info, LOG_INFO)
