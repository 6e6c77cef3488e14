// SPDX-License-Identifier: Apache-2.0
/* Runs in the client. */
#include "client/transfer/progress.h"

#include "client/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/param.h>
#include <unistd.h>

#define AFTER_MS 2000 /* a shorter call gets no line */
#define AGAIN_MS 1000
#define ERASE    "\r\x1b[K"

static int64_t since_ms(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - then->tv_sec) * 1000 + (now.tv_nsec - then->tv_nsec) / 1000000;
}

/* Returns the time in milliseconds until the line is due; 0: now. */
static int64_t due_ms(const struct progress *progress)
{
	int64_t first = AFTER_MS - since_ms(&progress->began);
	int64_t next = AGAIN_MS - since_ms(&progress->drawn);

	return MAX(MAX(first, next), 0);
}

void progress_begin(struct progress *progress, int64_t timeout_ms, bool quiet)
{
	*progress = (struct progress){
		.enabled = !quiet && terminal_is_capable(STDERR_FILENO),
		.timeout_ms = timeout_ms,
	};
	clock_gettime(CLOCK_MONOTONIC, &progress->began);
}

void progress_count(struct progress *progress, size_t bytes)
{
	progress->bytes += bytes;
}

int progress_wait_ms(const struct progress *progress)
{
	return progress->enabled ? (int)due_ms(progress) + 1 : -1;
}

static void write_progress(const char *text, size_t len)
{
	/* If the terminal does not accept the bytes, they are dropped. */
	ssize_t n = write(STDERR_FILENO, text, len);

	(void)n;
}

static const char *duration(int64_t ms, char *buffer, size_t size)
{
	int64_t s = ms / 1000;

	if (s < 60)
		snprintf(buffer, size, "%" PRId64 " s", s);
	else if (s < 3600)
		snprintf(buffer, size, "%" PRId64 ":%02" PRId64 " min", s / 60, s % 60);
	else
		snprintf(buffer, size, "%" PRId64 ":%02" PRId64 ":%02" PRId64 " h", s / 3600,
			s / 60 % 60, s % 60);
	return buffer;
}

static const char *amount(uint64_t bytes, char *buffer, size_t size)
{
	static const char *const units[] = {"KB", "MB", "GB", "TB"};
	double value = (double)bytes / 1000;
	size_t unit = 0;

	if (bytes < 1000) {
		snprintf(buffer, size, "%" PRIu64 " bytes", bytes);
		return buffer;
	}
	for (; value >= 1000 && unit < 3; unit++)
		value /= 1000;
	snprintf(buffer, size, "%.1f %s", value, units[unit]);
	return buffer;
}

void progress_show(struct progress *progress)
{
	bool colours = terminal_has_colours(STDERR_FILENO);
	char elapsed[32], deadline[32], bytes[32], line[160];
	int len;

	if (!progress->enabled || progress->in_line || due_ms(progress) > 0)
		return;
	duration(since_ms(&progress->began), elapsed, sizeof(elapsed));
	amount(progress->bytes, bytes, sizeof(bytes));
	len = snprintf(line, sizeof(line), ERASE "%s%s%s%s, %s%s", colours ? "\x1b[2m" : "",
		elapsed, progress->timeout_ms > 0 ? " of " : "",
		progress->timeout_ms > 0
			? duration(progress->timeout_ms, deadline, sizeof(deadline))
			: "",
		bytes, colours ? "\x1b[0m" : "");
	write_progress(line, (size_t)len);
	progress->shown = true;
	clock_gettime(CLOCK_MONOTONIC, &progress->drawn);
}

void progress_clear(struct progress *progress)
{
	if (progress->shown)
		write_progress(ERASE, sizeof(ERASE) - 1);
	progress->shown = false;
}

void progress_before_output(struct progress *progress, int fd, const void *data, size_t len)
{
	if (!progress->enabled || len == 0)
		return;
	progress_clear(progress);
	if (isatty(fd))
		progress->in_line = ((const char *)data)[len - 1] != '\n';
}
