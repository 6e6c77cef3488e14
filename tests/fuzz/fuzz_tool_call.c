/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * tool.call from its params to a checked request: plain calls, and calls in the forms of models'
 * APIs (an object from Ollama, a string from OpenAI). An accepted request is within the bounds of
 * common/tools.c and the path rules, on which later code relies; a refused one leaves a message and
 * no request.
 *
 * Input: the params, JSON.
 */
#include "common/limits.h"
#include "common/path_rules.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/tenant.h"
#include "tests/fuzz/fuzz.h"
#include "json/json_read.h"

#include <json-c/json.h>

#define ROOT "/home/agent/ws"

static struct tenant *tenant;

static void set_up(void)
{
	char *message;

	tenant = tenant_new("t");
	CHECK(tenant);
	CHECK(command_policy_new(command_policy_default_patterns, command_policy_default_count,
		      &tenant->policy, &message) == 0);
}

static void check_text(const struct tool_param *param, struct text text)
{
	if (!text.data)
		return;
	CHECK((int64_t)text.len <= param->max);
	if (!param->nul_allowed)
		CHECK(!text_has_nul(text));
	/* Read every byte, so that the sanitizers check it. */
	for (size_t i = 0; i < text.len; i++)
		(void)*(const volatile char *)(text.data + i);
}

static void check_args(const struct call_request *request)
{
	struct tool_args defaults;

	tool_args_defaults(request->tool, &defaults);
	for (size_t i = 0; i < tool_param_count(request->tool); i++) {
		const struct tool_param *param = &request->tool->params[i];
		const void *field = (const char *)&request->args + param->offset;
		const int64_t *fallback = (const int64_t *)((char *)&defaults + param->offset);

		if (param->type == PARAM_STRING)
			check_text(param, *(const struct text *)field);
		else if (param->type == PARAM_INTEGER && *(const int64_t *)field != *fallback)
			CHECK(*(const int64_t *)field >= param->min &&
				*(const int64_t *)field <= param->max);
	}
	CHECK(request->args.content.len <= LIMIT_CONTENT_BYTES);
	CHECK(request->args.timeout_ms <= (int64_t)tenant->limits.command_timeout_max_ms);
	CHECK(request->options.timeout_ms >= 0 && request->options.idle_timeout_ms >= 0);
	CHECK(request->options.input.len <= LIMIT_STDIN_BYTES);
	CHECK(request->args.input.len <= LIMIT_TOOL_INPUT_BYTES);
}

static void check_request(const struct call_request *request)
{
	CHECK(request->tool >= tools && request->tool < tools + TOOL_COUNT);
	check_args(request);
	CHECK((request->tool->id == TOOL_RUN_COMMAND || request->tool->on_sessions) ==
		(request->path == NULL));
	if (request->path) {
		struct text rest = text_from(request->path), first = path_rules_next(&rest);

		CHECK(request->path[0] != '/' && request->path[0] != '\0');
		CHECK(strlen(request->path) <= LIMIT_PATH_BYTES);
		while (text_equal(first, TEXT_LITERAL(".")))
			first = path_rules_next(&rest);
		CHECK(!text_equal(first, TEXT_LITERAL("..")));
	} else if (!request->tool->on_sessions) {
		CHECK(request->args.command.len > 0);
		CHECK(!request->options.blocked_list ||
			command_policy_match(
				tenant->policy, request->args.command, TEXT_LITERAL(ROOT)) == NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct json_bounds bounds = json_request_bounds(size);
	struct json_object *params = NULL;
	struct json_report report;
	struct call_request request;
	struct call_refusal refusal;
	int references;

	if (!tenant)
		set_up();
	references = (int)tenant->references;
	(void)json_read(fuzz_text(data, size), &bounds, &params, &report);
	if (!params || !json_object_is_type(params, json_type_object)) {
		json_object_put(params);
		return -1;
	}
	if (call_request_read(params, SIZE_MAX, TEXT_LITERAL(ROOT), tenant, TOOLS_ALL,
		    READER_PROGRAM, &request, &refusal) == 0) {
		/* The request keeps the values from which it borrows. */
		json_object_put(params);
		check_request(&request);
		CHECK((int)tenant->references == references + 1);
		call_request_drop_encoded(&request);
		call_request_drop_sent(&request);
		call_request_done(&request);
	} else {
		json_object_put(params);
		CHECK(refusal_text(&refusal.why)[0]);
		call_refusal_done(&refusal);
	}
	CHECK((int)tenant->references == references);
	return 0;
}
