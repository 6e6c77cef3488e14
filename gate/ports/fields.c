// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate. Clients and the servers of workspaces are hostile. */
#include "gate/ports/fields.h"

#include "common/cleanup.h"
#include "common/keys/gate_key.h"

#include <string.h>
#include <strings.h>

/* Fields of one connection, and those that libcurl and libmicrohttpd write themselves. */
static const char *const of_connection[] = {"Connection", "Keep-Alive", "Proxy-Connection", "TE",
	"Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Proxy-Authenticate",
	"Proxy-Authorization", "HTTP2-Settings"};

/* The gate says these itself: a client could lie. */
static const char *const of_gate[] = {"Host", "Expect", "Forwarded", "X-Forwarded-For",
	"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Real-IP"};

static const char *const tokens[] = {
	"X-Access-Token", "E2b-Traffic-Access-Token", "E2b-Sandbox-Id", "E2b-Sandbox-Port"};

/* Fields about the whole origin, which other sandboxes share. */
static const char *const of_origin[] = {"Set-Cookie", "Set-Cookie2", "Service-Worker-Allowed",
	"Strict-Transport-Security", "Clear-Site-Data", "NEL", "Report-To", "Reporting-Endpoints"};

static bool has(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(names[i], name) == 0)
			return true;
	return false;
}

bool port_list_has(const char *list, const char *token)
{
	size_t len = strlen(token);

	while (list && *list) {
		size_t item = strcspn(list, ",");
		const char *begin = list + strspn(list, " \t");
		const char *end = list + item;

		while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
			end--;
		if (begin < end && (size_t)(end - begin) == len &&
			strncasecmp(begin, token, len) == 0)
			return true;
		list += item + (list[item] == ',');
	}
	return false;
}

const char *port_field_credential(const struct gate_field *field)
{
	static const struct text bearer = TEXT_LITERAL("Bearer ");
	const char *value = field->value;

	if (strcasecmp(field->name, "Authorization") != 0 &&
		strcasecmp(field->name, "X-API-Key") != 0)
		return NULL;
	if (strncasecmp(value, bearer.data, bearer.len) == 0)
		value += bearer.len;
	return value + strspn(value, " \t");
}

/* A client that has a key may send it also where none is needed. */
static bool is_key(const struct gate_field *field)
{
	const char *value = port_field_credential(field);

	return value && strncmp(value, GATE_KEY_PREFIX, strlen(GATE_KEY_PREFIX)) == 0;
}

static bool is_named_by(const struct gate_head *head, const char *name)
{
	for (size_t i = 0; i < head->n_fields; i++)
		if (strcasecmp(head->fields[i].name, "Connection") == 0 &&
			port_list_has(head->fields[i].value, name))
			return true;
	return false;
}

bool port_field_goes_in(
	const struct gate_head *head, const struct gate_field *field, bool shares_origin)
{
	const char *name = field->name;

	if (has(of_connection, ARRAY_SIZE(of_connection), name) ||
		has(of_gate, ARRAY_SIZE(of_gate), name) || has(tokens, ARRAY_SIZE(tokens), name))
		return false;
	if (shares_origin && strcasecmp(name, "Cookie") == 0)
		return false;
	return !is_key(field) && !is_named_by(head, name);
}

bool port_field_goes_out(const char *name, const char *connection, bool shares_origin)
{
	if (has(of_connection, ARRAY_SIZE(of_connection), name) || strcasecmp(name, "Date") == 0 ||
		strcasecmp(name, "Alt-Svc") == 0)
		return false;
	if (shares_origin && has(of_origin, ARRAY_SIZE(of_origin), name))
		return false;
	return !port_list_has(connection, name);
}

bool port_wants_websocket(const struct gate_head *head)
{
	const char *upgrade = gate_head_field(head, "Upgrade");

	return upgrade && strcasecmp(upgrade, "websocket") == 0 && is_named_by(head, "Upgrade") &&
	       strcmp(head->method, "GET") == 0 && strcmp(head->version, "HTTP/1.1") == 0 &&
	       !gate_head_field(head, "Content-Length") &&
	       !gate_head_field(head, "Transfer-Encoding");
}
