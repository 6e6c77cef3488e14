/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* The forms in which a result is kept: any option of a client may take one of them away, and each
 * is asked for again by another call, a preview and MCP. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/keys/key_result.h"
#include "supervisor/call/result/model_text.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/result/shown.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <event2/buffer.h>

#define ALICE 1001

static const char config[] = "[cloister]\n"
			     "journal = fast\n"
			     "[tenant one]\n"
			     "users = 1001\n"
			     "managed = yes\n"
			     "tools = basic edit patch sessions\n";

static int set_up(void **state)
{
	*state = fake_service_new(config);
	fake_service_keep_keys(*state);
	return 0;
}

static const struct {
	const char *tool, *arguments;
} subjects[] = {
	{"read_file", "{\"path\":\"f\"}"},
	{"list_directory", "{\"path\":\".\"}"},
	{"search_files", "{\"pattern\":\"x\"}"},
	{"edit_file", "{\"path\":\"f\",\"edits\":[{\"old\":\"one\",\"new\":\"1\"}]}"},
	{"apply_patch", "{\"patch\":\"*** Begin Patch\\n*** Delete File: x\\n*** End Patch\"}"},
	{"write_file", "{\"path\":\"f\",\"content\":\"AAAA\"}"},
	{"run_command", "{\"command\":\"echo hi\"}"},
};

/* Sends the call of the subject @i by @method with @options. */
static void call(
	struct fake_client *client, bool mcp, size_t i, const char *options, const char *answer)
{
	const char *tool = subjects[i].tool, *arguments = subjects[i].arguments;
	char line[1024];

	if (mcp)
		snprintf(line, sizeof(line),
			REQUEST("1", "tools/call",
				"{\"name\":\"%s\",\"arguments\":%s,\"_meta\":{"
				"\"cloister/options\":{%s},"
				"\"io.modelcontextprotocol/protocolVersion\":\"2025-11-25\"}}"),
			tool, arguments, options);
	else
		snprintf(line, sizeof(line),
			REQUEST("1", "tool.call",
				"{\"tool\":\"%s\",\"arguments\":%s,\"options\":{%s}}"),
			tool, arguments, options);
	fake_client_says(client, line, answer);
}

/* clang-format off */
#define BASE64      "\"encoding\":\"base64\",\"max_output\":4"
#define DONE        RESULT("1", "{\"success\":true,*}")
#define REPLAYED    RESULT("1", "{\"success\":true,*\"replayed\":true,*}")
#define MESSAGE     RESULT("1", "{\"role\":\"tool\",*\"content\":\"{*\"}")
#define MCP         RESULT("1", "{\"content\":[{\"type\":\"text\",\"text\":\"{*}\"}]," \
	"\"structuredContent\":{\"success\":true,*}*}")
/* clang-format on */

/* For a program that asked for base64 there is no text for a model, whatever else it asked for. */
TEST_WITH(test_base64_of_a_part, set_up, fake_service_tear_down)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++) {
		char keyed[128];

		snprintf(keyed, sizeof(keyed), BASE64 ",\"key\":\"%zu\"", i);
		call(&client, false, i, keyed, DONE);
		call(&client, false, i, keyed, REPLAYED);
		call(&client, true, i, keyed, MCP);
		snprintf(keyed, sizeof(keyed), BASE64 ",\"key\":\"%zu\",\"reply\":\"message\"", i);
		call(&client, false, i, keyed, MESSAGE);
		snprintf(keyed, sizeof(keyed), BASE64 ",\"key\":\"mcp-%zu\"", i);
		call(&client, true, i, keyed, MCP);
		call(&client, true, i, keyed, MCP);
		call(&client, false, i, keyed, REPLAYED);
		call(&client, false, i, BASE64 ",\"transaction\":\"preview\",\"reply\":\"message\"",
			MESSAGE);
		/* What changes no files is no preview. */
		fake_client_says(&client, REQUEST("2", "transaction.discard", "{}"), "{*}");
	}
	fake_client_close(&client);
}

/* Should a text be missing all the same, the model is told so. */
TEST(test_a_text_that_is_missing)
{
	static const struct shown shown = {.bytes = 4, .text = true};
	static const struct tool_args args;
	static const struct files_end end = {.path = TEXT_LITERAL("f")};

	for (size_t i = 0; i < TOOL_COUNT; i++) {
		struct observation observation = {.tool = text_from(tools[i].name),
			.args = &args,
			.files = &end,
			.shown = &shown,
			.encoding = "utf-8"};
		struct evbuffer *out = evbuffer_new();
		struct json_text json = json_text(out);

		if (i == TOOL_WRITE_FILE || i == TOOL_RUN_COMMAND)
			observation.error = TOOL_NOT_FOUND;
		assert_true(model_text_exists(&observation));
		model_text_write(&json, &observation);
		assert_int_equal(json_text_flush(&json), 0);
		assert_int_equal(evbuffer_add(out, "", 1), 0);
		assert_non_null(strstr((char *)evbuffer_pullup(out, -1),
			observation.error ? "NOT_FOUND: " : "EXECUTION_ERROR: "));
		evbuffer_free(out);
	}
}
