// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Sentences may repeat names that a model wrote. */
#include "supervisor/call/request/notes.h"

#include <stdarg.h>
#include <stdio.h>

void notes_add(struct notes *notes, const char *format, ...)
{
	va_list arguments;
	char *text;
	int r;

	if (notes->count == LIMIT_NOTES)
		return;
	va_start(arguments, format);
	r = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (r >= 0)
		notes->texts[notes->count++] = text;
}
