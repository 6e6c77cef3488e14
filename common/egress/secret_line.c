// SPDX-License-Identifier: Apache-2.0
/* Used by cloister-egress and cloisterd, on root's configuration. Has no state. RFC 9110, 5. */
#include "common/egress/secret_line.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct text trimmed_secret_word(struct text text)
{
	while (text.len > 0 && is_blank(text.data[0])) {
		text.data++;
		text.len--;
	}
	while (text.len > 0 && is_blank(text.data[text.len - 1]))
		text.len--;
	return text;
}

static bool consists_of(struct text text, const char *letters)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '\0' || !strchr(letters, text.data[i]))
			return false;
	return text.len > 0;
}

static char folded(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '_' ? '-' : c;
}

bool secret_same_field(struct text a, struct text b)
{
	for (size_t i = 0; i < a.len && i < b.len; i++)
		if (folded(a.data[i]) != folded(b.data[i]))
			return false;
	return a.len == b.len;
}

static bool is_name(struct text name)
{
	return consists_of(name, "abcdefghijklmnopqrstuvwxyz0123456789-") && name.len <= 63 &&
	       name.data[0] != '-' && name.data[name.len - 1] != '-';
}

/* Fields that say where a request goes or ends are no place for a secret. */
static bool is_field(struct text field)
{
	static const struct text taken[] = {TEXT_LITERAL("Host"), TEXT_LITERAL("Connection"),
		TEXT_LITERAL("Content-Length"), TEXT_LITERAL("Transfer-Encoding"),
		TEXT_LITERAL("TE"), TEXT_LITERAL("Trailer"), TEXT_LITERAL("Upgrade"),
		TEXT_LITERAL("Expect")};

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (secret_same_field(field, taken[i]))
			return false;
	return field.len <= LIMIT_EGRESS_FIELD_BYTES &&
	       consists_of(field, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789!#$%&'*+-.^_`|~");
}

static bool set_header(struct secret_line *line, struct text value)
{
	line->field = trimmed_secret_word(text_take(&value, ':'));
	line->prefix = trimmed_secret_word(value);
	for (size_t i = 0; i < line->prefix.len; i++)
		if (line->prefix.data[i] < ' ' || line->prefix.data[i] > '~')
			return false;
	return is_field(line->field) && line->prefix.len <= LIMIT_EGRESS_FIELD_BYTES;
}

static bool set_host(struct secret_line *line, struct text value)
{
	return host_port_parse(value, 443, &line->host, &line->port) == 0;
}

static bool set_file(struct secret_line *line, struct text value)
{
	line->file = value;
	return value.len > 1 && value.len <= LIMIT_EGRESS_PATH_BYTES && value.data[0] == '/' &&
	       value.data[value.len - 1] != '/' && !text_has_nul(value);
}

static const struct {
	struct text key;
	bool (*set)(struct secret_line *line, struct text value);
	const char *form;
} words[] = {
	{TEXT_LITERAL("host"), set_host, "host= is not HOST or HOST:PORT"},
	{TEXT_LITERAL("header"), set_header,
		"header= is not \"FIELD: PREFIX\", the name of a field of an HTTP request that "
		"says "
		"nothing about its host or end, and printable ASCII"},
	{TEXT_LITERAL("file"), set_file, "file= is not the absolute path of a file"},
};

/* Takes "KEY=VALUE" or KEY="VALUE" from @text. Returns false if there is neither. */
static bool take_secret_line_word(struct text *text, struct text *ret_key, struct text *ret_value)
{
	const char *equals = memchr(text->data, '=', text->len);
	bool quoted;
	size_t n = 0;

	if (!equals)
		return false;
	*ret_key = text_take(text, '=');
	quoted = text->len > 0 && text->data[0] == '"';
	if (!quoted) {
		while (n < text->len && !is_blank(text->data[n]) && text->data[n] != '"')
			n++;
		*ret_value = (struct text){text->data, n};
		text->data += n;
		text->len -= n;
	} else {
		text_take(text, '"');
		if (!memchr(text->data, '"', text->len))
			return false;
		*ret_value = text_take(text, '"');
	}
	return text->len == 0 || is_blank(text->data[0]);
}

/* Returns NULL, or what is wrong. */
static const char *parse_words(struct secret_line *line, struct text rest)
{
	static const char form[] = "write NAME host=HOST[:PORT] header=\"FIELD: PREFIX\" file=PATH";
	bool seen[ARRAY_SIZE(words)] = {false};
	size_t n = 0;

	while ((rest = trimmed_secret_word(rest)).len > 0) {
		struct text key, value;
		size_t i = 0;

		if (!take_secret_line_word(&rest, &key, &value))
			return form;
		while (i < ARRAY_SIZE(words) && !text_equal(words[i].key, key))
			i++;
		if (i == ARRAY_SIZE(words) || seen[i])
			return form;
		seen[i] = true;
		n++;
		if (!words[i].set(line, value))
			return words[i].form;
	}
	return n == ARRAY_SIZE(words) ? NULL : form;
}

int secret_line_parse(struct text text, struct secret_line *ret, char *why, size_t size)
{
	struct secret_line line = {0};
	struct text rest = trimmed_secret_word(text);
	const char *wrong;
	size_t n = 0;

	while (n < rest.len && !is_blank(rest.data[n]))
		n++;
	line.name = (struct text){rest.data, n};
	rest.data += n;
	rest.len -= n;
	wrong = is_name(line.name) ? parse_words(&line, rest)
				   : "a secret begins with its name: at most 63 of a to z, 0 to 9 "
				     "and -, which is at neither end";
	if (wrong) {
		snprintf(why, size, "%s", wrong);
		return -EINVAL;
	}
	*ret = line;
	return 0;
}

const char *secret_file_wrong(const struct stat *attributes)
{
	if (!S_ISREG(attributes->st_mode))
		return "the file is not a regular file";
	if (attributes->st_mode & S_IRWXO)
		return "users other than its owner and its group may use the file: chmod o-rwx";
	if (attributes->st_mode & S_IWGRP)
		return "the group may write the file: chmod g-w";
	return NULL;
}
