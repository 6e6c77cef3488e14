// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The journal's socket is connected before lock-down, which forbids connect(2).
 * cloisterd never waits for the journal: an entry that the socket does not accept at once goes to
 * stderr, which the journal reads too, as a line with its priority before it (sd-daemon(3)). It
 * does not wait for the reader of stderr either (log_writer.h).
 */
#include "supervisor/base/log.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/log_writer.h"

#include <endian.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define LINE_BYTES     1024
#define ENTRY_BYTES    (4 * LINE_BYTES)

static bool quiet_log, journal;
static int journal_fd = -1;

/*
 * $JOURNAL_STREAM says which file the journal reads, systemd.exec(5). Compare it with stderr,
 * because a service may have started cloisterd with stderr redirected.
 */
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

void log_connect(void)
{
	static const struct sockaddr_un address = {AF_UNIX, JOURNAL_SOCKET};
	_cleanup_close_ int fd = journal ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		journal_fd = TAKE_FD(fd);
}

struct entry {
	char bytes[ENTRY_BYTES];
	size_t len;
};

static void put_log_bytes(struct entry *entry, const void *bytes, size_t len)
{
	memcpy(entry->bytes + entry->len, bytes, len);
	entry->len += len;
}

/*
 * Writes a field in the journal's native protocol, which needs no library. A length precedes each
 * value, so a value may hold any bytes. A field that does not fit is left out.
 */
static void put_field(struct entry *entry, const char *name, struct text value)
{
	size_t name_len = strlen(name);
	uint64_t size = htole64(value.len);

	if (name_len + 1 + sizeof(size) + value.len + 1 > sizeof(entry->bytes) - entry->len)
		return;
	put_log_bytes(entry, name, name_len);
	put_log_bytes(entry, "\n", 1);
	put_log_bytes(entry, &size, sizeof(size));
	put_log_bytes(entry, value.data, value.len);
	put_log_bytes(entry, "\n", 1);
}

static bool tell_journal(int priority, const struct log_field *fields, const char *message)
{
	const char level = (char)('0' + priority);
	struct entry entry = {.len = 0};

	if (journal_fd < 0)
		return false;
	put_field(&entry, "PRIORITY", (struct text){&level, 1});
	put_field(&entry, "SYSLOG_IDENTIFIER", TEXT_LITERAL("cloisterd"));
	put_field(&entry, "MESSAGE", text_from(message));
	for (; fields->name; fields++)
		if (fields->value.len > 0)
			put_field(&entry, fields->name, fields->value);
	return send(journal_fd, entry.bytes, entry.len, MSG_DONTWAIT | MSG_NOSIGNAL) ==
	       (ssize_t)entry.len;
}

/* Words of a client, a workspace or a peer neither begin a line nor command a terminal. */
static void make_printable(char *message)
{
	for (; *message; message++)
		if ((unsigned char)*message < ' ' || *message == 0x7f)
			*message = '?';
}

static void write_entry(
	int priority, const struct log_field *fields, const char *format, va_list arguments)
{
	char message[LINE_BYTES], before[16] = "cloisterd: ", line[LIMIT_LOG_LINE_BYTES];
	int len;

	if (quiet_log && priority > LOG_WARNING)
		return;
	vsnprintf(message, sizeof(message), format, arguments);
	make_printable(message);
	if (tell_journal(priority, fields, message))
		return;
	if (journal)
		snprintf(before, sizeof(before), "<%d>", priority);
	len = snprintf(line, sizeof(line), "%s%s\n", before, message);
	log_writer_put((struct text){line, (size_t)len});
}

void log_relayed(struct text text)
{
	char line[LIMIT_LOG_LINE_BYTES];
	int len = snprintf(line, sizeof(line), "%s%.*s\n", journal ? "<4>" : "",
		(int)(text.len < LINE_BYTES ? text.len : LINE_BYTES), text.data);

	log_writer_put((struct text){line, (size_t)len});
}

void log_about(int priority, const struct log_field *fields, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_entry(priority, fields, format, arguments);
	va_end(arguments);
}

void log_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_entry(LOG_ERR, &(struct log_field){0}, format, arguments);
	va_end(arguments);
}

void log_warning(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_entry(LOG_WARNING, &(struct log_field){0}, format, arguments);
	va_end(arguments);
}

void log_info(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_entry(LOG_INFO, &(struct log_field){0}, format, arguments);
	va_end(arguments);
}
