// SPDX-License-Identifier: Apache-2.0
#include "supervisor/jsonrpc.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/json_escape.h"
#include "supervisor/json_text.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>

#define TOKENER_KEPT_BYTES (64 * KIB) /* it keeps as much memory as the longest string had */

/* Of the last message, for the next: making one costs as much as reading a small message. */
static struct json_tokener *kept_tokener;

static struct json_tokener *take_tokener(void)
{
	struct json_tokener *tokener = kept_tokener;

	kept_tokener = NULL;
	if (!tokener)
		tokener = json_tokener_new_ex(LIMIT_JSON_DEPTH);
	if (tokener)
		json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	return tokener;
}

/* @tokener has read @len bytes. */
static void give_tokener(struct json_tokener *tokener, size_t len)
{
	if (kept_tokener || len > TOKENER_KEPT_BYTES) {
		json_tokener_free(tokener);
		return;
	}
	json_tokener_reset(tokener);
	kept_tokener = tokener;
}

/*
 * json-c does the parsing, but even when strict it takes control characters in strings and numbers
 * such as 01. or NaN, it cuts names at a \u0000, and it makes hundreds of bytes of the two in "{}".
 * So the lexemes are walked first: what json-c would take wrongly is refused here, and what is left
 * it refuses itself. The functions of the walk remove what they read from the text.
 */

static void skip(struct text *text, size_t n)
{
	text->data += n;
	text->len -= n;
}

/* Skips the next byte if it is one of @set. */
static bool skip_one_of(struct text *text, const char *set)
{
	if (text->len == 0 || !memchr(set, text->data[0], strlen(set)))
		return false;
	skip(text, 1);
	return true;
}

static size_t skip_digits(struct text *text)
{
	size_t digits = 0;

	while (skip_one_of(text, "0123456789"))
		digits++;
	return digits;
}

/* RFC 8259 section 6. @text begins with a minus or a digit. */
static bool number_is_strict(struct text *text)
{
	bool zero;
	size_t digits;

	skip_one_of(text, "-");
	zero = text->len > 0 && text->data[0] == '0';
	digits = skip_digits(text);
	if (digits == 0 || (zero && digits > 1))
		return false;
	if (skip_one_of(text, ".") && skip_digits(text) == 0)
		return false;
	if (!skip_one_of(text, "eE"))
		return true;
	skip_one_of(text, "+-");
	return skip_digits(text) > 0;
}

/* RFC 8259 section 7, but for escapes. @text begins with the quotation mark. */
static bool string_is_strict(struct text *text)
{
	bool has_nul = false;

	skip(text, 1);
	for (;;) {
		skip(text, json_plain_prefix(*text));
		if (skip_one_of(text, "\""))
			break;
		if (text->len == 0 || (unsigned char)text->data[0] < ' ')
			return false;
		if (text->len >= 6 && memcmp(text->data, "\\u0000", 6) == 0)
			has_nul = true;
		skip(text, text->data[0] == '\\' && text->len > 1 ? 2 : 1);
	}
	if (!has_nul)
		return true;
	while (skip_one_of(text, " \t\r"))
		;
	return text->len == 0 || text->data[0] != ':'; /* not a name */
}

/* NULL, or why json-c is not to see @text. */
static const char *lexeme_fault(struct text text)
{
	size_t values = 1;

	while (text.len > 0) {
		const char c = text.data[0];

		if (c == '"') {
			if (!string_is_strict(&text))
				return "Parse error: invalid string";
			continue;
		}
		if (c == '-' || (c >= '0' && c <= '9')) {
			if (!number_is_strict(&text))
				return "Parse error: invalid number";
			continue;
		}
		if (c == '\0' || c == 'N' || c == 'I')
			return "Parse error: unexpected character";
		if (c == ',' || c == '[' || c == '{')
			values++;
		if (values > LIMIT_JSON_VALUES)
			return "Parse error: too many values in one message";
		skip(&text, 1);
	}
	return NULL;
}

/* 0 with a JSON value, of which null is NULL; -EBADMSG with a static message; or -ENOMEM. */
static int parse_json(struct text line, struct json_object **ret_root, const char **ret_message)
{
	struct json_tokener *tokener;
	enum json_tokener_error error;
	struct json_object *root;
	const char *message;

	/* json-c's own check of UTF-8 lets overlong forms and surrogates pass. */
	message = utf8_is_valid(line) ? lexeme_fault(line) : "Parse error: invalid UTF-8";
	if (!message && line.len > INT_MAX)
		message = "Parse error: message too long";
	if (message) {
		*ret_message = message;
		return -EBADMSG;
	}
	tokener = take_tokener();
	if (!tokener)
		return -ENOMEM;
	root = json_tokener_parse_ex(tokener, line.data, (int)line.len);
	/* At the end of a number more digits could come: a space says that none do. */
	if (json_tokener_get_error(tokener) == json_tokener_continue)
		root = json_tokener_parse_ex(tokener, " ", 1);
	error = json_tokener_get_error(tokener);
	give_tokener(tokener, line.len);
	if (error == json_tokener_success) {
		*ret_root = root;
		return 0;
	}
	*ret_message = error == json_tokener_error_depth ? "Parse error: nested too deeply"
							 : "Parse error: not one JSON value";
	return -EBADMSG;
}

static int refuse(struct jsonrpc_fault *fault, enum jsonrpc_code code, const char *message)
{
	fault->code = code;
	fault->message = message;
	return -EBADMSG;
}

/* The member @name; false when there is none. A null is NULL. */
static bool member(const struct json_object *root, const char *name, struct json_object **ret)
{
	return json_object_object_get_ex(root, name, ret);
}

static struct text string_of(struct json_object *string)
{
	return (struct text){
		json_object_get_string(string), (size_t)json_object_get_string_len(string)};
}

bool jsonrpc_id_is_acceptable(struct json_object *id)
{
	if (json_object_is_type(id, json_type_string))
		return json_object_get_string_len(id) <= LIMIT_REQUEST_ID_BYTES;
	/* Integers of more than 64 bits have become the nearest that json-c can hold. */
	return json_object_is_type(id, json_type_int) && json_object_get_int64(id) != INT64_MIN &&
	       json_object_get_uint64(id) != UINT64_MAX;
}

const char *jsonrpc_id_text(struct json_object *id)
{
	return json_object_to_json_string_ext(
		id, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static int read_id(struct jsonrpc_request *request, struct jsonrpc_fault *fault)
{
	struct json_object *id;
	const char *text;

	request->notification = !member(request->root, "id", &id);
	if (request->notification)
		return 0;
	if (!jsonrpc_id_is_acceptable(id))
		return refuse(fault, JSONRPC_INVALID_REQUEST,
			"Invalid request: id must be a short string or a 64-bit integer");
	text = jsonrpc_id_text(id);
	request->id_text = text ? strdup(text) : NULL;
	return request->id_text ? 0 : -ENOMEM;
}

static int read_method(struct jsonrpc_request *request, struct jsonrpc_fault *fault)
{
	struct json_object *value;

	if (!member(request->root, "jsonrpc", &value) ||
		!json_object_is_type(value, json_type_string) ||
		!text_equal(string_of(value), TEXT_LITERAL("2.0")))
		return refuse(
			fault, JSONRPC_INVALID_REQUEST, "Invalid request: jsonrpc must be \"2.0\"");
	if (!member(request->root, "method", &value) ||
		!json_object_is_type(value, json_type_string))
		return refuse(
			fault, JSONRPC_INVALID_REQUEST, "Invalid request: method must be a string");
	request->method = string_of(value);
	return 0;
}

static int refuse_unknown_members(struct json_object *root, struct jsonrpc_fault *fault)
{
	json_object_object_foreach (root, name, value) {
		(void)value;
		if (strcmp(name, "jsonrpc") != 0 && strcmp(name, "id") != 0 &&
			strcmp(name, "method") != 0 && strcmp(name, "params") != 0)
			return refuse(fault, JSONRPC_INVALID_REQUEST,
				"Invalid request: only jsonrpc, id, method and params are known");
	}
	return 0;
}

static int read_params(struct jsonrpc_request *request, struct jsonrpc_fault *fault)
{
	if (member(request->root, "params", &request->params)) {
		if (json_object_is_type(request->params, json_type_object))
			return 0;
		if (!json_object_is_type(request->params, json_type_array))
			return refuse(fault, JSONRPC_INVALID_REQUEST,
				"Invalid request: params must be an object");
		/* Well-formed, but nothing here has parameters by position. */
		fault->notification = request->notification;
		return refuse(fault, JSONRPC_INVALID_PARAMS,
			"Invalid params: parameters go by name, in an object");
	}
	request->params = json_object_new_object();
	if (!request->params)
		return -ENOMEM;
	if (json_object_object_add(request->root, "params", request->params) < 0) {
		json_object_put(request->params);
		return -ENOMEM;
	}
	return 0;
}

static int read_envelope(struct jsonrpc_request *request, struct jsonrpc_fault *fault)
{
	struct json_object *root = request->root;
	int result;

	if (json_object_is_type(root, json_type_array))
		return refuse(fault, JSONRPC_INVALID_REQUEST,
			"Invalid request: batches are not supported");
	if (!json_object_is_type(root, json_type_object))
		return refuse(fault, JSONRPC_INVALID_REQUEST, "Invalid request: not an object");
	/* Before the id is read: an error that repeats it would seem to be about a request of the
	 * client's. */
	if (!member(root, "method", NULL) &&
		(member(root, "result", NULL) || member(root, "error", NULL)))
		return refuse(fault, JSONRPC_INVALID_REQUEST,
			"Invalid request: a response, and nothing was asked");
	result = read_id(request, fault);
	if (result == 0)
		result = read_method(request, fault);
	if (result == 0)
		result = refuse_unknown_members(root, fault);
	if (result == 0)
		result = read_params(request, fault);
	return result;
}

int jsonrpc_parse(
	struct text line, struct jsonrpc_request *ret_request, struct jsonrpc_fault *ret_fault)
{
	_cleanup_(jsonrpc_request_free) struct jsonrpc_request request = {0};
	struct jsonrpc_fault fault = {.code = JSONRPC_PARSE_ERROR};
	int result = parse_json(line, &request.root, &fault.message);

	if (result == 0)
		result = read_envelope(&request, &fault);
	if (result == 0) {
		*ret_request = request;
		request = (struct jsonrpc_request){0};
	} else if (result == -EBADMSG) {
		fault.id_text = TAKE_PTR(request.id_text);
		*ret_fault = fault;
	}
	return result;
}

const char *jsonrpc_unknown_param(struct json_object *params, const char *const *names)
{
	json_object_object_foreach (params, name, value) {
		size_t i = 0;

		(void)value;
		while (names[i] && strcmp(names[i], name) != 0)
			i++;
		if (!names[i])
			return name;
	}
	return NULL;
}

bool jsonrpc_string_param(struct json_object *params, const char *name, struct text *ret)
{
	struct json_object *value;

	*ret = (struct text){NULL, 0};
	if (!json_object_object_get_ex(params, name, &value))
		return true;
	if (!json_object_is_type(value, json_type_string))
		return false;
	*ret = string_of(value);
	return true;
}

int jsonrpc_read(struct evbuffer *out, struct text line, struct jsonrpc_request *ret_request)
{
	struct jsonrpc_fault fault;
	int r = jsonrpc_parse(line, ret_request, &fault);

	if (r == -ENOMEM)
		(void)jsonrpc_error(out, NULL, JSONRPC_SERVER_ERROR, "Out of memory", "BUSY");
	if (r == -EBADMSG) {
		if (!fault.notification)
			(void)jsonrpc_error(out, fault.id_text, fault.code, fault.message, NULL);
		jsonrpc_fault_free(&fault);
	}
	return r;
}

void jsonrpc_request_free(struct jsonrpc_request *request)
{
	json_object_put(request->root);
	free(request->id_text);
	*request = (struct jsonrpc_request){0};
}

void jsonrpc_fault_free(struct jsonrpc_fault *fault)
{
	free(fault->id_text);
	*fault = (struct jsonrpc_fault){0};
}

static void message_begin(struct json_text *json)
{
	json_text_object_begin(json);
	json_text_key(json, "jsonrpc");
	json_text_string(json, TEXT_LITERAL("2.0"));
}

const char jsonrpc_no_id[] = "";

static void write_id(struct json_text *json, const char *id_text)
{
	if (id_text == jsonrpc_no_id)
		return;
	json_text_key(json, "id");
	json_text_raw(json, id_text ? text_from(id_text) : TEXT_LITERAL("null"));
}

void jsonrpc_result_begin(struct json_text *json, const char *id_text)
{
	message_begin(json);
	write_id(json, id_text);
	json_text_key(json, "result");
}

void jsonrpc_notification_begin(struct json_text *json, const char *method)
{
	message_begin(json);
	json_text_key(json, "method");
	json_text_string(json, text_from(method));
	json_text_key(json, "params");
}

int jsonrpc_end(struct json_text *json)
{
	json_text_object_end(json);
	json_text_newline(json);
	return json_text_flush(json);
}

void jsonrpc_error_begin(
	struct json_text *json, const char *id_text, enum jsonrpc_code code, const char *message)
{
	message_begin(json);
	write_id(json, id_text);
	json_text_key(json, "error");
	json_text_object_begin(json);
	json_text_key(json, "code");
	json_text_int64(json, code);
	json_text_key(json, "message");
	json_text_string(json, text_from(message));
}

int jsonrpc_error_end(struct json_text *json)
{
	json_text_object_end(json);
	return jsonrpc_end(json);
}

int jsonrpc_error(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code)
{
	struct json_text json = json_text(out);

	jsonrpc_error_begin(&json, id_text, code, message);
	if (data_code) {
		json_text_key(&json, "data");
		json_text_object_begin(&json);
		json_text_key(&json, "code");
		json_text_string(&json, text_from(data_code));
		json_text_object_end(&json);
	}
	return jsonrpc_error_end(&json);
}

int jsonrpc_busy(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, int64_t retry_after_ms)
{
	struct json_text json = json_text(out);

	jsonrpc_error_begin(&json, id_text, code, message);
	json_text_key(&json, "data");
	json_text_object_begin(&json);
	json_text_key(&json, "code");
	json_text_string(&json, TEXT_LITERAL("BUSY"));
	json_text_key(&json, "retry_after_ms");
	json_text_int64(&json, retry_after_ms);
	json_text_object_end(&json);
	return jsonrpc_error_end(&json);
}
