// SPDX-License-Identifier: Apache-2.0
#include "supervisor/connection/line_id.h"

#include "supervisor/connection/jsonrpc.h"
#include "json/json_read.h"

#include <json-c/json_object.h>
#include <stdlib.h>

#define SCAN_BYTES (64 * KIB) /* of a line, in one slice of the loop */

static void keep_id_char(struct line_id *line_id, char c)
{
	if (line_id->len < sizeof(line_id->token))
		line_id->token[line_id->len] = c;
	if (line_id->len <= sizeof(line_id->token))
		line_id->len++;
}

static struct text token(const struct line_id *line_id)
{
	return (struct text){line_id->token, line_id->len};
}

/* Whether the current name is "id", even if it is written with escapes. */
static bool names_the_id(const struct line_id *line_id)
{
	struct json_bounds bounds = json_request_bounds(line_id->len);
	struct json_object *name = NULL;
	struct json_report report;
	bool is = false;

	if (line_id->len <= sizeof(line_id->token) && memchr(line_id->token, '"', line_id->len) &&
		json_read(token(line_id), &bounds, &name, &report) == 0)
		is = json_object_is_type(name, json_type_string) &&
		     json_object_get_string_len(name) == 2 &&
		     memcmp(json_object_get_string(name), "id", 2) == 0;
	json_object_put(name);
	return is;
}

static void decide(struct line_id *line_id)
{
	if (line_id->wanted && line_id->len <= sizeof(line_id->token))
		line_id->id_text = jsonrpc_read_id(token(line_id));
	line_id->state = LINE_ID_DECIDED;
}

/* Handles a byte inside a string. */
static void string_byte(struct line_id *line_id, char c)
{
	if (line_id->escaped)
		line_id->escaped = false;
	else if (c == '\\')
		line_id->escaped = true;
	else if (c == '"')
		line_id->in_string = false;
}

/* Handles a byte between strings of the outermost object. */
static void outer_byte(struct line_id *line_id, char c)
{
	if (c == ':' && line_id->state == LINE_ID_NAME) {
		line_id->wanted = names_the_id(line_id);
		line_id->state = LINE_ID_VALUE;
	} else if (c == ',' || c == '}') {
		if (line_id->wanted || c == '}')
			decide(line_id);
		else
			line_id->state = LINE_ID_NAME;
	} else {
		keep_id_char(line_id, c);
		return;
	}
	line_id->len = 0;
}

static void plain_byte(struct line_id *line_id, char c)
{
	if (c == '"')
		line_id->in_string = true;
	if (line_id->depth == 1)
		outer_byte(line_id, c);
	if (c == '{' || c == '[')
		line_id->depth++;
	else if (c == '}' || c == ']')
		line_id->depth -= line_id->depth > 0;
}

static void byte(struct line_id *line_id, char c)
{
	if (line_id->state == LINE_ID_BEGIN) {
		if (c == ' ' || c == '\t' || c == '\r')
			return;
		line_id->state = c == '{' ? LINE_ID_NAME : LINE_ID_DECIDED;
		line_id->depth = 1;
	} else if (line_id->in_string) {
		if (line_id->depth == 1)
			keep_id_char(line_id, c);
		string_byte(line_id, c);
	} else {
		plain_byte(line_id, c);
	}
}

bool line_id_feed(struct line_id *line_id, struct text part)
{
	for (size_t i = 0; i < part.len && line_id->state != LINE_ID_DECIDED; i++)
		byte(line_id, part.data[i]);
	return line_id->state == LINE_ID_DECIDED;
}

char *line_id_find(struct text line)
{
	struct line_id line_id = {0};

	(void)line_id_feed(
		&line_id, (struct text){line.data, line.len < SCAN_BYTES ? line.len : SCAN_BYTES});
	return line_id.id_text;
}

void line_id_reset(struct line_id *line_id)
{
	free(line_id->id_text);
	*line_id = (struct line_id){0};
}
