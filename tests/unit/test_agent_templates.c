/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process id_range */
// SPDX-License-Identifier: Apache-2.0
/* workspace.freeze and .fork on the agent socket: what stands on the disk before and after. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/host/id_range.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/id_range.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/spawner_link.h"

#define ALICE 1001

static int set_up(void **state)
{
	struct fake_service *fake = fake_service_new("[tenant one]\n"
						     "users = 1001\n"
						     "managed = yes\n"
						     "templates = 2\n"
						     "workspaces_existing = 5\n");

	assert_int_equal(mkdirat(fake->scratch.fd, "templates", 0700), 0);
	fake_id_range = NULL;
	*state = fake;
	return 0;
}

static int tear_down(void **state)
{
	fake_id_range = NULL;
	fake_service_free(*state);
	return 0;
}

FIXTURE(set_up, tear_down)

static void talk(void **state, const struct fake_exchange *exchanges, size_t n)
{
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, ALICE, ALICE);

	fake_client_talk(&client, exchanges, n);
	fake_client_close(&client);
}

static bool is_there(void **state, const char *path)
{
	const struct fake_service *fake = *state;

	return faccessat(fake->scratch.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

#define OPEN           REQUEST("1", "workspace.open", "{\"workspace\":\"w\"}")
#define FREEZE(params) REQUEST("1", "workspace.freeze", params)
#define FORK(params)   REQUEST("1", "workspace.fork", params)
#define REFUSED(name)  ERROR("1", "-32000", NAMED(name))
#define WRONG(message) ERROR("1", "-32602", "\"message\":\"" message "\"")
#define FROZEN(name) \
	RESULT("1", "{\"workspace\":\"w\",\"template\":\"" name "\",\"replaced\":false}")
#define FORKED(by, names) \
	RESULT("1", "{\"template\":\"t\",\"forked_by\":\"" by "\",\"workspaces\":[" names "]}")

TEST(test_forks_above_a_template)
{
	static const struct fake_exchange exchanges[] = {
		{OPEN, RESULT("1", "{*}")},
		{FREEZE("{\"template\":\"t\"}"), FROZEN("t")},
		{FREEZE("{\"template\":\"t\"}"), REFUSED("FORBIDDEN")},
		{FORK("{\"from\":\"t\",\"count\":2}"), FORKED("overlay", "\"t-1\",\"t-2\"")},
		{FORK("{\"from\":\"t\",\"prefix\":\"x\"}"), FORKED("overlay", "\"x-1\"")},
		{FORK("{\"from\":\"t\",\"count\":2}"), REFUSED("QUOTA_EXCEEDED")},
		{FORK("{\"from\":\"t\"}"), FORKED("overlay", "\"t-3\"")},
		{FREEZE("{\"template\":\"u\"}"), FROZEN("u")},
		{FREEZE("{\"template\":\"v\"}"), REFUSED("QUOTA_EXCEEDED")},
	};
	const struct fake_service *fake = *state;
	const struct tenant *tenant = fake->service.config->tenants[0];
	_cleanup_(refusal_done) struct refusal refusal = {0};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
	assert_true(is_there(state, "templates/one/t") && is_there(state, "state/one/t-3"));
	assert_true(is_there(state, "state/one/.layers-t-1/from=t") &&
		    is_there(state, "state/one/.layers-t-1/1-0") &&
		    !is_there(state, "state/one/.layers-t-1/c0=t") &&
		    is_there(state, "state/one/.layers-t-1/at-1"));
	assert_int_equal(tenant->usage->freezes, 2);
	assert_int_equal(tenant->usage->forks, 4);
	assert_int_equal(tenant->usage->copies, 0);
	assert_int_equal(
		template_remove(fake->service.workspaces, tenant, TEXT_LITERAL("t"), &refusal),
		TOOL_BUSY);
	assert_string_equal(
		refusal_text(&refusal), "4 forks use it: remove those workspaces first");
	assert_int_equal(
		template_remove(fake->service.workspaces, tenant, TEXT_LITERAL("u"), &refusal),
		TOOL_OK);
	assert_false(is_there(state, "templates/one/u"));
	assert_true(fake_spawner_dropped_template(fake->spawner));
	assert_int_equal(strncmp(fake_spawner_dropped(fake->spawner), "one/.unfinished-", 16), 0);
}

TEST(test_forks_with_their_own_ids)
{
	static const struct id_range range = {100000, 100000, 1000};
	static const struct fake_exchange frozen[] =
		{
			{OPEN, RESULT("1", "{*}")},
			{FREEZE("{\"template\":\"t\"}"), FROZEN("t")},
		},
					  made[] = {{FORK("{\"from\":\"t\",\"count\":2}"),
						  FORKED("copy", "\"t-1\",\"t-2\"")}},
					  refused[] = {{FORK("{\"from\":\"t\",\"count\":2}"),
						  REFUSED("NO_SPACE")}};
	struct fake_service *fake = *state;

	talk(state, frozen, ARRAY_SIZE(frozen));
	fake_id_range = &range;
	talk(state, made, 1);
	assert_true(is_there(state, "state/one/t-1") && is_there(state, "state/one/t-2"));
	assert_false(is_there(state, "state/one/.layers-t-1"));
	/* If one cannot be copied, none stays. */
	fake_spawner_refuse(fake->spawner, -ENOSPC);
	talk(state, refused, 1);
	assert_false(is_there(state, "state/one/t-3"));
	assert_int_equal(strncmp(fake_spawner_dropped(fake->spawner), "one/.unfinished-", 16), 0);
	assert_false(fake_spawner_dropped_template(fake->spawner));
	assert_int_equal(fake->service.config->tenants[0]->usage->copies, 0);
}

/* Where the spawner has the template in memory, forks with their own ids lie above it, too. */
TEST(test_forks_above_memory)
{
	static const struct id_range range = {100000, 100000, 1000};
	static const struct fake_exchange
		frozen[] =
			{
				{OPEN, RESULT("1", "{*}")},
				{FREEZE("{\"template\":\"t\"}"), FROZEN("t")},
			},
		made[] = {{FORK("{\"from\":\"t\",\"count\":2}"),
			FORKED("memory", "\"t-1\",\"t-2\"")}},
		copied[] = {{FORK("{\"from\":\"t\"}"),
			RESULT("1", "{\"template\":\"t\",\"forked_by\":"
				    "\"copy\",\"why_copied\":"
				    "\"other templates in use take what "
				    "template_memory gives\",\"workspaces\":"
				    "[\"t-3\"]}")}},
		opened[] = {{REQUEST("1", "workspace.open", "{\"workspace\":\"t-1\"}"),
			RESULT("1", "{*}")}},
		refused[] = {{REQUEST("1", "workspace.open", "{\"workspace\":\"t-2\"}"),
			REFUSED("BUSY")}};
	struct fake_service *fake = *state;
	const struct tenant *tenant = fake->service.config->tenants[0];
	_cleanup_(refusal_done) struct refusal refusal = {0};

	talk(state, frozen, ARRAY_SIZE(frozen));
	fake_id_range = &range;
	fake_spawner_load(fake->spawner, 0);
	talk(state, made, 1);
	assert_string_equal(fake_spawner_loaded(fake->spawner), "one/t");
	assert_true(is_there(state, "state/one/t-2") &&
		    is_there(state, "state/one/.layers-t-2/from=t"));
	assert_int_equal(
		template_remove(fake->service.workspaces, tenant, TEXT_LITERAL("t"), &refusal),
		TOOL_BUSY);
	talk(state, opened, 1);
	fake_spawner_load(fake->spawner, -ENOSPC);
	talk(state, copied, 1);
	assert_false(is_there(state, "state/one/.layers-t-3"));
	/* No cell is made of one whose template cannot be loaded. */
	talk(state, refused, 1);
	assert_int_equal(tenant->usage->copies, 0);
}

#define MANY 18 /* forks; the first slice is the request's */

/* A task beside those of the tenant, whose turn comes after each of its slices. */
struct beside {
	struct loop_share_task task;
	struct fake_service *fake;
	struct fake_client *leaves; /* as soon as some are made; NULL: it stays */
	const char *makes;          /* then; NULL: nothing */
	size_t most;                /* forks that were made or taken back in a slice */
	unsigned slices, left;
	size_t known; /* names there are */
	enum tool_error open, remove_template;
	bool settled;
};

static size_t forks_there(const struct fake_service *fake)
{
	char path[64];
	size_t n = 0;

	for (int i = 1; i <= MANY; i++) {
		snprintf(path, sizeof(path), "state/one/t-%d", i);
		n += faccessat(fake->scratch.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	return n;
}

static void try_others(struct beside *beside)
{
	struct workspaces *workspaces = beside->fake->service.workspaces;
	struct tenant *tenant = beside->fake->service.config->tenants[0];
	_cleanup_(refusal_done) struct refusal first = {0}, second = {0};
	struct workspace *workspace;

	beside->open = workspaces_get_managed(
		workspaces, tenant, TEXT_LITERAL("t-2"), true, &workspace, &first);
	beside->remove_template = template_remove(workspaces, tenant, TEXT_LITERAL("t"), &second);
	beside->settled = workspaces_are_settled(workspaces);
	if (beside->makes)
		assert_int_equal(mkdirat(beside->fake->scratch.fd, beside->makes, 0700), 0);
	if (beside->leaves)
		close_fd(&beside->leaves->fd);
}

static void look_beside(void *context)
{
	struct beside *beside = context;
	struct tenant_usage *usage = beside->fake->service.config->tenants[0]->usage;
	size_t n = forks_there(beside->fake), change;

	change = n > beside->known ? n - beside->known : beside->known - n;
	if (change > beside->most)
		beside->most = change;
	beside->slices += change > 0;
	if (change > 0 && beside->known == 0)
		try_others(beside);
	beside->known = forks_there(beside->fake);
	if (--beside->left > 0)
		loop_share_wait(&beside->task, &usage->share);
}

static struct beside begin_many(void **state, struct fake_client *client)
{
	static const struct fake_exchange frozen[] = {
		{OPEN, RESULT("1", "{*}")}, {FREEZE("{\"template\":\"t\"}"), FROZEN("t")}};

	fake_service_reconfigure(*state, "[tenant one]\n"
					 "users = 1001\n"
					 "managed = yes\n"
					 "workspaces_existing = 20\n");
	*client = fake_client_connect(*state, &agent_endpoint, ALICE, ALICE);
	fake_client_talk(client, frozen, ARRAY_SIZE(frozen));
	return (struct beside){.fake = *state, .left = 100, .settled = true};
}

static void send_many(struct beside *beside, struct fake_client *client)
{
	struct tenant_usage *usage = beside->fake->service.config->tenants[0]->usage;
	static const char request[] = FORK("{\"from\":\"t\",\"count\":18}") "\n";

	beside->task = (struct loop_share_task){.act = look_beside, .context = beside};
	loop_share_wait(&beside->task, &usage->share);
	if (beside->leaves)
		assert_true(send(client->fd, request, strlen(request), 0) > 0);
	else
		fake_client_send(client, request);
	fake_service_run(beside->fake);
	assert_int_equal(beside->left, 0);
	assert_int_equal(usage->forks_awaited, 0);
}

/* Nobody meets those that are there before all are. */
TEST(test_many_forks_are_made_in_pieces)
{
	struct fake_client client;
	struct beside beside = begin_many(state, &client);

	send_many(&beside, &client);
	assert_int_equal(beside.most, LIMIT_FORKS_A_TURN);
	assert_int_equal(beside.slices, (MANY + LIMIT_FORKS_A_TURN - 1) / LIMIT_FORKS_A_TURN);
	assert_int_equal(beside.open, TOOL_BUSY);
	assert_int_equal(beside.remove_template, TOOL_BUSY);
	assert_false(beside.settled);
	fake_client_hears(&client, FORKED("overlay", "\"t-1\",*\"t-18\""));
	assert_int_equal(forks_there(*state), MANY);
	assert_true(workspaces_are_settled(beside.fake->service.workspaces));
	fake_client_says(&client, REQUEST("1", "workspace.open", "{\"workspace\":\"t-2\"}"),
		RESULT("1", "{*}"));
	fake_client_close(&client);
}

/* If one cannot be made, those before it go, in pieces too. What has its name stays. */
TEST(test_many_forks_of_which_one_fails)
{
	struct fake_client client;
	struct beside beside = begin_many(state, &client);
	struct fake_service *fake = *state;

	beside.makes = "state/one/t-14";
	send_many(&beside, &client);
	assert_true(beside.most <= LIMIT_FORKS_A_TURN);
	assert_true(beside.slices >= 2 * (12 / LIMIT_FORKS_A_TURN));
	fake_client_hears(&client, ERROR("1", "*", "*"));
	assert_int_equal(forks_there(fake), 1);
	assert_true(is_there(state, beside.makes));
	assert_false(is_there(state, "state/one/.layers-t-1"));
	assert_int_equal(fake->service.config->tenants[0]->usage->existing, 1);
	assert_int_equal(fake->service.config->tenants[0]->usage->forks, 0);
	fake_client_close(&client);
}

/* All are made also if the client leaves meanwhile. */
TEST(test_many_forks_of_a_client_that_leaves)
{
	struct fake_client client;
	struct beside beside = begin_many(state, &client);

	beside.leaves = &client;
	send_many(&beside, &client);
	assert_int_equal(forks_there(*state), MANY);
	assert_true(workspaces_are_settled(beside.fake->service.workspaces));
	fake_client_close(&client);
}

TEST(test_what_is_wrong)
{
	static const struct fake_exchange exchanges[] = {
		{FREEZE("{}"), WRONG("template must be*")},
		{FREEZE("{\"template\":1}"), WRONG("template must be*")},
		{FREEZE("{\"template\":\"t\"}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{OPEN, RESULT("1", "{*}")},
		{FREEZE("{\"template\":\"../t\"}"), WRONG("template must be*")},
		{FORK("{}"), WRONG("from must be*")},
		{FORK("{\"from\":\"../t\"}"), WRONG("from must be*")},
		{FORK("{\"from\":\"t\",\"count\":0}"), WRONG("count must be*")},
		{FORK("{\"from\":\"t\",\"count\":257}"), WRONG("count must be*")},
		{FORK("{\"from\":\"t\",\"prefix\":\"a/b\"}"), WRONG("prefix must have*")},
		{FORK("{\"from\":\"t\",\"tenant\":\"two\"}"), REFUSED("FORBIDDEN")},
		{FORK("{\"from\":\"t\"}"), REFUSED("NOT_FOUND")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
	assert_false(is_there(state, "templates/one/t"));
}

/* A copy that fails leaves no template, and the next call begins. */
TEST(test_a_copy_that_fails)
{
	static const struct fake_exchange first[] = {{OPEN, RESULT("1", "{*}")}},
					  refused[] = {{FREEZE("{\"template\":\"t\"}"),
						  REFUSED("QUOTA_EXCEEDED")}},
					  then[] = {{FREEZE("{\"template\":\"t\"}"), FROZEN("t")}};
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	fake_client_talk(&client, first, 1);
	fake_spawner_refuse(fake->spawner, -EFBIG);
	fake_client_talk(&client, refused, 1);
	assert_false(is_there(state, "templates/one/t"));
	assert_true(fake_spawner_dropped_template(fake->spawner));
	fake_spawner_refuse(fake->spawner, 0);
	fake_client_talk(&client, then, 1);
	assert_true(is_there(state, "templates/one/t"));
	fake_client_close(&client);
}
