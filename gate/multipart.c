// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. The client is hostile. A delimiter is CR LF "--" boundary. Only its
 * first byte is CR, so inside a partial match no other delimiter can begin.
 */
#include "gate/multipart.h"

#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#define MEDIA_TYPE "multipart/form-data"

enum state { PREAMBLE, DELIMITER, DELIMITER_DASH, DELIMITER_CR, HEAD, BODY, EPILOGUE };

struct multipart {
	const struct multipart_events *events;
	void *context;
	enum state state;
	size_t matched; /* bytes of the delimiter that came last */
	size_t before;  /* of these, bytes that were read before the content began */
	struct byte_queue head;
	size_t len;
	char delimiter[4 + LIMIT_MULTIPART_BOUNDARY_BYTES];
};

static void skip_space(struct text *text)
{
	while (text->len > 0 && (text->data[0] == ' ' || text->data[0] == '\t')) {
		text->data++;
		text->len--;
	}
}

/* Takes what precedes the first of @marks. */
static struct text take_until(struct text *text, const char *marks)
{
	struct text taken = {text->data, 0};

	while (taken.len < text->len && text->data[taken.len] != '\0' &&
		!strchr(marks, text->data[taken.len]))
		taken.len++;
	text->data += taken.len;
	text->len -= taken.len;
	return taken;
}

/*
 * Takes a quoted string behind its '"'. Browsers write file names with bare backslashes, so that
 * one escapes a quote or itself and nothing else. Returns NULL if it does not end, or no memory.
 */
static char *take_quoted(struct text *text)
{
	char *value = malloc(text->len + 1);
	size_t n = 0;

	for (size_t i = 0; value && i < text->len; i++) {
		char c = text->data[i];

		if (c == '"') {
			value[n] = '\0';
			text->data += i + 1;
			text->len -= i + 1;
			return value;
		}
		if (c == '\\' && i + 1 < text->len &&
			(text->data[i + 1] == '"' || text->data[i + 1] == '\\'))
			c = text->data[++i];
		value[n++] = c;
	}
	free(value);
	return NULL;
}

/* Takes "; NAME=VALUE". Returns 1, 0 at the end of @text, or -EBADMSG. The caller frees *ret. */
static int take_parameter(struct text *text, struct text *ret_name, char **ret)
{
	struct text value;

	skip_space(text);
	if (text->len == 0)
		return 0;
	if (text->data[0] != ';')
		return -EBADMSG;
	text->data++;
	text->len--;
	skip_space(text);
	*ret_name = take_until(text, "=; \t");
	if (ret_name->len == 0)
		return text->len == 0 ? 0 : -EBADMSG;
	if (text->len == 0 || text->data[0] != '=')
		return -EBADMSG;
	text->data++;
	text->len--;
	if (text->len > 0 && text->data[0] == '"') {
		text->data++;
		text->len--;
		*ret = take_quoted(text);
	} else {
		value = take_until(text, "; \t");
		*ret = strndup(value.data, value.len);
	}
	return *ret ? 1 : -EBADMSG;
}

static bool is_word(struct text text, const char *word)
{
	return text.len == strlen(word) && strncasecmp(text.data, word, text.len) == 0;
}

/* Takes the parameters that @names has, each at most once. Returns 0 or -EBADMSG. */
static int take_parameters(struct text text, const char *const *names, char **values, size_t n)
{
	struct text name;
	char *value;
	int r;

	while ((r = take_parameter(&text, &name, &value)) > 0) {
		size_t i = 0;

		while (i < n && !is_word(name, names[i]))
			i++;
		if (i < n && values[i]) {
			free(value);
			return -EBADMSG;
		}
		if (i < n)
			values[i] = value;
		else
			free(value);
	}
	return r;
}

bool multipart_is_type(const char *content_type)
{
	struct text text = text_from(content_type);

	return is_word(take_until(&text, "; \t"), MEDIA_TYPE);
}

static bool is_boundary(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > LIMIT_MULTIPART_BOUNDARY_BYTES || text[len - 1] == ' ')
		return false;
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return true;
}

int multipart_new(const char *content_type, const struct multipart_events *events, void *context,
	struct multipart **ret)
{
	static const char *const names[] = {"boundary"};
	struct text text = text_from(content_type);
	_cleanup_free_ char *boundary = NULL;
	struct multipart *multipart;

	(void)take_until(&text, "; \t");
	if (take_parameters(text, names, &boundary, 1) < 0 || !boundary || !is_boundary(boundary))
		return -EINVAL;
	multipart = calloc(1, sizeof(*multipart));
	if (!multipart)
		return -ENOMEM;
	multipart->events = events;
	multipart->context = context;
	memcpy(multipart->delimiter, "\r\n--", 4);
	memcpy(multipart->delimiter + 4, boundary, strlen(boundary));
	multipart->len = 4 + strlen(boundary);
	multipart->matched = multipart->before = 2; /* the body may begin with one */
	*ret = multipart;
	return 0;
}

/* Reads the value of Content-Disposition. */
static int read_disposition(struct text value, char **names)
{
	static const char *const parameters[] = {"name", "filename"};

	skip_space(&value);
	if (names[0] || names[1] || !is_word(take_until(&value, "; \t"), "form-data"))
		return -EBADMSG;
	return take_parameters(value, parameters, names, ARRAY_SIZE(parameters));
}

/* Reads the head of a part, whose lines end with CR LF, and begins the part. */
static int read_head(struct multipart *multipart)
{
	struct text rest = byte_queue_peek(&multipart->head);
	char *names[2] = {NULL, NULL};
	int r = text_has_nul(rest) ? -EBADMSG : 0;

	while (r == 0 && rest.len > 2) {
		struct text line = text_take(&rest, '\n'), name;

		if (line.len == 0 || line.data[line.len - 1] != '\r') {
			r = -EBADMSG;
			break;
		}
		line.len--;
		name = take_until(&line, ": \t");
		if (name.len == 0 || line.len == 0 || line.data[0] != ':')
			r = -EBADMSG;
		else if (is_word(name, "Content-Disposition"))
			r = read_disposition((struct text){line.data + 1, line.len - 1}, names);
	}
	byte_queue_free(&multipart->head);
	multipart->state = BODY;
	/* A part without content may end with the line that ends its head. */
	multipart->matched = multipart->before = 2;
	if (r == 0)
		multipart->events->begin(multipart->context, names[0], names[1]);
	free(names[0]);
	free(names[1]);
	return r;
}

static bool head_is_whole(struct text head)
{
	static const char end[] = "\r\n\r\n";

	return (head.len == 2 && memcmp(head.data, end, 2) == 0) ||
	       (head.len >= 4 && memcmp(head.data + head.len - 4, end, 4) == 0);
}

static int take_head(struct multipart *multipart, struct text *data)
{
	struct text line = text_take(data, '\n');
	bool is_line = line.data + line.len < data->data;

	line.len += is_line;
	if (multipart->head.len + line.len > LIMIT_MULTIPART_HEAD_BYTES)
		return -EBADMSG;
	if (byte_queue_append(&multipart->head, line.data, line.len) < 0)
		return -ENOMEM;
	return is_line && head_is_whole(byte_queue_peek(&multipart->head)) ? read_head(multipart)
									   : 0;
}

static void tell_multipart_data(struct multipart *multipart, struct text data)
{
	if (multipart->state == BODY && data.len > 0)
		multipart->events->data(multipart->context, data);
}

/* Takes what is before a delimiter, or before the end of @data. */
static void take_content(struct multipart *multipart, struct text *data)
{
	const char *cr;
	struct text plain;

	while (data->len > 0 && multipart->matched > 0 && multipart->matched < multipart->len) {
		if (data->data[0] != multipart->delimiter[multipart->matched]) {
			tell_multipart_data(
				multipart, (struct text){multipart->delimiter + multipart->before,
						   multipart->matched - multipart->before});
			multipart->matched = multipart->before = 0;
			break;
		}
		multipart->matched++;
		data->data++;
		data->len--;
	}
	if (multipart->matched == multipart->len) {
		if (multipart->state == BODY)
			multipart->events->end(multipart->context);
		multipart->state = DELIMITER;
		multipart->matched = multipart->before = 0;
		return;
	}
	if (data->len == 0)
		return;
	cr = memchr(data->data, '\r', data->len);
	plain = (struct text){data->data, cr ? (size_t)(cr - data->data) : data->len};
	tell_multipart_data(multipart, plain);
	data->data += plain.len + (cr != NULL);
	data->len -= plain.len + (cr != NULL);
	multipart->matched = cr != NULL;
}

/* Takes one byte behind a delimiter: "--" after the last one, otherwise spaces and CR LF. */
static int take_mark(struct multipart *multipart, struct text *data)
{
	char c = data->data[0];

	data->data++;
	data->len--;
	if (multipart->state == DELIMITER && c == '-')
		multipart->state = DELIMITER_DASH;
	else if (multipart->state == DELIMITER && c == '\r')
		multipart->state = DELIMITER_CR;
	else if (multipart->state == DELIMITER_DASH && c == '-')
		multipart->state = EPILOGUE;
	else if (multipart->state == DELIMITER_CR && c == '\n')
		multipart->state = HEAD;
	else if (multipart->state != DELIMITER || (c != ' ' && c != '\t'))
		return -EBADMSG;
	return 0;
}

int multipart_take(struct multipart *multipart, struct text data)
{
	int r = 0;

	while (r == 0 && data.len > 0 && multipart->state != EPILOGUE) {
		if (multipart->state == PREAMBLE || multipart->state == BODY)
			take_content(multipart, &data);
		else if (multipart->state == HEAD)
			r = take_head(multipart, &data);
		else
			r = take_mark(multipart, &data);
	}
	return r;
}

bool multipart_is_whole(const struct multipart *multipart)
{
	return multipart->state == EPILOGUE;
}

void multipart_free(struct multipart *multipart)
{
	if (!multipart)
		return;
	byte_queue_free(&multipart->head);
	free(multipart);
}
