// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/terminal_plain.h"

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

static void put(struct terminal_plain *plain, char c)
{
	if (plain->over)
		plain->len = plain->line;
	plain->over = false;
	plain->out[plain->len++] = c;
}

/* Removes the character before a backspace: "c\bc" makes it bold on printers. */
static void step_back(struct terminal_plain *plain)
{
	while (plain->len > plain->line && (plain->out[plain->len - 1] & 0xc0) == 0x80)
		plain->len--;
	if (plain->len > plain->line)
		plain->len--;
}

static void put_plain(struct terminal_plain *plain, char c)
{
	switch (c) {
	case '\n':
		plain->over = false;
		put(plain, c);
		plain->line = plain->len;
		break;
	case '\r':
		plain->over = true;
		break;
	case '\b':
		step_back(plain);
		break;
	case '\0':
		put(plain, '\\');
		put(plain, '0');
		break;
	case ESCAPE:
		plain->state = ESCAPED;
		break;
	default:
		if (((unsigned char)c >= 0x20 && c != 0x7f) || c == '\t')
			put(plain, c);
	}
}

void terminal_plain_add(struct terminal_plain *plain, struct text part)
{
	for (size_t i = 0; i < part.len; i++) {
		unsigned char c = (unsigned char)part.data[i];
		bool inside = plain->state != PLAIN;

		if (inside)
			plain->state = go_on(plain->state, c);
		if (!inside || c == '\n')
			put_plain(plain, (char)c);
	}
}
