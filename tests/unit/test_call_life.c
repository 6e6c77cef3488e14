/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
/* deep */
// SPDX-License-Identifier: Apache-2.0
/*
 * Calls from their request to their answer, in random orders of what clients say, of what processes
 * say, of time, of losses and of lies. Each request of a connection is answered exactly once, and
 * in the end nothing is counted any more. CLOISTER_LIFE_SEED and CLOISTER_LIFE_ROUNDS choose
 * others.
 */
#include "common/limits.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <json-c/json.h>

#define ALICE    1001
#define CLIENTS  3
#define STEPS    400
#define REQUESTS 4096 /* of one connection */

static struct fake_service *fake;
static uint64_t seed;

/* xorshift64*: the same numbers everywhere. */
static unsigned number(unsigned below)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (unsigned)((seed * 0x2545F4914F6CDD1DULL) >> 33) % below;
}

#define ONE_OF(array) ((array)[number(ARRAY_SIZE(array))])

struct talker {
	struct fake_client client;
	unsigned asked; /* the last id */
	bool waits[REQUESTS];
};

static struct talker talkers[CLIENTS];

static void connect_talker(struct talker *talker)
{
	*talker = (struct talker){
		.client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE),
		.asked = 1,
		.waits = {false, true},
	};
	fake_client_send(
		&talker->client, REQUEST("1", "workspace.open", "{\"workspace\":\"w0\"}") "\n");
}

static void take_answer(struct talker *talker, const char *line)
{
	struct json_object *message = json_tokener_parse(line), *id, *result, *error;
	bool has_result, has_error;

	assert_non_null(message);
	if (!json_object_object_get_ex(message, "method", NULL)) {
		int64_t n;

		assert_true(json_object_object_get_ex(message, "id", &id));
		n = json_object_get_int64(id);
		assert_true(n > 0 && n <= talker->asked);
		if (!talker->waits[n])
			fail_msg("answered twice: %s", line);
		talker->waits[n] = false;
		has_result = json_object_object_get_ex(message, "result", &result);
		has_error = json_object_object_get_ex(message, "error", &error);
		assert_true(has_result != has_error);
	}
	json_object_put(message);
}

static void hear(struct talker *talker)
{
	char *lines = strdup(fake_client_take(&talker->client)), *rest = lines, *line;

	while ((line = strsep(&rest, "\n")))
		if (*line)
			take_answer(talker, line);
	free(lines);
	assert_false(talker->client.ended);
}

static void put_option(char *text, size_t size, const char *option)
{
	size_t len = strlen(text);

	snprintf(text + len, size - len, "%s%s", len > 0 ? "," : "", option);
}

static void put_options(char *text, size_t size)
{
	static const char *const options[] = {"\"timeout_ms\":1000", "\"timeout_ms\":100000",
		"\"stream\":true", "\"stdin_stream\":true", "\"stdin\":\"in\"",
		"\"encoding\":\"base64\"", "\"max_output\":10", "\"reply\":\"message\"",
		"\"idle_timeout_ms\":500", "\"keep_output\":false", "\"yield_ms\":100",
		"\"transaction\":\"preview\"", "\"durability\":\"fast\"", "\"key\":\"a\"",
		"\"key\":\"b\"", "\"key\":\"c\",\"key_wait_ms\":2000"};
	unsigned n = number(3);

	while (n-- > 0)
		put_option(text, size, ONE_OF(options));
}

/* Mostly one that waits for its answer. */
static unsigned some_request(const struct talker *talker)
{
	unsigned id = 1 + number(talker->asked);

	for (unsigned i = 0; i < 50 && !talker->waits[id]; i++)
		id = 1 + number(talker->asked);
	return id;
}

/* The beginnings of params: of tool.call, and of other methods. */
#define TOOL(name, arguments) ("\"tool\":\"" name "\",\"arguments\":{" arguments "}")
#define COMMAND(command)      TOOL("run_command", "\"command\":\"" command "\"")
#define METHOD(name, params)  ("\"" name "\",\"params\":{" params)
#define PATH(path)            "\"path\":\"" path "\""
#define OLD_NEW               "\"edits\":[{\"old\":\"one\",\"new\":\"1\"}]"
#define PATCH                                                                   \
	"\"patch\":\"*** Begin Patch\\n*** Update File: patched\\n-one\\n+1\\n" \
	"*** End Patch\""
#define NAMED_B ",\"background\":true,\"name\":\"b\""
#define IN_W0   "\"workspace\":\"w0\""

static void ask(struct talker *talker)
{
	static const char *const calls[] = {COMMAND("true"), COMMAND("echo some"), COMMAND("hang"),
		COMMAND("stubborn"), COMMAND("deaf"), COMMAND("cat"), COMMAND("cannot 11"),
		TOOL("run_command", "\"command\":\"hang\"" NAMED_B),
		TOOL("read_output", "\"name\":\"b\""), TOOL("stop_command", "\"name\":\"b\""),
		TOOL("send_input", "\"name\":\"b\",\"input\":\"x\""), TOOL("list_commands", ""),
		TOOL("read_file", PATH("f")), TOOL("read_file", PATH("slow")),
		TOOL("read_file", PATH("deaf")), TOOL("read_file", PATH("image")),
		TOOL("write_file", PATH("f") ",\"content\":\"new\""),
		TOOL("write_file", PATH("slow") ",\"content\":\"new\""),
		TOOL("edit_file", PATH("f") "," OLD_NEW), TOOL("apply_patch", PATCH),
		TOOL("list_directory", PATH(".")), TOOL("search_files", "\"pattern\":\"x\"")};
	static const char *const methods[] = {
		METHOD("file.read", PATH("f") ",\"encoding\":\"base64\""),
		METHOD("file.read", PATH("slow") ",\"encoding\":\"base64\""),
		METHOD("file.write", PATH("f")), METHOD("file.write", PATH("deaf")),
		METHOD("file.stat", PATH("f")), METHOD("file.list", PATH(".")),
		METHOD("file.move", PATH("f") ",\"to\":\"g\""), METHOD("file.remove", PATH("f")),
		METHOD("transaction.commit", IN_W0), METHOD("transaction.discard", IN_W0),
		METHOD("workspace.checkpoint", IN_W0),
		METHOD("workspace.rollback", IN_W0 ",\"to\":1"), METHOD("workspace.list", ""),
		METHOD("workspace.update", "\"workspace\":\"w1\",\"lease\":{\"ms\":3000}"),
		METHOD("workspace.remove", "\"workspace\":\"w1\""), METHOD("session.list", IN_W0),
		METHOD("session.start", "\"command\":\"hang\""), METHOD("tools.list", IN_W0)};
	char line[1024], options[256] = "";
	const unsigned chance = number(100), id = talker->asked + 1;
	const unsigned of = some_request(talker);

	if (id + 1 >= REQUESTS)
		return;
	put_options(options, sizeof(options));
	if (chance < 10)
		snprintf(line, sizeof(line),
			"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"workspace.open\",\"params\":{"
			"\"workspace\":\"w%u\"}}\n",
			id, number(2));
	else if (chance < 12)
		snprintf(line, sizeof(line),
			"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"workspace.close\",\"params\":"
			"{\"workspace\":\"w%u\"}}\n",
			id, number(2));
	else if (chance < 30)
		snprintf(line, sizeof(line),
			"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tool.cancel\",\"params\":{"
			"\"id\":%u}}\n",
			id, of);
	else if (chance < 42)
		snprintf(line, sizeof(line),
			"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tool.input\",\"params\":{"
			"\"id\":%u,\"data\":\"%s\",\"eof\":%s}}\n",
			id, of, number(2) ? "some" : "", number(3) ? "false" : "true");
	else if (chance < 60)
		snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":%s}}\n", id,
			ONE_OF(methods));
	else
		snprintf(line, sizeof(line),
			"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tool.call\",\"params\":{"
			"%s,\"options\":{%s}}}\n",
			id, ONE_OF(calls), options);
	talker->asked = id;
	talker->waits[id] = true;
	fake_client_send(&talker->client, line);
}

/* A random process that has not ended, or NULL. */
static struct fake_process *some_process(bool *ret_worker)
{
	struct fake_process *found = NULL;
	unsigned n = 0;

	for (struct fake_cell *cell = fake_spawner_cells(fake->spawner); cell; cell = cell->next)
		for (int i = 0; i < 2; i++) {
			struct fake_process *process = i ? &cell->worker : &cell->files;

			if (process->life < 0 || number(++n) > 0)
				continue;
			found = process;
			*ret_worker = i;
		}
	return found;
}

/* Says something of a call that it works on, or of none. */
static void lie(void)
{
	static const uint8_t of_worker[] = {COMMAND_ENDED, COMMAND_WAITS, COMMAND_HELD,
		COMMAND_FORWARD_ENDED, COMMAND_PAUSED},
			     of_files[] = {FILES_DATA, FILES_ENTRY, FILES_MATCH, FILES_HELD,
				     FILES_PATCHED, FILES_STEP, FILES_NODE, FILES_TAKEN, FILES_END};
	uint8_t payload[512];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	bool is_worker = false;
	struct fake_process *process = some_process(&is_worker);
	uint64_t call = process ? fake_workers_call(process, number(64)) : 0;
	uint8_t type = is_worker ? ONE_OF(of_worker) : ONE_OF(of_files);

	if (!process)
		return;
	if (type == COMMAND_ENDED && is_worker)
		command_ended_put(&writer, &(struct command_ended){.end = (uint8_t)number(3),
						   .wait_status = number(2) * 256,
						   .launch_error = number(2) * 11});
	else if (type == COMMAND_HELD && is_worker)
		command_held_put(&writer, &(struct command_held){1 + number(9)});
	else if (type == FILES_END)
		files_end_put(&writer, &(struct files_end){.error = number(3) ? 0 : TOOL_NOT_FOUND,
					       .path = TEXT_LITERAL("f"),
					       .size = number(99)});
	else if (type == FILES_HELD)
		files_held_put(&writer,
			&(struct files_held){TEXT_LITERAL("before"), TEXT_LITERAL("after"), 1});
	else if (type == FILES_TAKEN)
		files_amount_put(&writer, &(struct files_amount){number(8)});
	else if (type == FILES_DATA)
		wire_put_text(&writer, TEXT_LITERAL("data\n"));
	fake_process_say(process, type, call, (struct text){(char *)payload, writer.len});
}

static void step(void)
{
	struct talker *talker = &ONE_OF(talkers);
	const unsigned chance = number(1000);
	bool is_worker;

	if (chance < 600) {
		ask(talker);
	} else if (chance < 850) {
		static const int64_t times[] = {0, 1, 20, 100, 600, 3000, 30000};

		fake_service_pass(fake, ONE_OF(times));
	} else if (chance < 900) {
		lie();
	} else if (chance < 920) {
		struct fake_process *process = some_process(&is_worker);

		if (process)
			fake_process_end(process);
	} else if (chance < 935) {
		fake_client_close(&talker->client);
		connect_talker(talker);
	} else if (chance < 960) {
		fake->workers_wait = !fake->workers_wait;
	} else if (chance < 970) {
		fake->spawner_waits = !fake->spawner_waits;
	}
	fake_service_run(fake);
	for (size_t i = 0; i < CLIENTS; i++)
		hear(&talkers[i]);
}

/* Lets all that was begun end, and looks at what is left. */
static void settle(void)
{
	const struct tenant_usage *usage = fake->service.config->tenants[0]->usage;

	fake->workers_wait = fake->spawner_waits = false;
	for (int i = 0; i < 40; i++) {
		fake_service_pass(fake, 10000);
		for (size_t k = 0; k < CLIENTS; k++)
			hear(&talkers[k]);
	}
	for (size_t i = 0; i < CLIENTS; i++) {
		for (unsigned id = 1; id <= talkers[i].asked; id++)
			if (talkers[i].waits[id])
				fail_msg("request %u of client %zu is not answered", id, i);
		fake_client_close(&talkers[i].client);
	}
	for (int i = 0; i < 3; i++)
		fake_service_forget(fake);
	assert_int_equal(usage->calls, 0);
	assert_int_equal(usage->connections, 0);
	assert_int_equal(usage->sessions, 0);
	assert_int_equal(usage->client_bytes, 0);
	assert_int_equal(usage->pending_bytes, 0);
	assert_int_equal(usage->sent_bytes, 0);
	assert_int_equal(usage->waiting_bytes, 0);
	assert_int_equal(usage->unread_bytes, 0);
	assert_int_equal(usage_waiting(fake->service.config->tenants[0]), 0);
	assert_int_equal(fake->service.connections, 0);
	assert_int_equal(fake->service.pending_bytes, 0);
	assert_int_equal(fake->service.unread.bytes, 0);
}

static void live(void)
{
	fake = fake_service_new("[cloister]\n[tenant one]\nusers = 1001\nmanaged = yes\n"
				"tools = basic edit patch sessions\n");
	fake_service_keep_keys(fake);
	for (size_t i = 0; i < CLIENTS; i++)
		connect_talker(&talkers[i]);
	for (int i = 0; i < STEPS; i++)
		step();
	settle();
	fake_service_free(fake);
}

TEST(test_random_lives)
{
	const char *first = getenv("CLOISTER_LIFE_SEED"), *rounds = getenv("CLOISTER_LIFE_ROUNDS");
	const uint64_t from = first ? strtoull(first, NULL, 10) : 1;
	const uint64_t n = rounds ? strtoull(rounds, NULL, 10) : 20;

	for (uint64_t i = 0; i < n; i++) {
		print_message("CLOISTER_LIFE_SEED=%llu CLOISTER_LIFE_ROUNDS=1\n",
			(unsigned long long)from + i);
		seed = (from + i) * 0x9E3779B97F4A7C15ULL | 1;
		live();
	}
}
