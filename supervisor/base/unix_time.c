// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The texts are hostile. */
#include "supervisor/base/unix_time.h"

#include "supervisor/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_MS 253402300799999 /* the end of the year 9999 */

static int64_t ahead_ms; /* of the host's clock before clock_now() */

int64_t unix_look(void)
{
	const int64_t before = ahead_ms;

	ahead_ms = clock_unix_ms() - clock_read() / CLOCK_NS_PER_MS;
	return ahead_ms - before;
}

int64_t unix_now_ms(void)
{
	if (ahead_ms == 0)
		(void)unix_look();
	return ahead_ms + clock_now() / CLOCK_NS_PER_MS;
}

void rfc3339_put(int64_t unix_ms, char ret[RFC3339_BYTES])
{
	const time_t seconds = (time_t)(unix_ms / 1000);
	struct tm tm = {0};
	size_t len;

	(void)gmtime_r(&seconds, &tm);
	len = strftime(ret, RFC3339_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret + len, RFC3339_BYTES - len, ".%03dZ", (int)(unix_ms % 1000));
}

const char *rfc3339_seconds(int64_t unix_ms, char ret[RFC3339_BYTES])
{
	time_t seconds = (time_t)(unix_ms / 1000);
	struct tm tm;

	return unix_ms > 0 && gmtime_r(&seconds, &tm) &&
			       strftime(ret, RFC3339_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0
		       ? ret
		       : NULL;
}

/* Takes @digits digits from the beginning of @text. */
static bool take_time_number(struct text *text, size_t digits, int *ret)
{
	int number = 0;

	if (text->len < digits)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (text->data[i] < '0' || text->data[i] > '9')
			return false;
		number = number * 10 + (text->data[i] - '0');
	}
	text->data += digits;
	text->len -= digits;
	*ret = number;
	return true;
}

static bool take_char(struct text *text, const char *any)
{
	if (text->len == 0 || text->data[0] == '\0' || !strchr(any, text->data[0]))
		return false;
	text->data++;
	text->len--;
	return true;
}

/* Digits after the third count nothing. */
static bool take_fraction(struct text *text, int *ret_ms)
{
	int digit, weight = 100, ms = 0;

	if (!take_char(text, "."))
		return true;
	if (!take_time_number(text, 1, &digit))
		return false;
	do {
		ms += digit * weight;
		weight /= 10;
	} while (take_time_number(text, 1, &digit));
	*ret_ms = ms;
	return true;
}

/* "Z", or the offset of a zone, in seconds. */
static bool take_zone(struct text *text, int *ret_seconds)
{
	bool west = text->len > 0 && text->data[0] == '-';
	int hours, minutes;

	if (take_char(text, "Zz"))
		return true;
	if (!take_char(text, "+-") || !take_time_number(text, 2, &hours) || !take_char(text, ":") ||
		!take_time_number(text, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret_seconds = (west ? -60 : 60) * (60 * hours + minutes);
	return true;
}

bool rfc3339_read(struct text text, int64_t *ret_ms)
{
	struct tm tm = {0}, same;
	int ms = 0, zone = 0;
	time_t seconds;
	int64_t unix_ms;

	if (!take_time_number(&text, 4, &tm.tm_year) || !take_char(&text, "-") ||
		!take_time_number(&text, 2, &tm.tm_mon) || !take_char(&text, "-") ||
		!take_time_number(&text, 2, &tm.tm_mday) || !take_char(&text, "Tt ") ||
		!take_time_number(&text, 2, &tm.tm_hour) || !take_char(&text, ":") ||
		!take_time_number(&text, 2, &tm.tm_min) || !take_char(&text, ":") ||
		!take_time_number(&text, 2, &tm.tm_sec) || !take_fraction(&text, &ms) ||
		!take_zone(&text, &zone) || text.len > 0)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	same = tm;
	seconds = timegm(&same);
	/* timegm(3) would take the 31st of April for the 1st of May; a leap second is the next. */
	if (tm.tm_sec < 60 && (same.tm_mon != tm.tm_mon || same.tm_mday != tm.tm_mday ||
				      same.tm_hour != tm.tm_hour || same.tm_min != tm.tm_min))
		return false;
	if (tm.tm_mon < 0 || tm.tm_mon > 11 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
		return false;
	unix_ms = ((int64_t)seconds - zone) * 1000 + ms;
	if (unix_ms < 0 || unix_ms > MOST_MS)
		return false;
	*ret_ms = unix_ms;
	return true;
}
