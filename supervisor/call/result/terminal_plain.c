// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/result/terminal_plain.h"

#include <stdbool.h>
#include <string.h>

#define ESCAPE 0x1b

enum state { PLAIN, ESCAPED, CONTROL_SEQUENCE, STRING, STRING_ESCAPED };

/* Returns the state after @c, a byte of an escape sequence that has begun. */
static enum state go_on(enum state state, unsigned char c)
{
	/* An escape sequence without an end must not swallow the rest of the output. */
	if (c == '\n')
		return PLAIN;
	switch (state) {
	case ESCAPED:
		if (c == '[')
			return CONTROL_SEQUENCE;
		if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_')
			return STRING;
		return c >= 0x20 && c < 0x30 ? ESCAPED : PLAIN;
	case CONTROL_SEQUENCE:
		return c >= 0x40 && c < 0x7f ? PLAIN : CONTROL_SEQUENCE;
	case STRING:
		return c == '\a' ? PLAIN : c == ESCAPE ? STRING_ESCAPED : STRING;
	case STRING_ESCAPED:
		return c == '\\' ? PLAIN : go_on(ESCAPED, c);
	default:
		return PLAIN;
	}
}

static bool goes_on(char c)
{
	return (c & 0xc0) == 0x80; /* a further byte of a UTF-8 character */
}

/* A character takes the place of the one at the cursor. */
static void put_plain_char(struct terminal_plain *plain, char c)
{
	if (plain->rest < plain->size && !goes_on(c))
		do
			plain->rest++;
		while (plain->rest < plain->size && goes_on(plain->out[plain->rest]));
	plain->out[plain->len++] = c;
}

static void go_to_start(struct terminal_plain *plain)
{
	size_t len = plain->len - plain->line;

	plain->rest -= len;
	memmove(plain->out + plain->rest, plain->out + plain->line, len);
	plain->len = plain->line;
}

static void step_back(struct terminal_plain *plain)
{
	while (plain->len > plain->line) {
		plain->out[--plain->rest] = plain->out[--plain->len];
		if (!goes_on(plain->out[plain->rest]))
			break;
	}
}

static void go_to_end(struct terminal_plain *plain)
{
	size_t len = plain->size - plain->rest;

	memmove(plain->out + plain->len, plain->out + plain->rest, len);
	plain->len += len;
	plain->rest = plain->size;
}

static void put_plain(struct terminal_plain *plain, char c)
{
	switch (c) {
	case '\n':
		go_to_end(plain);
		put_plain_char(plain, c);
		plain->line = plain->len;
		break;
	case '\r':
		go_to_start(plain);
		break;
	case '\b':
		step_back(plain);
		break;
	case '\0':
		put_plain_char(plain, '\\');
		put_plain_char(plain, '0');
		break;
	case ESCAPE:
		plain->state = ESCAPED;
		plain->parameter = 0;
		break;
	default:
		if (((unsigned char)c >= 0x20 && c != 0x7f) || c == '\t')
			put_plain_char(plain, c);
	}
}

/* Handles a byte of a control sequence: of those that have a meaning here the parameter is a digit.
 */
static void obey(struct terminal_plain *plain, char c)
{
	if (c == 'K' && plain->parameter != '1') /* EL: erase in line */
		plain->rest = plain->size;
	if (c == 'K' && plain->parameter == '2')
		plain->len = plain->line;
	if (c == 'G' && (plain->parameter == 0 || plain->parameter == '1')) /* CHA: column */
		go_to_start(plain);
	plain->parameter = plain->parameter == 0 ? c : 'x';
}

void terminal_plain_add(struct terminal_plain *plain, struct text part)
{
	for (size_t i = 0; i < part.len; i++) {
		unsigned char c = (unsigned char)part.data[i];
		bool inside = plain->state != PLAIN;

		if (plain->state == CONTROL_SEQUENCE)
			obey(plain, (char)c);
		if (inside)
			plain->state = go_on(plain->state, c);
		if (!inside || c == '\n')
			put_plain(plain, (char)c);
	}
}

struct text terminal_plain_end(struct terminal_plain *plain)
{
	go_to_end(plain);
	return (struct text){plain->out, plain->len};
}
