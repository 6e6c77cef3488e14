/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* workspace.open, .close, .list and .remove on the agent socket. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#include <event2/event.h>

#define ALICE 1001
#define BOTH  1002

static const char config[] = "[cloister]\n"
			     "[tenant one]\n"
			     "users = 1001, 1002\n"
			     "roots = @/root\n"
			     "workspaces = 3\n"
			     "managed = yes\n"
			     "workspaces_existing = 2\n"
			     "[tenant two]\n"
			     "users = 1002\n"
			     "managed = no\n";

static int set_up(void **state)
{
	struct fake_service *fake = fake_service_new(config);

	assert_int_equal(mkdirat(fake->scratch.fd, "root/a", 0755), 0);
	assert_int_equal(mkdirat(fake->scratch.fd, "root/b", 0755), 0);
	assert_int_equal(mkdirat(fake->scratch.fd, "root/c", 0755), 0);
	assert_int_equal(mkdirat(fake->scratch.fd, "elsewhere", 0755), 0);
	scratch_text(&fake->scratch, "root/file", "");
	*state = fake;
	return 0;
}

FIXTURE(set_up, fake_service_tear_down)

static void talk(void **state, uid_t uid, const struct fake_exchange *exchanges, size_t n)
{
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, uid, uid);

	fake_client_talk(&client, exchanges, n);
	fake_client_close(&client);
}

#define OPEN(params)   REQUEST("1", "workspace.open", params)
#define CLOSE(params)  REQUEST("1", "workspace.close", params)
#define REMOVE(params) REQUEST("1", "workspace.remove", params)
#define LIST           REQUEST("1", "workspace.list", "{}")
#define REFUSED(name)  ERROR("1", "-32000", NAMED(name))
#define WRONG(message) ERROR("1", "-32602", "\"message\":\"" message "\"")
#define EMPTY          RESULT("1", "{}")

TEST(test_what_open_answers)
{
	static const struct fake_exchange exchanges[] = {
		{OPEN("{\"root\":\"@/root/a\"}"),
			RESULT("1", "{\"workspace\":\"@/root/"
				    "a\",\"kind\":\"directory\",\"root\":\"@/root/a\","
				    "\"tenant\":\"one\",\"home\":\"temporary\",\"isolation\":{"
				    "\"mode\":\"user\","
				    "\"namespaces\":["
				    "\"user\",\"mount\",\"pid\",\"network\",\"ipc\",\"uts\","
				    "\"cgroup\"],"
				    "\"network\":\"none\",\"landlock\":*,\"command_filter\":true,"
				    "\"cgroup\":false,\"cgroup_missing\":\"no cgroup in a "
				    "test\",\"limits\":{"
				    "\"memory\":\"none\",\"processes\":\"rlimit\",\"cpu\":\"none\","
				    "\"io\":\"none\",\"disk\":\"none\"}}}")},
		{OPEN("{\"workspace\":\"w\"}"),
			RESULT("1", "{\"workspace\":\"w\",\"kind\":\"managed\",\"root\":"
				    "\"/workspace\",\"tenant\":\"one\",*}")},
		{OPEN("{\"root\":\"@/root/b\",\"kind\":\"rootfs\",\"tenant\":\"one\"}"),
			RESULT("1",
				"{\"workspace\":\"@/root/b\",\"kind\":\"rootfs\",\"root\":\"/\","
				"\"tenant\":\"one\",*}")},
		{NOTIFICATION("workspace.open", "{\"root\":\"@/root/a\"}"), NULL},
	};

	talk(state, ALICE, exchanges, ARRAY_SIZE(exchanges));
}

#define ALLOW(list)           OPEN("{\"workspace\":\"w\",\"network\":{\"allow\":[" list "]}}")
#define WRONG_RULE(rule, why) WRONG("network.allow: \\\"" rule "\\\": " why "*")

/* "@" stands for a directory in these tables. */
#define SET "\\u0040"

/* The sentence has the rule, and what would be one. */
TEST(test_rules_that_are_none)
{
	static const struct fake_exchange exchanges[] = {
		{ALLOW("\"a.test\",\"" SET "nmp\""),
			WRONG_RULE("*nmp", "no set has this name; the sets are: *npm *pypi *crates "
					   "*debian *go *maven *github")},
		{ALLOW("\"" SET "\""), WRONG_RULE("*", "no set has this name; the sets are: *npm")},
		{ALLOW("\"https://a.test\""),
			WRONG_RULE("https://a.test", "a rule is a host and a port, without a")},
		{ALLOW("\"a.test:443\",\"a.test:http\""),
			WRONG_RULE("a.test:http", "a port is a number from 1 to 65535, or")},
		{ALLOW("\"a.*.test\""), WRONG_RULE("a.*.test", "*can only be the whole first")},
		{ALLOW("\"a..test\""), WRONG_RULE("a..test", "not a host: write a name in ASCII")},
		{ALLOW("\"b\u00fccher.test\""),
			WRONG_RULE("b*cher.test", "not a host: write a name")},
		{ALLOW("\"tcp:a.test\""), WRONG_RULE("tcp:a.test", "*needs a port, as in")},
		{ALLOW("\"a.test b.test\""), WRONG_RULE("a.test b.test", "a string has one rule")},
		{ALLOW("\"\""), WRONG_RULE("", "empty or too long")},
		{ALLOW("\"0123456789012345678901234567890123456789012345678901234567890123456789"
		       "\""),
			WRONG_RULE(
				"0123456789012345678901234567890123456789012345678901234567890123"
				"...",
				"not a host")},
		{ALLOW("1"), WRONG("network must be*")},
		/* Fine, also where the tenant has no network: both must allow a connection. */
		{ALLOW("\"elsewhere.test\",\"" SET "npm\",\"*.test:*\",\"10.0.0.1\""),
			RESULT("1", "*\"network\":\"none\"*")},
	};

	talk(state, ALICE, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_what_open_refuses)
{
	static const struct fake_exchange exchanges[] = {
		{OPEN("{}"), WRONG("give either*")},
		{OPEN("{\"workspace\":\"w\",\"root\":\"@/root/a\"}"), WRONG("give either*")},
		{OPEN("{\"workspace\":1}"), WRONG("*must be strings")},
		{OPEN("{\"root\":1}"), WRONG("*must be strings")},
		{OPEN("{\"kind\":1}"), WRONG("*must be strings")},
		{OPEN("{\"tenant\":1}"), WRONG("*must be strings")},
		{OPEN("{\"root\":\"@/root/a\",\"kind\":\"managed\"}"), WRONG("kind must be*")},
		{OPEN("{\"workspace\":\"w\",\"kind\":\"directory\"}"), WRONG("kind must be*")},
		{OPEN("{\"root\":\"@/root/a\",\"protocol\":\"ftp\"}"), WRONG("protocol must be*")},
		{OPEN("{\"root\":\"@/root/a\",\"protocol\":1}"), WRONG("protocol must be*")},
		{OPEN("{\"root\":\"root/a\"}"), WRONG("root must be*")},
		{OPEN("{\"root\":\"/root\\u0000/a\"}"), WRONG("root must be*")},
		{OPEN("{\"workspace\":\".w\"}"), WRONG("A workspace's name*")},
		{OPEN("{\"workspace\":\"a/b\"}"), WRONG("A workspace's name*")},
		{OPEN("{\"root\":\"@/root/a\",\"tenant\":\"two\"}"), REFUSED("FORBIDDEN")},
		{OPEN("{\"root\":\"@/elsewhere\"}"), REFUSED("FORBIDDEN")},
		{OPEN("{\"root\":\"@/root/../elsewhere\"}"), REFUSED("FORBIDDEN")},
		{OPEN("{\"root\":\"@/root/none\"}"), REFUSED("FORBIDDEN")},
		{OPEN("{\"root\":\"@/root/file\"}"), REFUSED("FORBIDDEN")},
	};

	talk(state, ALICE, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_close)
{
	static const struct fake_exchange exchanges[] = {
		{CLOSE("{}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{OPEN("{\"root\":\"@/root/a\"}"), RESULT("1", "{*}")},
		{OPEN("{\"root\":\"@/root/b\"}"), RESULT("1", "{*}")},
		{CLOSE("{\"workspace\":1}"), WRONG("workspace and tenant*")},
		{CLOSE("{\"tenant\":1}"), WRONG("workspace and tenant*")},
		{CLOSE("{\"workspace\":\"@/root/c\"}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{CLOSE("{\"workspace\":\"@/root/a\",\"tenant\":\"two\"}"),
			REFUSED("WORKSPACE_NOT_FOUND")},
		{CLOSE("{\"workspace\":\"@/root/a\",\"tenant\":\"one\"}"), EMPTY},
		{CLOSE("{\"workspace\":\"@/root/a\"}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{CLOSE("{}"), EMPTY},
		/* No other workspace becomes the default one. */
		{CLOSE("{}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{NOTIFICATION("workspace.close", "{}"), NULL},
	};

	talk(state, ALICE, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_list)
{
	static const struct fake_exchange exchanges[] = {
		{LIST, RESULT("1", "{\"workspaces\":[]}")},
		{OPEN("{\"workspace\":\"w\"}"), RESULT("1", "{*}")},
		{LIST, RESULT("1",
			       "{\"workspaces\":[{\"workspace\":\"w\",\"kind\":\"managed\","
			       "\"root\":"
			       "\"/workspace\",\"tenant\":\"one\",\"open\":true,\"created\":*}]}")},
		{CLOSE("{}"), EMPTY},
		{LIST, RESULT("1",
			       "{\"workspaces\":[{\"workspace\":\"w\",\"kind\":\"managed\","
			       "\"root\":"
			       "\"/"
			       "workspace\",\"tenant\":\"one\",\"open\":false,\"created\":*}]}")},
		{OPEN("{\"root\":\"@/root/a\"}"), RESULT("1", "{*}")},
		{LIST, RESULT("1", "{\"workspaces\":[{\"workspace\":\"w\",*\"open\":false,*},"
				   "{\"workspace\":\"@/root/a\",\"kind\":"
				   "\"directory\",\"root\":\"@/root/"
				   "a\",\"tenant\":\"one\",\"open\":true,\"created\":null,"
				   "\"bytes\":8192,\"files\":2}]}")},
		{NOTIFICATION("workspace.list", "{}"), NULL},
	};

	talk(state, ALICE, exchanges, ARRAY_SIZE(exchanges));
}

/* A task that comes after each of the tenant's: how often it found a list begun. */
struct beside {
	struct loop_share_task task;
	struct tenant_usage *usage;
	unsigned found, left;
};

static void look_beside(void *context)
{
	struct beside *beside = context;

	beside->found += beside->usage->lists;
	if (--beside->left > 0)
		loop_share_wait(&beside->task, &beside->usage->share);
}

static void make_managed(const struct fake_service *fake, unsigned n)
{
	char name[64];

	assert_true(mkdirat(fake->scratch.fd, "state/one", 0700) == 0 || errno == EEXIST);
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "state/one/n%u", i);
		assert_int_equal(mkdirat(fake->scratch.fd, name, 0700), 0);
	}
}

static size_t count_of(const char *text, const char *part)
{
	size_t n = 0;

	while ((text = strstr(text, part))) {
		n++;
		text += strlen(part);
	}
	return n;
}

/* What is asked after it is answered before it; each workspace is listed once. */
TEST(test_a_long_list_is_made_in_pieces)
{
	enum { N = 5 * LIMIT_LISTED_A_TURN };
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);
	struct beside beside = {.usage = fake->service.config->tenants[0]->usage, .left = 100};
	const char *answers;

	beside.task = (struct loop_share_task){.act = look_beside, .context = &beside};
	make_managed(fake, N);
	fake_client_says(&client, OPEN("{\"workspace\":\"n7\"}"), RESULT("1", "{*}"));
	fake_client_says(&client, OPEN("{\"root\":\"@/root/a\"}"), RESULT("1", "{*}"));
	loop_share_wait(&beside.task, &beside.usage->share);
	fake_client_send(&client, LIST "\n" REQUEST("2", "ping", "{}") "\n");
	answers = fake_client_take(&client);
	assert_int_equal(strncmp(answers, RESULT("2", "{}"), strlen(RESULT("2", "{}"))), 0);
	assert_int_equal(count_of(answers, "\"workspace\":"), N + 1);
	assert_int_equal(count_of(answers, "\"workspace\":\"n7\""), 1);
	assert_int_equal(count_of(answers, "\"open\":true"), 2);
	/* The first piece is made at once, and the list is begun until the last one. */
	assert_int_equal(beside.found, N / LIMIT_LISTED_A_TURN);
	assert_false(beside.usage->lists);
	fake_client_close(&client);
}

/* Lists of one tenant are made one after the other, and a client that leaves holds up no other. */
TEST(test_one_long_list_at_a_time)
{
	enum { N = 2 * LIMIT_LISTED_A_TURN };
	struct fake_service *fake = *state;
	const struct tenant_usage *usage = fake->service.config->tenants[0]->usage;
	struct fake_client clients[3];

	make_managed(fake, N);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		clients[i] = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		assert_true(send(clients[i].fd, LIST "\n" LIST "\n", strlen(LIST) * 2 + 2, 0) > 0);
	event_base_loop(fake->service.base, EVLOOP_ONCE);
	fake_client_close(&clients[0]);
	for (size_t i = 1; i < ARRAY_SIZE(clients); i++)
		assert_int_equal(count_of(fake_client_take(&clients[i]), "\"workspace\":"), 2 * N);
	assert_false(usage->lists);
	fake_client_close(&clients[1]);
	fake_client_close(&clients[2]);
}

TEST(test_remove)
{
	static const struct fake_exchange exchanges[] = {
		{REMOVE("{}"), WRONG("workspace must be*")},
		{REMOVE("{\"workspace\":\"w\",\"tenant\":1}"), WRONG("workspace must be*")},
		{REMOVE("{\"workspace\":\"w\"}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{REMOVE("{\"workspace\":\"w\",\"tenant\":\"two\"}"), REFUSED("FORBIDDEN")},
		{OPEN("{\"workspace\":\"w\"}"), RESULT("1", "{*}")},
		{REMOVE("{\"workspace\":\"w\"}"), EMPTY},
		{REMOVE("{\"workspace\":\"w\"}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{LIST, RESULT("1", "{\"workspaces\":[]}")},
	};
	struct fake_service *fake = *state;

	talk(state, ALICE, exchanges, ARRAY_SIZE(exchanges));
	assert_int_equal(fake->service.config->tenants[0]->usage->existing, 0);
}

TEST(test_what_is_used_is_not_removed)
{
	static const struct fake_exchange open = {OPEN("{\"workspace\":\"w\"}"),
						  RESULT("1", "{*}")},
					  busy = {REMOVE("{\"workspace\":\"w\"}"), REFUSED("BUSY")};
	struct fake_client other = fake_client_connect(*state, &agent_endpoint, BOTH, BOTH);

	fake_client_talk(&other, &open, 1);
	talk(state, ALICE, &open, 1);
	talk(state, ALICE, &busy, 1);
	fake_client_close(&other);
	talk(state, ALICE, &(struct fake_exchange){REMOVE("{\"workspace\":\"w\"}"), EMPTY}, 1);
}

/* Whatever is in it, it is gone when that is answered, and counts until the spawner has cleared it.
 */
TEST(test_what_is_removed_counts_until_it_is_cleared)
{
	static const struct fake_exchange exchanges[] = {
		{OPEN("{\"workspace\":\"w\"}"), RESULT("1", "{*}")},
		{REMOVE("{\"workspace\":\"w\"}"), EMPTY},
		{OPEN("{\"workspace\":\"w\"}"), RESULT("1", "{*}")},
	};
	static const struct fake_exchange more = {
		OPEN("{\"workspace\":\"v\"}"), RESULT("1", "{*}")};
	static const struct fake_exchange others[] = {
		{OPEN("{\"workspace\":\"v\"}"),
			ERROR("1", "-32000", "\"message\":\"*being cleared*BUSY*")},
		{OPEN("{\"workspace\":\"u\",\"tenant\":\"one\"}"), REFUSED("BUSY")},
	};
	struct fake_service *fake = *state;
	const struct tenant_usage *usage = fake->service.config->tenants[0]->usage;
	struct spawner_worked told = {.what = SPAWNER_DROPPED,
		.tenant = TEXT_LITERAL("one"),
		.path = TEXT_LITERAL(".removed-1"),
		.error = EIO};

	talk(state, ALICE, exchanges, 1);
	scratch_text(&fake->scratch, "state/one/w/left", "");
	talk(state, ALICE, exchanges + 1, 2);
	assert_int_equal(usage->existing, 1);
	assert_int_equal(usage->removed, 1);
	assert_int_equal(faccessat(fake->scratch.fd, "state/one/w/left", F_OK, 0), -1);
	assert_memory_equal(fake_spawner_dropped(fake->spawner), "one/.removed-", 13);
	talk(state, ALICE, others, ARRAY_SIZE(others));
	/* What could not be cleared goes on counting. */
	fake_spawner_work(fake->spawner, &told);
	talk(state, ALICE, others, 1);
	told.error = 0;
	fake_spawner_work(fake->spawner, &told);
	assert_int_equal(usage->removed, 0);
	talk(state, ALICE, &more, 1);
	talk(state, ALICE,
		&(struct fake_exchange){OPEN("{\"workspace\":\"u\"}"), REFUSED("QUOTA_EXCEEDED")},
		1);
}

/* A client hangs up before its workspace is open. cloisterd forgets the look-up of its directory.
 * The opening of a managed workspace goes on, and the workspace is then freed. */
TEST(test_a_client_that_leaves_meanwhile)
{
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	fake->spawner_waits = true;
	fake_client_send(&client, OPEN("{\"root\":\"@/root/a\"}") "\n");
	fake_service_run(fake);
	assert_int_equal(fake_spawner_asked(fake->spawner)->type, SPAWNER_LOOK_UP);
	fake_client_close(&client);
	assert_null(fake_spawner_asked(fake->spawner));
	client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);
	fake_client_send(&client, OPEN("{\"workspace\":\"w\"}") "\n");
	fake_service_run(fake);
	assert_int_equal(fake_spawner_asked(fake->spawner)->type, SPAWNER_OPEN);
	fake_client_close(&client);
	fake->spawner_waits = false;
	fake_service_run(fake);
	assert_int_equal(fake->service.config->tenants[0]->usage->workspaces, 0);
	assert_int_equal(fake->service.connections, 0);
}

TEST(test_what_the_spawner_cannot_do)
{
	static const struct {
		int error;
		const char *of_directory, *of_managed;
	} rows[] = {
		{-ETIMEDOUT, "TIMEOUT", "TIMEOUT"},
		{-EBUSY, "BUSY", "EXECUTION_ERROR"},
		{-ENOENT, "FORBIDDEN", "EXECUTION_ERROR"},
		{-SPAWNER_REFUSAL, "FORBIDDEN", "FORBIDDEN"},
	};
	struct fake_service *fake = *state;
	char answer[256];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fake_exchange directory = {OPEN("{\"root\":\"@/root/a\"}"), answer};
		struct fake_exchange managed = {OPEN("{\"workspace\":\"w\"}"), answer};

		fake_spawner_refuse(fake->spawner, rows[i].error);
		snprintf(answer, sizeof(answer), REFUSED("%s"), rows[i].of_directory);
		talk(state, ALICE, &directory, 1);
		snprintf(answer, sizeof(answer), REFUSED("%s"), rows[i].of_managed);
		talk(state, ALICE, &managed, 1);
	}
	fake_spawner_refuse(fake->spawner, 0);
	fake_spawner_break(fake->spawner, -ECONNRESET);
	talk(state, ALICE,
		&(struct fake_exchange){OPEN("{\"root\":\"@/root/a\"}"), REFUSED("BUSY")}, 1);
}
