// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. Every byte of a head is a stranger's. RFC 9112, RFC 9110.
 */
#include "gate/head.h"

#include "common/cleanup.h"
#include "common/egress/host.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char token_marks[] = "!#$%&'*+-.^_`|~";

bool gate_head_is_name(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr(token_marks, *text))
			return false;
	return true;
}

/* A value has no control characters but tabs: a bare CR would end a line for another reader. */
bool gate_head_is_value(const char *text)
{
	for (; *text; text++)
		if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
			return false;
	return true;
}

const char *gate_head_field(const struct gate_head *head, const char *name)
{
	for (size_t i = 0; i < head->n_fields; i++)
		if (strcasecmp(head->fields[i].name, name) == 0)
			return head->fields[i].value;
	return NULL;
}

static size_t count_head_fields(const struct gate_head *head, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		n += strcasecmp(head->fields[i].name, name) == 0;
	return n;
}

static bool refuse_gate_head(struct gate_refusal *ret, unsigned status, const char *message)
{
	*ret = (struct gate_refusal){status, message};
	return false;
}

static bool check_line(const struct gate_head *head, struct gate_refusal *ret)
{
	static const char *const methods[] = {
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
	bool known = false;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		known |= strcmp(head->method, methods[i]) == 0;
	if (strcmp(head->version, "HTTP/1.1") != 0 && strcmp(head->version, "HTTP/1.0") != 0)
		return refuse_gate_head(ret, 505, "HTTP/1.1 is spoken here");
	if (!known)
		return refuse_gate_head(ret, 501, "no such method");
	if (head->target[0] != '/' || !gate_head_is_value(head->target) ||
		strchr(head->target, '#'))
		return refuse_gate_head(ret, 400, "the target must be a path");
	return true;
}

/*
 * libmicrohttpd 0.9 joins a continuation line to the name of the field before it. What would have
 * been a field of the body's framing must not become an unknown one that is ignored.
 */
static bool is_near_framing(const char *name)
{
	static const char *const framing[] = {"Content-Length", "Transfer-Encoding"};

	for (size_t i = 0; i < ARRAY_SIZE(framing); i++)
		if (strncasecmp(name, framing[i], strlen(framing[i])) == 0 &&
			name[strlen(framing[i])] != '\0')
			return true;
	return false;
}

static bool check_fields(const struct gate_head *head, struct gate_refusal *ret)
{
	static const char *const once[] = {"Host", "Content-Length", "Transfer-Encoding",
		"Content-Type", "Authorization", "X-API-Key", "Origin", "Expect", "Upgrade"};

	for (size_t i = 0; i < head->n_fields; i++) {
		if (!gate_head_is_name(head->fields[i].name) ||
			is_near_framing(head->fields[i].name))
			return refuse_gate_head(ret, 400, "the name of a header is malformed");
		if (!gate_head_is_value(head->fields[i].value))
			return refuse_gate_head(
				ret, 400, "the value of a header has a control character");
	}
	for (size_t i = 0; i < ARRAY_SIZE(once); i++)
		if (count_head_fields(head, once[i]) > 1)
			return refuse_gate_head(
				ret, 400, "a header that may be given once is repeated");
	return true;
}

static bool check_framing(const struct gate_head *head, struct gate_refusal *ret)
{
	const char *length = gate_head_field(head, "Content-Length");
	const char *coding = gate_head_field(head, "Transfer-Encoding");
	const char *expect = gate_head_field(head, "Expect");

	if (length && coding)
		return refuse_gate_head(ret, 400, "Content-Length with Transfer-Encoding");
	if (length && (!*length || strspn(length, "0123456789") != strlen(length)))
		return refuse_gate_head(ret, 400, "Content-Length must be a number");
	if (coding && strcmp(head->version, "HTTP/1.1") != 0)
		return refuse_gate_head(ret, 400, "Transfer-Encoding needs HTTP/1.1");
	if (coding && strcasecmp(coding, "chunked") != 0)
		return refuse_gate_head(ret, 501, "of transfer codings only chunked is known");
	if (expect && strcasecmp(expect, "100-continue") != 0)
		return refuse_gate_head(ret, 417, "only 100-continue can be expected");
	return true;
}

bool gate_head_check(const struct gate_head *head, struct gate_refusal *ret)
{
	if (!check_line(head, ret) || !check_fields(head, ret) || !check_framing(head, ret))
		return false;
	if (!gate_head_field(head, "Host"))
		return refuse_gate_head(ret, 400, "Host is missing");
	return true;
}

bool gate_host_read(const char *value, struct host *ret)
{
	uint16_t port;

	return host_port_parse(text_from(value), 80, ret, &port) == 0;
}

bool gate_host_is_loopback(const char *host)
{
	static const char name[] = "localhost";
	size_t len = strlen(host);

	if (len >= sizeof(name) && host[len - sizeof(name)] == '.')
		return strcmp(host + len - (sizeof(name) - 1), name) == 0;
	return strcmp(host, name) == 0 || strcmp(host, "::1") == 0 ||
	       strcmp(host, "127.0.0.1") == 0;
}
