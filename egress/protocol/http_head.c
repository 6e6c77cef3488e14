// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-egress. Pure functions on a client's bytes, of which none is trusted. */
#include "egress/protocol/http_head.h"

#include "common/cleanup.h"
#include "common/egress/secret_line.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

static const struct text line_end = TEXT_LITERAL("\r\n");

static const struct text end = TEXT_LITERAL("\r\n\r\n");

size_t http_head_end(struct text bytes, size_t seen)
{
	size_t from = seen > end.len ? seen - end.len : 0;
	const char *found = bytes.len > from ? (const char *)memmem(bytes.data + from,
						       bytes.len - from, end.data, end.len)
					     : NULL;

	return found ? (size_t)(found - bytes.data) + end.len : 0;
}

/* Characters of a method and of a field's name: RFC 9110, 5.6.2. */
static bool is_token(struct text text)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];
		bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!is_letter && !(c >= '0' && c <= '9') && (c == '\0' || !strchr(others, c)))
			return false;
	}
	return text.len > 0;
}

static bool same_word(struct text a, const char *b)
{
	return a.len == strlen(b) && strncasecmp(a.data, b, a.len) == 0;
}

/* Takes a line with its CRLF. A CR or LF anywhere else, or a NUL, is a mistake. */
static int take_http_line(struct text *text, struct text *ret)
{
	const char *at = text->len > 0 ? (const char *)memmem(
						 text->data, text->len, line_end.data, line_end.len)
				       : NULL;
	struct text line;

	if (!at)
		return -EBADMSG;
	line = (struct text){text->data, (size_t)(at - text->data)};
	*text = (struct text){at + line_end.len, text->len - line.len - line_end.len};
	for (size_t i = 0; i < line.len; i++)
		if ((unsigned char)line.data[i] < ' ' && line.data[i] != '\t')
			return -EBADMSG;
	*ret = line;
	return 0;
}

static int split_first_line(struct text line, struct http_head *head, struct text *ret_target)
{
	struct text method = text_take(&line, ' '), target = text_take(&line, ' ');

	if (!is_token(method) || target.len == 0 ||
		(!text_equal(line, TEXT_LITERAL("HTTP/1.1")) &&
			!text_equal(line, TEXT_LITERAL("HTTP/1.0"))))
		return -EBADMSG;
	for (size_t i = 0; i < target.len; i++)
		if (target.data[i] <= ' ' || target.data[i] > '~')
			return -EBADMSG;
	head->is_http10 = text_equal(line, TEXT_LITERAL("HTTP/1.0"));
	head->method = method;
	*ret_target = target;
	return 0;
}

static int parse_url(struct text url, struct http_head *head)
{
	static const struct text http = TEXT_LITERAL("http://");
	size_t n = 0;

	if (url.len < http.len || strncasecmp(url.data, http.data, http.len) != 0)
		return memmem(url.data, url.len, "://", 3) ? -EPROTONOSUPPORT : -EBADMSG;
	url.data += http.len;
	url.len -= http.len;
	while (n < url.len && !strchr("/?#", url.data[n]))
		n++;
	head->path = (struct text){url.data + n, url.len - n};
	if (head->path.len > 0 && memchr(head->path.data, '#', head->path.len))
		return -EBADMSG;
	return host_port_parse((struct text){url.data, n}, 80, &head->host, &head->port);
}

static struct text trimmed(struct text text)
{
	while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
		text.data++;
		text.len--;
	}
	while (text.len > 0 && strchr(" \t", text.data[text.len - 1]))
		text.len--;
	return text;
}

/* Keeps the words of a field Connection, once, because each other field is compared with them. */
static int take_named(struct text value, struct http_head *head)
{
	while (value.len > 0) {
		struct text word = trimmed(text_take(&value, ','));

		if (word.len == 0)
			continue;
		if (head->n_named == HTTP_HEAD_NAMED)
			return -EBADMSG;
		head->named[head->n_named++] = word;
	}
	return 0;
}

static int check_fields(struct http_head *head)
{
	struct text fields = head->fields, line;

	for (unsigned n = 0; fields.len > 0; n++) {
		struct text name;

		if (n == LIMIT_EGRESS_FIELDS || take_http_line(&fields, &line) < 0 ||
			!memchr(line.data, ':', line.len))
			return -EBADMSG;
		name = text_take(&line, ':');
		if (!is_token(name) ||
			(same_word(name, "Connection") && take_named(line, head) < 0))
			return -EBADMSG;
	}
	return 0;
}

/* Splits a whole head. */
static int split(struct text bytes, struct http_head *head, struct text *ret_target)
{
	struct text line;

	if (bytes.len == 0 || http_head_end(bytes, 0) != bytes.len ||
		take_http_line(&bytes, &line) < 0 || split_first_line(line, head, ret_target) < 0)
		return -EBADMSG;
	head->fields = (struct text){bytes.data, bytes.len - line_end.len};
	return check_fields(head);
}

int http_head_parse(struct text bytes, struct http_head *ret)
{
	struct http_head head = {0};
	struct text target = {0};
	int r = split(bytes, &head, &target);

	if (r < 0)
		return r;
	if (text_equal(head.method, TEXT_LITERAL("CONNECT"))) {
		head.kind = HTTP_CONNECT;
		r = host_port_parse(target, 0, &head.host, &head.port);
	} else {
		head.kind = HTTP_ABSOLUTE;
		r = parse_url(target, &head);
	}
	if (r == 0)
		*ret = head;
	return r;
}

int http_head_parse_origin(struct text bytes, struct http_head *ret)
{
	struct http_head head = {.kind = HTTP_ORIGIN};
	struct text target = {0}, fields, line;
	unsigned hosts = 0;
	int r = split(bytes, &head, &target);

	if (r < 0 || (target.data[0] != '/' && !text_equal(target, TEXT_LITERAL("*"))))
		return -EBADMSG;
	head.path = target;
	fields = head.fields;
	while (r == 0 && take_http_line(&fields, &line) == 0) {
		if (!same_word(text_take(&line, ':'), "Host"))
			continue;
		r = hosts++ > 0 ? -EBADMSG
				: host_port_parse(trimmed(line), 80, &head.host, &head.port);
	}
	if (r < 0)
		return r;
	if (hosts == 0 || head.port != 80)
		return -EINVAL;
	*ret = head;
	return 0;
}

struct text http_head_target(struct text head)
{
	struct text line = text_take(&head, '\r');

	text_take(&line, ' ');
	return text_take(&line, ' ');
}

struct text http_head_host(struct text head)
{
	struct text line;

	text_take(&head, '\n');
	while (take_http_line(&head, &line) == 0)
		if (same_word(text_take(&line, ':'), "Host"))
			return trimmed(line);
	return (struct text){0};
}

static bool names_field(const struct http_head *head, struct text name)
{
	for (size_t i = 0; i < head->n_named; i++)
		if (head->named[i].len == name.len &&
			strncasecmp(head->named[i].data, name.data, name.len) == 0)
			return true;
	return false;
}

/* Fields for the proxy itself, or for the connection to it: RFC 9110, 7.6.1. */
static bool is_for_proxy(struct text name, const struct http_head *head)
{
	static const char *const names[] = {"Host", "Connection", "Keep-Alive", "Proxy-Connection",
		"Proxy-Authorization", "Proxy-Authenticate", "TE"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (same_word(name, names[i]))
			return true;
	/* The length of the body is never the proxy's business, whatever the client says. */
	if (same_word(name, "Upgrade") || same_word(name, "Content-Length") ||
		same_word(name, "Transfer-Encoding"))
		return false;
	return names_field(head, name);
}

static int append(struct byte_queue *queue, struct text text)
{
	return byte_queue_append(queue, text.data, text.len);
}

/* Whether the client asks for a WebSocket, the one protocol that begins like this: RFC 6455. */
static bool asks_for_web_socket(const struct http_head *head)
{
	struct text fields = head->fields, line;

	if (!names_field(head, TEXT_LITERAL("upgrade")))
		return false;
	while (take_http_line(&fields, &line) == 0)
		if (same_word(text_take(&line, ':'), "Upgrade"))
			return same_word(trimmed(line), "websocket");
	return false;
}

static int append_fields(const struct http_head *head, bool web_socket, struct byte_queue *queue)
{
	struct text fields = head->fields, line;
	int r = 0;

	while (r == 0 && take_http_line(&fields, &line) == 0) {
		struct text rest = line, name = text_take(&rest, ':');

		if (is_for_proxy(name, head) || (!web_socket && same_word(name, "Upgrade")))
			continue;
		r = append(queue, line);
		if (r == 0)
			r = append(queue, line_end);
	}
	return r;
}

/* Appends the authority of @host; @usual is the port that needs no mention. */
static int append_authority(
	struct byte_queue *queue, const struct host *host, uint16_t port, uint16_t usual)
{
	bool ipv6 = host->kind == HOST_IPV6;
	char text[LIMIT_EGRESS_HOST_BYTES + 16];
	int n = snprintf(
		text, sizeof(text), "%s%s%s", ipv6 ? "[" : "", host->text, ipv6 ? "]" : "");

	if (port != usual)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ":%u", port);
	return append(queue, (struct text){text, (size_t)n});
}

/*
 * Another protocol than a WebSocket (curl offers h2c) is not begun: without "close" the connection
 * would stay, and the client send requests for other hosts on it.
 */
int http_head_rewrite(const struct http_head *head, struct byte_queue *queue)
{
	bool web_socket = asks_for_web_socket(head);
	bool is_options = text_equal(head->method, TEXT_LITERAL("OPTIONS"));
	bool bare = head->path.len == 0;
	int r = append(queue, head->method);

	if (r == 0)
		r = append(queue, TEXT_LITERAL(" "));
	if (r == 0 && (bare || head->path.data[0] == '?'))
		r = append(queue, bare && is_options ? TEXT_LITERAL("*") : TEXT_LITERAL("/"));
	if (r == 0)
		r = append(queue, head->path);
	if (r == 0)
		r = append(queue, TEXT_LITERAL(" HTTP/1.1\r\nHost: "));
	if (r == 0)
		r = append_authority(queue, &head->host, head->port, 80);
	if (r == 0)
		r = append(queue, web_socket ? TEXT_LITERAL("\r\nConnection: Upgrade\r\n")
					     : TEXT_LITERAL("\r\nConnection: close\r\n"));
	if (r == 0)
		r = append_fields(head, web_socket, queue);
	return r == 0 ? append(queue, line_end) : r;
}

static int parse_length(struct text digits, struct http_body *body)
{
	if (digits.len == 0 || digits.len > HTTP_LENGTH_DIGITS)
		return -EBADMSG;
	for (size_t i = 0; i < digits.len; i++) {
		if (digits.data[i] < '0' || digits.data[i] > '9')
			return -EBADMSG;
		body->left = body->left * 10 + (uint64_t)(digits.data[i] - '0');
	}
	body->framing = HTTP_LENGTH;
	return 0;
}

int http_head_body(const struct http_head *head, struct http_body *ret)
{
	struct http_body body = {.framing = HTTP_NO_BODY};
	struct text fields = head->fields, line;
	unsigned n = 0;
	int r = 0;

	while (r == 0 && take_http_line(&fields, &line) == 0) {
		struct text name = text_take(&line, ':'), value = trimmed(line);
		bool is_coding = secret_same_field(name, TEXT_LITERAL("Transfer-Encoding"));

		if (!is_coding && !secret_same_field(name, TEXT_LITERAL("Content-Length")))
			continue;
		if (n++ > 0)
			return -EBADMSG;
		if (!is_coding)
			r = parse_length(value, &body);
		else if (head->is_http10 || !same_word(value, "chunked"))
			r = -EBADMSG;
		else
			body.framing = HTTP_CHUNKED;
	}
	if (r == 0)
		*ret = body;
	return r;
}

/*
 * Fields that the host of a secret does not get from a client: those for a proxy or about the
 * framing, which this process writes itself, and those with credentials: a program that has some of
 * its own for the host must not carry a workspace's data to another account there.
 */
static bool is_kept_back(struct text name, struct text secret)
{
	static const struct text names[] = {TEXT_LITERAL("Content-Length"),
		TEXT_LITERAL("Transfer-Encoding"), TEXT_LITERAL("Trailer"), TEXT_LITERAL("Upgrade"),
		TEXT_LITERAL("HTTP2-Settings"), TEXT_LITERAL("Authorization"),
		TEXT_LITERAL("Cookie"), TEXT_LITERAL("X-Api-Key"), TEXT_LITERAL("Api-Key"),
		TEXT_LITERAL("X-Goog-Api-Key"), TEXT_LITERAL("X-Auth-Token"),
		TEXT_LITERAL("Private-Token")};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (secret_same_field(name, names[i]))
			return true;
	return secret_same_field(name, secret);
}

static int append_kept(const struct http_head *head, struct text secret, struct byte_queue *queue)
{
	struct text fields = head->fields, line;
	int r = 0;

	while (r == 0 && take_http_line(&fields, &line) == 0) {
		struct text rest = line, name = text_take(&rest, ':');

		if (is_for_proxy(name, head) || is_kept_back(name, secret))
			continue;
		r = append(queue, line);
		if (r == 0)
			r = append(queue, line_end);
	}
	return r;
}

static int append_framing(const struct http_body *body, struct byte_queue *queue)
{
	char length[64];
	int n;

	if (body->framing == HTTP_NO_BODY)
		return 0;
	if (body->framing == HTTP_CHUNKED)
		return append(queue, TEXT_LITERAL("Transfer-Encoding: chunked\r\n"));
	n = snprintf(length, sizeof(length), "Content-Length: %" PRIu64 "\r\n", body->left);
	return append(queue, (struct text){length, (size_t)n});
}

/* TRACE sends back the head that came (RFC 9110, 9.3.8), and TRACK is another name for it. */
static bool is_served(const struct http_head *head)
{
	return !same_word(head->method, "TRACE") && !same_word(head->method, "TRACK") &&
	       !same_word(head->method, "CONNECT") && !text_equal(head->path, TEXT_LITERAL("*")) &&
	       (head->path.len == 0 || !memchr(head->path.data, '#', head->path.len));
}

int http_head_rewrite_for(const struct http_head *head, const struct host *host, uint16_t port,
	struct text secret, const struct http_body *body, struct byte_queue *queue)
{
	int r = is_served(head) ? append(queue, head->method) : -EBADMSG;

	if (r == 0)
		r = append(queue, head->path.len > 0 && head->path.data[0] == '/'
					  ? TEXT_LITERAL(" ")
					  : TEXT_LITERAL(" /"));
	if (r == 0)
		r = append(queue, head->path);
	if (r == 0)
		r = append(queue, TEXT_LITERAL(" HTTP/1.1\r\nHost: "));
	if (r == 0)
		r = append_authority(queue, host, port, 443);
	if (r == 0)
		r = append(queue, TEXT_LITERAL("\r\nConnection: close\r\n"));
	if (r == 0)
		r = append_kept(head, secret, queue);
	return r == 0 ? append_framing(body, queue) : r;
}
