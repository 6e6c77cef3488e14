// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Sentences may repeat names that a client has sent. */
#include "supervisor/base/refusal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum tool_error refusal_format(struct refusal *ret, enum tool_error error, const char *format, ...)
{
	va_list arguments;
	char *message;

	va_start(arguments, format);
	if (vasprintf(&message, format, arguments) < 0)
		message = NULL;
	va_end(arguments);
	refusal_set(ret, error, NULL);
	ret->message = message;
	return error;
}

const char *refusal_text(const struct refusal *refusal)
{
	if (refusal->message)
		return refusal->message;
	return refusal->sentence ? refusal->sentence : tool_error_sentence(refusal->error);
}
