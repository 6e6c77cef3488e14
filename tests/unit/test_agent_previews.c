/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer */
// SPDX-License-Identifier: Apache-2.0
/* Previews on the agent socket: options.transaction, transaction.commit and .discard; and
 * workspace.diff, which tells what they have changed. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/audit/audit.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/spawner_link.h"
#include "tests/unit/fakes/workers.h"

#define ALICE 1001

static struct audit *audit;
static int compared; /* the code of the next comparisons */

static int compare(const char *tool, struct text path, struct text pattern, uint64_t *ret_count)
{
	(void)path;
	(void)pattern;
	(void)ret_count;
	return strcmp(tool, "workspace.diff") == 0 ? compared : FAKE_ORDINARY;
}

static int set_up(void **state)
{
	struct fake_service *fake = fake_service_new("[tenant one]\n"
						     "users = 1001\n"
						     "roots = @/root\n"
						     "managed = yes\n"
						     "tools = basic sessions\n");

	assert_int_equal(mkdirat(fake->scratch.fd, "root/a", 0755), 0);
	compared = FAKE_ORDINARY;
	fake_workers_answers.file = compare;
	assert_int_equal(
		audit_new("/audit/audit.log", true, &(struct audit_rotation){0}, &audit), 0);
	assert_int_equal(audit_start(audit), 0);
	fake->service.audit = audit;
	*state = fake;
	return 0;
}

static int tear_down(void **state)
{
	fake_service_free(*state);
	audit_free(audit);
	fake_workers_answers.file = NULL;
	(void)fake_audit_take();
	return 0;
}

FIXTURE(set_up, tear_down)

static bool is_there(void **state, const char *name)
{
	const struct fake_service *fake = *state;
	char path[256];

	snprintf(path, sizeof(path), "state/one/%s", name);
	return faccessat(fake->scratch.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static const struct tenant_usage *usage(void **state)
{
	const struct fake_service *fake = *state;

	return fake->service.config->tenants[0]->usage;
}

/* clang-format off */
#define CALL(id, tool, arguments, options) \
	REQUEST(id, "tool.call", "{\"tool\":\"" tool "\",\"arguments\":" arguments "," \
		"\"options\":{" options "}}")
#define RUN(command, options) CALL("1", "run_command", "{\"command\":\"" command "\"}", options)
#define IN_PREVIEW         "\"transaction\":\"preview\""
#define PREVIEW(command)   RUN(command, IN_PREVIEW)
#define READ               CALL("1", "read_file", "{\"path\":\"x\"}", "")
#define COMMIT             REQUEST("2", "transaction.commit", "{}")
#define DISCARD            REQUEST("2", "transaction.discard", "{}")
#define DIFF(params)       REQUEST("3", "workspace.diff", params)
#define CHECKPOINTS        REQUEST("4", "workspace.checkpoints", "{}")
#define OPEN               REQUEST("0", "workspace.open", "{\"workspace\":\"w\"}")
#define CLOSE              REQUEST("0", "workspace.close", "{}")
#define ADDED \
	"\"since\":1,\"changes\":[{\"path\":\"made\",\"change\":\"added\",\"before\":null," \
	"\"after\":{\"type\":\"file\",\"size\":4,\"mode\":\"0644\"}}],\"count\":1," \
	"\"truncated\":false,\"added\":1,\"changed\":0,\"deleted\":0,\"unread\":0"
#define ENDED(word)        RESULT("1", "{*\"ended_by\":\"" word "\"*\"diff\":{" ADDED "}*}")
#define DONE               RESULT("1", "{\"success\":true,*}")
#define BUSY(words)        RESULT("1", "{\"success\":false,*\"code\":\"BUSY\",\"message\":\"" words "\"*}")
#define COMMITTED(number)  RESULT("2", "{\"workspace\":\"w\",\"checkpoint\":" number "}")
#define DISCARDED          RESULT("2", "{\"workspace\":\"w\",\"discarded\":true}")
#define REFUSED(id, code, words) \
	ERROR(id, "-32000", "\"message\":\"" words "\",\"data\":{\"code\":\"" code "\"*}")
#define NONE               REFUSED("2", "NOT_FOUND", "This connection has no preview*")
#define WRONG(id, words)   ERROR(id, "-32602", "\"message\":\"" words "\"*")
#define LISTED(rows)       RESULT("4", "{\"workspace\":\"w\",\"checkpoints\":[" rows "]}")
#define AUDITED(event)     "*\"event\":\"" event "\"*\"workspace\":\"w\"*\"checkpoint\":1*"
/* clang-format on */

TEST(test_a_commit)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	(void)fake_audit_take();
	fake_client_says(&client, PREVIEW("echo hello"), ENDED("exit"));
	/* Until it is decided nothing else is done. */
	fake_client_says(&client, READ,
		BUSY("A preview is open in the workspace: transaction.commit keeps*"));
	fake_client_says(&client, PREVIEW("echo hello"), BUSY("A preview is open*"));
	fake_client_says(&client, DIFF("{\"patch\":true}"),
		RESULT("3",
			"{\"since\":1,\"changes\":[{*\"patch\":\"+new\\n\"}],*\"unpatched\":0}"));
	fake_client_says(&client, COMMIT, COMMITTED("1"));
	fake_service_match(*state, fake_audit_take(), AUDITED("workspace.committed"));
	fake_client_says(&client, COMMIT, NONE);
	fake_client_says(&client, READ, DONE);
	fake_client_says(&client, CHECKPOINTS,
		LISTED("{\"checkpoint\":1,\"label\":\"\",\"created\":\"2*Z\"}"));
	assert_true(is_there(state, ".layers-w/at-1") && is_there(state, ".layers-w/1-0"));
	assert_int_equal(usage(state)->previews, 1);
	assert_int_equal(usage(state)->commits, 1);
	assert_int_equal(usage(state)->discards, 0);
	fake_client_close(&client);
}

TEST(test_a_discard)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	fake_client_says(&client, REQUEST("0", "workspace.checkpoint", "{}"), RESULT("0", "{*}"));
	fake_client_says(&client,
		CALL("1", "write_file", "{\"path\":\"x\",\"content\":\"y\"}", IN_PREVIEW),
		RESULT("1", "{\"success\":true,*\"since\":2,*}"));
	(void)fake_audit_take();
	fake_client_says(&client, DISCARD, DISCARDED);
	fake_service_match(
		*state, fake_audit_take(), "*\"event\":\"workspace.discarded\"*\"checkpoint\":2*");
	fake_client_says(&client, DISCARD, NONE);
	fake_client_says(&client, READ, DONE);
	fake_client_says(&client, CHECKPOINTS,
		LISTED("{\"checkpoint\":1,\"label\":\"\",\"created\":\"2*Z\"}"));
	assert_int_equal(usage(state)->discards, 1);
	assert_int_equal(usage(state)->commits, 0);
	/* One without a checkpoint has no layers afterwards; a failed call is a preview too. */
	fake_client_says(&client, REQUEST("0", "workspace.open", "{\"workspace\":\"v\"}"),
		RESULT("0", "{*}"));
	fake_client_says(&client, PREVIEW("fail 7"),
		RESULT("1", "{*\"exit_code\":7,*\"diff\":{" ADDED "}*}"));
	assert_true(is_there(state, ".layers-v/1-0"));
	fake_client_says(&client, DISCARD, RESULT("2", "{\"workspace\":\"v\",\"discarded\":true}"));
	assert_false(is_there(state, ".layers-v/1-0") || is_there(state, ".layers-v/at-1"));
	fake_client_close(&client);
}

TEST(test_what_is_wrong)
{
	static const struct fake_exchange exchanges[] = {
		{COMMIT, NONE},
		{DISCARD, NONE},
		{REQUEST("2", "transaction.commit", "{\"workspace\":7}"),
			WRONG("2", "workspace must be a string")},
		{REQUEST("2", "transaction.discard", "{\"workspace\":\"v\"}"),
			REFUSED("2", "WORKSPACE_NOT_FOUND", "*")},
		{RUN("echo x", "\"transaction\":\"begin\""), WRONG("1", "*preview*")},
		{RUN("echo x", IN_PREVIEW ",\"key\":\"k\""), WRONG("1", "*key*")},
		{RUN("echo x", IN_PREVIEW ",\"yield_ms\":10"), WRONG("1", "*yield_ms*")},
		{CALL("1", "run_command", "{\"command\":\"echo x\",\"background\":true}",
			 IN_PREVIEW),
			WRONG("1", "*cannot be used for a command in the background")},
		/* Nobody would be told what to decide on, and nothing is run. */
		{NOTIFICATION("tool.call",
			 "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"echo x\"},"
			 "\"options\":{" IN_PREVIEW "}}"),
			NULL},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo x\"},"
			 "\"_meta\":{\"cloister/options\":{" IN_PREVIEW "},"
			 "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
			 "\"io.modelcontextprotocol/clientCapabilities\":{}}}"),
			WRONG("1", "*MCP has no request that commits")},
		/* What changes no files has nothing to decide on. */
		{CALL("1", "read_file", "{\"path\":\"x\"}", IN_PREVIEW), DONE},
		{COMMIT, NONE},
		{REQUEST("0", "workspace.open", "{\"root\":\"@/root/a\"}"), RESULT("0", "{*}")},
		{PREVIEW("echo x"),
			RESULT("1", "{*\"code\":\"FORBIDDEN\",\"message\":\"Only a managed *}")},
	};
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;

	fake_client_talk(&client, exchanges, ARRAY_SIZE(exchanges));
	assert_int_equal(usage(state)->previews, 0);
	other = fake_client_connect(*state, &agent_endpoint, ALICE, ALICE);
	fake_client_says(
		&other, COMMIT, REFUSED("2", "WORKSPACE_NOT_FOUND", "No workspace is open*"));
	fake_client_close(&other);
	fake_client_close(&client);
}

/* Whatever its client does instead of deciding, it is undone. */
TEST(test_a_client_that_does_not_decide)
{
	struct fake_client client, other = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	/* It leaves after the call, */
	client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	fake_client_says(&client, PREVIEW("echo hello"), ENDED("exit"));
	fake_client_close(&client);
	fake_client_says(&other, READ, DONE);
	/* in it, */
	client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	fake_client_says(&client, PREVIEW("hang"), NULL);
	fake_client_close(&client);
	fake_client_says(&other, READ, DONE);
	/* closes the workspace, */
	client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	fake_client_says(&client, PREVIEW("echo hello"), ENDED("exit"));
	fake_client_says(&client, CLOSE, RESULT("0", "{*}"));
	fake_client_says(&other, READ, DONE);
	/* in the call, which is answered first, */
	fake_client_says(&client, OPEN, RESULT("0", "{*}"));
	fake_client_says(&client, PREVIEW("hang"), NULL);
	fake_client_says(&client, CLOSE, RESULT("0", "{*}"));
	fake_client_says(&other, READ, BUSY("Another client's preview*"));
	fake_client_says(&client, REQUEST("5", "tool.cancel", "{\"id\":1}"),
		"{*\"id\":*}\n{*\"diff\":{" ADDED "}*}");
	fake_client_says(&other, READ, DONE);
	/* or while it is compared. */
	fake_client_says(&client, OPEN, RESULT("0", "{*}"));
	compared = FAKE_SLOW;
	fake_client_says(&client, PREVIEW("echo hello"), NULL);
	fake_client_close(&client);
	fake_client_says(&other, READ, DONE);
	fake_client_says(&other, CHECKPOINTS, LISTED(""));
	assert_int_equal(usage(state)->previews, 5);
	assert_int_equal(usage(state)->discards, 5);
	fake_client_close(&other);
}

TEST(test_one_that_cannot_be_made)
{
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	fake_client_says(&client, READ, DONE);
	fake_spawner_refuse(fake->spawner, -EINVAL);
	fake_client_says(&client, PREVIEW("echo hello"),
		RESULT("1", "{\"success\":false,*\"code\":\"EXECUTION_ERROR\"*}"));
	fake_spawner_refuse(fake->spawner, 0);
	fake_client_says(&client, COMMIT, NONE);
	fake_client_says(&client, READ, DONE);
	/* Or that is not made because its call, which waits for another one, is cancelled. */
	fake_client_says(&client, CALL("7", "run_command", "{\"command\":\"hang\"}", ""), NULL);
	fake_client_says(&client, PREVIEW("echo hello"), NULL);
	fake_client_says(&client, REQUEST("5", "tool.cancel", "{\"id\":1}"),
		"{*\"code\":\"CANCELLED\"*}\n" RESULT("5", "{\"cancelled\":true}"));
	fake_client_says(&client, REQUEST("5", "tool.cancel", "{\"id\":7}"), "{*}\n{*}");
	fake_client_says(&client, COMMIT, NONE);
	fake_client_says(&client, READ, DONE);
	fake_client_says(&client, CHECKPOINTS, LISTED(""));
	fake_client_close(&client);
}

/* Makes it impossible, or possible again, to put the former layers in force. */
static void spoil(void **state, bool spoilt)
{
	const struct fake_service *fake = *state;
	const char path[] = "state/one/.layers-w/at-1/x";

	if (spoilt)
		assert_int_equal(mkdirat(fake->scratch.fd, path, 0700), 0);
	else
		assert_int_equal(unlinkat(fake->scratch.fd, path, AT_REMOVEDIR), 0);
}

/* Its client may try it again, and who needs the workspace after that has left tries it, too. */
TEST(test_one_that_cannot_be_undone)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other,
			   third;

	fake_client_says(&client, PREVIEW("echo hello"), ENDED("exit"));
	spoil(state, true);
	fake_client_says(&client, DISCARD, REFUSED("2", "EXECUTION_ERROR", "*"));
	fake_client_says(&client, READ, BUSY("A preview is open*"));
	assert_int_equal(usage(state)->discards, 0);
	spoil(state, false);
	fake_client_says(&client, DISCARD, DISCARDED);
	fake_client_says(&client, PREVIEW("echo hello"), ENDED("exit"));
	spoil(state, true);
	fake_client_close(&client);
	other = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	fake_client_says(&other, READ, NULL);
	spoil(state, false);
	third = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	fake_client_says(&third, READ, DONE);
	fake_client_hears(&other, DONE);
	assert_int_equal(usage(state)->discards, 2);
	fake_client_close(&third);
	fake_client_close(&other);
}

/* Has it undone while the processes of its cell cannot be ended. Returns the cell. */
static struct fake_cell *begin_to_undo(struct fake_client *client)
{
	struct fake_cell *cell;

	fake_client_says(client, PREVIEW("echo hello"), ENDED("exit"));
	cell = fake_spawner_cells(client->service->spawner);
	cell->worker.held = cell->files.held = true;
	fake_client_says(client, DISCARD, NULL);
	return cell;
}

static void end(struct fake_cell *cell)
{
	fake_process_end(&cell->worker);
	fake_process_end(&cell->files);
}

TEST(test_while_it_is_undone)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"),
			   other = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	struct fake_cell *cell = begin_to_undo(&client);

	fake_client_says(&client, REQUEST("6", "transaction.commit", "{}"),
		REFUSED("6", "BUSY", "The preview is being undone"));
	/* Its end is waited for, once, also if the client closes the workspace or leaves. */
	fake_client_says(&client, CLOSE, RESULT("0", "{*}"));
	end(cell);
	fake_client_hears(&client, DISCARDED);
	fake_client_says(&client, OPEN, RESULT("0", "{*}"));
	cell = begin_to_undo(&client);
	fake_client_close(&client);
	end(cell);
	fake_client_says(&other, READ, DONE);
	assert_int_equal(usage(state)->discards, 2);
	fake_client_close(&other);
}

TEST(test_the_comparison)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	/* It failed: the changes are there even so, and can be decided on. */
	compared = TOOL_EXECUTION_ERROR;
	fake_client_says(&client, PREVIEW("echo hello"),
		RESULT("1", "{\"success\":true,*\"diff\":{\"error\":{\"code\":\"EXECUTION_ERROR\","
			    "\"message\":\"*\"}}*}"));
	compared = FAKE_ORDINARY;
	fake_client_says(&client, COMMIT, COMMITTED("1"));
	/* A message for a model has it beside the text. */
	fake_client_says(&client, RUN("echo hello", IN_PREVIEW ",\"reply\":\"message\""),
		RESULT("1", "{\"role\":\"tool\",*\"content\":\"*hello\\n*\"*\"diff\":{\"since\":2,"
			    "*}*}"));
	fake_client_says(&client, COMMIT, COMMITTED("2"));
	fake_client_close(&client);
}

TEST(test_a_log_that_cannot_be_written)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	fake_client_says(&client, PREVIEW("echo hello"), ENDED("exit"));
	fake_audit_state.error = ENOSPC;
	fake_client_says(&client, COMMIT, REFUSED("2", "BUSY", "*audit log*"));
	fake_audit_state.error = 0;
	fake_client_says(&client, COMMIT, COMMITTED("1"));
	fake_client_close(&client);
}

TEST(test_workspace_diff)
{
	static const struct fake_exchange exchanges[] = {
		{DIFF("{}"), REFUSED("3", "NOT_FOUND", "The workspace has no checkpoint: *")},
		{REQUEST("0", "workspace.checkpoint", "{}"), RESULT("0", "{*}")},
		{DIFF("{}"), RESULT("3", "{" ADDED "}")},
		{DIFF("{\"since\":1,\"workspace\":\"w\"}"), RESULT("3", "{" ADDED "}")},
		{DIFF("{\"since\":2}"),
			REFUSED("3", "NOT_FOUND", "The workspace has no such checkpoint: *")},
		{DIFF("{\"since\":0}"), WRONG("3", "since must be the number of a checkpoint*")},
		{DIFF("{\"since\":\"1\"}"), WRONG("3", "since must be*")},
		{DIFF("{\"since\":4294967297}"), WRONG("3", "since must be*")},
		{DIFF("{\"patch\":1}"), WRONG("3", "patch must be true or false")},
		{DIFF("{\"workspace\":1}"), WRONG("3", "workspace must be a string")},
		{DIFF("{\"workspace\":\"v\"}"), REFUSED("3", "WORKSPACE_NOT_FOUND", "*")},
		{NOTIFICATION("workspace.diff", "{}"), NULL},
		{REQUEST("0", "workspace.open", "{\"root\":\"@/root/a\"}"), RESULT("0", "{*}")},
		{DIFF("{}"), REFUSED("3", "FORBIDDEN", "Only a managed workspace, *")},
	};
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;

	fake_client_talk(&client, exchanges, ARRAY_SIZE(exchanges));
	fake_client_close(&client);
	client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	compared = TOOL_NO_SPACE;
	fake_client_says(&client, DIFF("{}"), REFUSED("3", "NO_SPACE", "*"));
	/* It is a call: it can be cancelled, and its id is in use until it is answered. */
	compared = FAKE_SLOW;
	fake_client_says(&client, DIFF("{}"), NULL);
	fake_client_says(&client, DIFF("{}"), ERROR("3", "-32600", "*"));
	fake_client_says(&client, REQUEST("5", "tool.cancel", "{\"id\":3}"),
		RESULT("5", "{\"cancelled\":true}") "\n" REFUSED("3", "CANCELLED", "*"));
	other = fake_client_connect(*state, &agent_endpoint, ALICE, ALICE);
	fake_client_says(&other, DIFF("{}"),
		REFUSED("3", "WORKSPACE_NOT_FOUND", "No workspace is open on *"));
	fake_client_close(&other);
	fake_client_close(&client);
}
