/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* The leases of managed workspaces: when they end, what that does, and what it meets. */
#include "supervisor/workspace/managed/leases.h"

#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/agent/lease_end.h"
#include "supervisor/base/unix_time.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <sys/socket.h>

#define ALICE 1001
#define BOB   1002

static struct fake_service *fake;

static int set_up(void **state)
{
	(void)state;
	fake = fake_service_new("[cloister]\n[tenant one]\nusers = 1001\nmanaged = yes\n"
				"[tenant two]\nusers = 1002\nmanaged = yes\n");
	lease_end_begin(&fake->service);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_service_forget(fake);
	lease_end_free_all();
	fake_service_free(fake);
	return 0;
}

FIXTURE(set_up, tear_down)

#define OPEN(more)   REQUEST("1", "workspace.open", "{\"workspace\":\"w\"" more "}")
#define UPDATE(more) REQUEST("2", "workspace.update", "{\"workspace\":\"w\"" more "}")
#define LEASE(ms)    ",\"lease\":{\"ms\":" ms ",\"at_end\":\"remove\"}"
#define CLOSES(ms)   ",\"lease\":{\"ms\":" ms "}"
#define RUN(command)                                                    \
	REQUEST("3", "tool.call",                                       \
		"{\"tool\":\"run_command\",\"arguments\":{\"command\":" \
		"\"" command "\"}}")
#define DONE(id) RESULT(id, "{*}")

static void talk(struct fake_client *client, const char *says, const char *answer)
{
	fake_client_talk(client, &(struct fake_exchange){says, answer}, 1);
}

/* What has come without a request. */
static void hears(struct fake_client *client, const char *answer)
{
	fake_service_run(fake);
	fake_service_match(fake, fake_client_take(client), answer);
}

static bool is_there(const char *path)
{
	return faccessat(fake->scratch.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static const struct tenant_usage *usage(size_t tenant)
{
	return fake->service.config->tenants[tenant]->usage;
}

/* Lets what the end of a lease waits for happen. */
static void settle(void)
{
	for (int i = 0; i < 4; i++)
		fake_service_pass(fake, 10);
}

TEST(test_a_lease_ends_to_the_millisecond)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	talk(&client, OPEN(LEASE("60000")), DONE("1"));
	assert_true(is_there("properties/one/w"));
	assert_int_equal(usage(0)->leases, 1);
	fake_service_pass(fake, 59999);
	assert_true(is_there("state/one/w"));
	fake_service_pass(fake, 1);
	assert_false(is_there("state/one/w"));
	assert_false(is_there("properties/one/w"));
	assert_int_equal(usage(0)->leases, 0);
	assert_int_equal(usage(0)->leases_ended, 1);
	assert_int_equal(usage(1)->leases_ended, 0);
	talk(&client, RUN("true"), ERROR("3", "-32000", NAMED("WORKSPACE_NOT_FOUND")));
	talk(&client, OPEN(""), DONE("1"));
	fake_client_close(&client);
}

TEST(test_a_lease_that_is_changed)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	talk(&client, OPEN(LEASE("1000")), DONE("1"));
	fake_service_pass(fake, 999);
	talk(&client, UPDATE(LEASE("1000")), DONE("2")); /* longer */
	fake_service_pass(fake, 999);
	assert_true(is_there("state/one/w"));
	talk(&client, UPDATE(",\"lease\":null"), DONE("2")); /* none */
	fake_service_pass(fake, 100000);
	assert_true(is_there("state/one/w"));
	talk(&client, UPDATE(LEASE("100000")), DONE("2"));
	talk(&client, UPDATE(LEASE("1")), DONE("2")); /* shorter */
	fake_service_pass(fake, 1);
	assert_false(is_there("state/one/w"));
	fake_client_close(&client);
}

/* A command, a session, and one who would open it meanwhile: each is told. */
TEST(test_what_runs_ends)
{
	struct fake_client client = fake_client_open(fake, &agent_endpoint, ALICE, "w");
	struct fake_client other = fake_client_open(fake, &agent_endpoint, ALICE, "w");

	talk(&client, REQUEST("4", "session.start", "{\"command\":\"hang\"}"), DONE("4"));
	talk(&other, RUN("stubborn"), NULL);
	talk(&client, UPDATE(CLOSES("1000")), DONE("2"));
	fake_service_pass(fake, 1000);
	/* The command takes its time to end, and the workspace is no one's meanwhile. */
	talk(&client, OPEN(""), ERROR("1", "-32000", NAMED("LEASE_ENDED")));
	talk(&client, UPDATE(LEASE("9000")), ERROR("2", "-32000", NAMED("LEASE_ENDED")));
	talk(&client, RUN("true"), ERROR("3", "-32000", NAMED("WORKSPACE_NOT_FOUND")));
	assert_int_equal(usage(0)->leases_ended, 0);
	fake_service_pass(fake, LIMIT_TERM_GRACE_MS);
	hears(&other, RESULT("3", "{*\"ended_by\":\"lease\"*\"code\":\"LEASE_ENDED\"*}"));
	settle();
	assert_int_equal(usage(0)->leases_ended, 1);
	talk(&client, OPEN(""), RESULT("1", "{*\"lease\":null*}"));
	fake_client_close(&client);
	fake_client_close(&other);
}

TEST(test_an_opening_that_waits)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	fake->spawner_waits = true;
	talk(&client, OPEN(LEASE("1000")), NULL);
	fake_service_pass(fake, 1000);
	hears(&client, ERROR("1", "-32000", NAMED("LEASE_ENDED")));
	fake->spawner_waits = false;
	settle();
	assert_false(is_there("state/one/w"));
	fake_client_close(&client);
}

/* A checkpoint that waits for the command goes on when that has ended, and then the lease ends. */
TEST(test_a_checkpoint_meanwhile)
{
	const char *heard;
	struct fake_client client = fake_client_open(fake, &agent_endpoint, ALICE, "w");

	talk(&client, RUN("hang"), NULL);
	talk(&client, REQUEST("5", "workspace.checkpoint", "{}"), NULL);
	talk(&client, UPDATE(LEASE("1000")), DONE("2"));
	fake_service_pass(fake, 1000);
	fake_service_run(fake);
	heard = fake_client_take(&client); /* in either order */
	assert_non_null(strstr(heard, "\"ended_by\":\"lease\""));
	assert_non_null(strstr(heard, "\"checkpoint\":1"));
	settle();
	assert_false(is_there("state/one/w"));
	assert_false(is_there("state/one/.layers-w"));
	fake_client_close(&client);
}

TEST(test_a_preview_meanwhile)
{
	struct fake_client client = fake_client_open(fake, &agent_endpoint, ALICE, "w");

	talk(&client,
		REQUEST("6", "tool.call",
			"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"true\"},"
			"\"options\":{\"transaction\":\"preview\"}}"),
		DONE("6"));
	talk(&client, UPDATE(LEASE("1000")), DONE("2"));
	fake_service_pass(fake, 1000);
	settle();
	assert_false(is_there("state/one/w"));
	talk(&client, REQUEST("7", "transaction.commit", "{\"workspace\":\"w\"}"),
		ERROR("7", "-32000", NAMED("WORKSPACE_NOT_FOUND")));
	fake_client_close(&client);
}

/* A workspace that is gone before its lease ends takes the lease with it. */
TEST(test_a_removal_comes_first)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	talk(&client, OPEN(LEASE("1000")), DONE("1"));
	talk(&client, REQUEST("8", "workspace.remove", "{\"workspace\":\"w\"}"), RESULT("8", "{}"));
	assert_int_equal(usage(0)->leases, 0);
	assert_false(is_there("properties/one/w"));
	talk(&client, OPEN(""), DONE("1"));
	fake_service_pass(fake, 1000);
	assert_true(is_there("state/one/w"));
	fake_client_close(&client);
}

/* Properties that a death has left, of a workspace that an administrator has removed, or made anew.
 */
TEST(test_the_start)
{
	static const char ended[] =
		"{\"lease\":{\"expires_at\":\"2001-01-01T00:00:00Z\",\"at_end\":\"remove\"}}";

	scratch_parents(&fake->scratch, "state/one/ended/");
	scratch_parents(&fake->scratch, "state/one/damaged/");
	scratch_parents(&fake->scratch, "state/two/kept/");
	scratch_parents(&fake->scratch, "properties/one/");
	scratch_parents(&fake->scratch, "properties/two/");
	scratch_text(&fake->scratch, "properties/one/ended", ended);
	scratch_text(&fake->scratch, "properties/one/gone", ended);
	scratch_text(&fake->scratch, "properties/one/damaged", "{");
	scratch_text(&fake->scratch, "properties/two/kept",
		"{\"lease\":{\"expires_at\":\"2099-01-01T00:00:00Z\",\"at_end\":\"close\"}}");
	leases_look(workspaces_leases(fake->service.workspaces), fake->service.config, false);
	fake_service_pass(fake, 1);
	assert_true(is_there("properties/one/gone")); /* another generation may be making it */
	leases_look(workspaces_leases(fake->service.workspaces), fake->service.config, true);
	fake_service_pass(fake, 1);
	assert_false(is_there("state/one/ended"));
	assert_false(is_there("properties/one/ended"));
	assert_false(is_there("properties/one/gone"));
	assert_true(is_there("properties/one/damaged"));
	assert_true(is_there("state/two/kept"));
	assert_int_equal(usage(1)->leases, 1);
	assert_string_equal(fake_spawner_removed(fake->spawner), "one/ended");
}

/* While another generation takes over nothing ends; the old daemon ends what runs there, no more.
 */
TEST(test_two_generations)
{
	struct fake_client client = fake_client_open(fake, &agent_endpoint, ALICE, "w");

	talk(&client, RUN("hang"), NULL);
	talk(&client, UPDATE(LEASE("1000")), DONE("2"));
	fake->service.retiring = true;
	fake_service_pass(fake, 2000);
	assert_true(is_there("state/one/w"));
	leases_retire(workspaces_leases(fake->service.workspaces));
	fake->service.retired = true;
	fake_service_pass(fake, LIMIT_LEASE_RETRY_MS);
	hears(&client, RESULT("3", "{*\"ended_by\":\"lease\"*}"));
	settle();
	assert_true(is_there("state/one/w"));
	assert_true(is_there("properties/one/w"));
	fake_client_close(&client);
}

/* The new daemon has changed the lease of a workspace that the old daemon still uses. */
TEST(test_a_lease_that_another_generation_changes)
{
	struct fake_client client = fake_client_open(fake, &agent_endpoint, ALICE, "w");

	talk(&client, RUN("hang"), NULL);
	talk(&client, UPDATE(LEASE("100000")), DONE("2"));
	fake->service.retiring = fake->service.retired = true;
	leases_retire(workspaces_leases(fake->service.workspaces));
	assert_int_equal(unlinkat(fake->scratch.fd, "properties/one/w", 0), 0);
	scratch_text(&fake->scratch, "properties/one/w",
		"{\"lease\":{\"expires_at\":\"2001-01-01T00:00:00Z\"}}");
	fake_service_pass(fake, 1000);
	settle();
	hears(&client, RESULT("3", "{*\"ended_by\":\"lease\"*}"));
	fake_client_close(&client);
}

/* The old daemon has made a lease longer, or taken it away, after the new daemon read it. */
TEST(test_a_lease_is_read_again_before_it_ends)
{
	static const char *const records[] = {
		"{\"lease\":{\"expires_at\":\"2035-01-01T00:00:00Z\"}}",
		"{\"labels\":{\"a\":\"b\"}}"};
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		talk(&client, OPEN(LEASE("1000")), DONE("1"));
		assert_int_equal(unlinkat(fake->scratch.fd, "properties/one/w", 0), 0);
		scratch_text(&fake->scratch, "properties/one/w", records[i]);
		fake_service_pass(fake, 2000);
		assert_true(is_there("state/one/w"));
		assert_int_equal(usage(0)->leases, 1 - i);
	}
	fake_client_close(&client);
}

/* Opens @n workspaces, whose leases end at one moment. */
static void open_many(struct fake_client *client, int n)
{
	for (int i = 0; i < n; i++) {
		char line[256];

		snprintf(line, sizeof(line),
			REQUEST("1", "workspace.open", "{\"workspace\":\"w%d\"" LEASE("1000") "}"),
			i);
		talk(client, line, DONE("1"));
	}
}

/* All leases of one tenant end at one moment, and another tenant's call is answered as ever. */
TEST(test_many_at_once)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);
	struct fake_client bob = fake_client_open(fake, &agent_endpoint, BOB, "w");

	open_many(&client, 40);
	assert_int_equal(usage(0)->leases, 40);
	fake_service_pass(fake, 1000);
	talk(&bob, RUN("echo here"), RESULT("3", "{*\"stdout\":\"here\\n\"*}"));
	settle();
	assert_int_equal(usage(0)->leases_ended, 40);
	assert_int_equal(usage(0)->leases, 0);
	fake_client_close(&client);
	fake_client_close(&bob);
}

/* Counts leases that end, before and after the answer to @client has come. */
struct ends {
	struct fake_client *client;
	unsigned before, after;
};

static int64_t count_end(
	void *context, const char *tenant, const char *name, const struct lease *lease)
{
	struct ends *ends = context;
	char first;

	(void)tenant;
	(void)name;
	(void)lease;
	if (recv(ends->client->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		ends->after++;
	else
		ends->before++;
	return 0;
}

/* It is answered between them, too: the end of a lease reads and changes files. */
TEST(test_many_take_turns_with_others)
{
	static const char question[] = REQUEST("4", "tools.list", "{}") "\n";
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);
	struct fake_client bob = fake_client_open(fake, &agent_endpoint, BOB, "w");
	struct ends ends = {.client = &bob};

	open_many(&client, 40);
	leases_tell(workspaces_leases(fake->service.workspaces), count_end, &ends);
	assert_int_equal(send(bob.fd, question, strlen(question), 0), strlen(question));
	fake_service_pass(fake, 1000);
	assert_true(ends.before < 10);
	assert_int_equal(ends.before + ends.after, 40);
	lease_end_begin(&fake->service);
	fake_client_close(&client);
	fake_client_close(&bob);
}

TEST(test_times)
{
	static const struct {
		const char *text;
		int64_t ms; /* -1: it is none */
		const char *written;
	} rows[] = {
		{"1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00.000Z"},
		{"2026-11-28T16:00:00.5Z", 1795881600500, "2026-11-28T16:00:00.500Z"},
		{"2026-11-28t16:00:00.123456789z", 1795881600123, "2026-11-28T16:00:00.123Z"},
		{"2026-11-28T17:30:00+01:30", 1795881600000, "2026-11-28T16:00:00.000Z"},
		{"2026-11-28 15:00:00-01:00", 1795881600000, "2026-11-28T16:00:00.000Z"},
		{"2028-02-29T00:00:00Z", 1835395200000, "2028-02-29T00:00:00.000Z"},
		{"9999-12-31T23:59:59Z", 253402300799000, "9999-12-31T23:59:59.000Z"},
		{"2016-12-31T23:59:60Z", 1483228800000, "2017-01-01T00:00:00.000Z"},
		{"9999-12-31T23:59:59-01:00", -1, NULL},
		{"1969-12-31T23:59:59Z", -1, NULL},
		{"2027-02-29T00:00:00Z", -1, NULL},
		{"2026-13-01T00:00:00Z", -1, NULL},
		{"2026-00-01T00:00:00Z", -1, NULL},
		{"2026-01-00T00:00:00Z", -1, NULL},
		{"2026-01-01T24:00:00Z", -1, NULL},
		{"2026-01-01T00:60:00Z", -1, NULL},
		{"2026-01-01T00:00:61Z", -1, NULL},
		{"2026-01-01T00:00:00", -1, NULL},
		{"2026-01-01T00:00:00.Z", -1, NULL},
		{"2026-01-01T00:00:00ZZ", -1, NULL},
		{"2026-01-01T00:00:00+24:00", -1, NULL},
		{"2026-01-01T00:00:00+0100", -1, NULL},
		{"+026-01-01T00:00:00Z", -1, NULL},
		{"2026-1-1T00:00:00Z", -1, NULL},
		{"", -1, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char written[RFC3339_BYTES];
		int64_t ms = -1;

		assert_int_equal(rfc3339_read(text_from(rows[i].text), &ms), rows[i].ms >= 0);
		assert_int_equal(ms, rows[i].ms);
		if (ms >= 0) {
			rfc3339_put(ms, written);
			assert_string_equal(written, rows[i].written);
		}
	}
}
