// SPDX-License-Identifier: Apache-2.0
/* Runs in the clients. Messages may quote hostile text; the caller escapes it. */
#include "client/complain.h"

#include "client/terminal.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static const char *name = "cloister";
static bool as_json;

void complain_as(const char *program, bool json)
{
	name = program;
	as_json = json;
}

bool complains_json(void)
{
	return as_json;
}

static void print_json(const char *code, const char *message)
{
	struct json_object *document = json_object_new_object();
	struct json_object *error = json_object_new_object();

	json_object_object_add(error, "code", json_object_new_string(code));
	json_object_object_add(error, "message", json_object_new_string(message));
	json_object_object_add(document, "error", error);
	terminal_put_json(json_object_to_json_string_ext(
		document, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(document);
}

static void print(const char *code, const char *format, va_list arguments)
{
	bool colours = terminal_has_colours(STDERR_FILENO);
	_cleanup_free_ char *message = NULL;

	if (vasprintf(&message, format, arguments) < 0)
		message = NULL;
	if (as_json)
		print_json(code, message ? message : "out of memory");
	else {
		fprintf(stderr, "%s%s:%s ", colours ? "\x1b[1;31m" : "", name,
			colours ? "\x1b[0m" : "");
		show_on(stderr, "%s\n", message ? message : "out of memory");
	}
}

void complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print("FAILED", format, arguments);
	va_end(arguments);
}

void complain_code(const char *code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print(code, format, arguments);
	va_end(arguments);
}
