/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* Each event from clients, calls, administrators and timers in each state of a workspace, which is
 * that of its cell (workspace.c). test_workspace.c has the answers of calls whose cell is lost, and
 * test_cell.c the further states of the cell. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/base/clock.h"
#include "supervisor/cell/cell_state.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspace_state.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#define IDLE_MS  (3600 * 1000)
#define PAUSE_MS 60000 /* longer than any pause of a cell */
#define CONFIG                                                                      \
	"[cloister]\nadmin_group = 50\nspare_cells = 0\nworkspace_idle_time = 1h\n" \
	"[tenant one]\nusers = 1001\nmanaged = yes\nfile_timeout = 10min\n"

enum event {
	OPEN_AGAIN,   /* by another client */
	CALL,         /* a client makes a call */
	CANCEL,       /* a client cancels a call that waits or runs */
	KILL,         /* an administrator kills such a call */
	CLOSE,        /* the last client that has the workspace open closes it */
	CLOSE_CALLED, /* the same, while it has a call */
	HANG_UP,      /* the last client, which has a call, hangs up */
	IDLE,         /* the workspace had no call for workspace_idle_time */
	REMOVE,       /* a client removes the workspace */
	WORKSPACE_EVENTS,
};

struct fixture {
	struct fake_service *fake;
	struct fake_client client, other, admin;
};

static const struct fake_exchange open_it = {
	REQUEST("0", "workspace.open", "{\"workspace\":\"w\"}"), RESULT("0", "{*}")};

/* Returns the workspace; NULL: it is gone. */
static struct workspace *workspace(const struct fixture *f)
{
	return LIST_FIRST(&f->fake->service.workspaces->list);
}

static struct fake_cell *newest(const struct fixture *f)
{
	return fake_spawner_cells(f->fake->spawner);
}

static void say(struct fixture *f, struct fake_client *client, const char *line)
{
	fake_client_send(client, line);
	fake_client_send(client, "\n");
	fake_service_run(f->fake);
}

static void call(struct fixture *f, const char *file)
{
	char line[256];

	snprintf(line, sizeof(line),
		REQUEST("1", "tool.call",
			"{\"tool\":\"read_file\",\"arguments\":{\"path\":\"%s\"}}"),
		file);
	say(f, &f->client, line);
}

/* A process breaks the protocol and is killed. If @held, the kill does not end it yet. */
static void crash(struct fixture *f, bool files, bool held)
{
	struct fake_cell *cell = newest(f);

	cell->worker.held = cell->files.held = held;
	fake_process_say(files ? &cell->files : &cell->worker, 255, 0, (struct text){NULL, 0});
	fake_service_run(f->fake);
}

static void be_idle(struct fixture *f)
{
	workspace(f)->last_used = clock_now() - (int64_t)IDLE_MS * CLOCK_NS_PER_MS;
	timer_set(&workspace(f)->idle, 0);
	fake_service_run(f->fake);
}

/* Opens a workspace for a client, without a call, and brings its cell to @state. */
static void reach(struct fixture *f, enum state state)
{
	f->fake = fake_service_new(CONFIG);
	f->client = fake_client_connect(f->fake, &agent_endpoint, 1001, 1001);
	f->other = fake_client_connect(f->fake, &agent_endpoint, 1001, 1001);
	f->admin = fake_client_connect(f->fake, &control_endpoint, 1, 50);
	fake_client_talk(&f->client, &open_it, 1);
	switch (state) {
	case STATE_CLOSED:
		be_idle(f);
		break;
	case STATE_RESTING:
		crash(f, false, false);
		call(f, "x");
		crash(f, false, false);
		break;
	case STATE_OPENING:
		be_idle(f);
		f->fake->spawner_waits = true;
		call(f, "x");
		say(f, &f->client, REQUEST("2", "tool.cancel", "{\"id\":1}"));
		break;
	case STATE_OPEN:
		break;
	case STATE_FILES_RESTING:
		crash(f, true, false);
		crash(f, true, false);
		break;
	case STATE_FILES_OPENING:
		f->fake->spawner_waits = true;
		crash(f, true, false);
		break;
	default:
		crash(f, state == STATE_FILES_ENDING || state == STATE_FILES_HELD, true);
		if (state == STATE_FILES_HELD || state == STATE_QUARANTINED)
			fake_service_pass(f->fake, LIMIT_KILL_REPORT_MS);
	}
	(void)fake_client_take(&f->client);
	f->fake->spawner_waits = true;
	assert_int_equal(workspace(f)->cell->state, state);
}

static void leave(struct fixture *f)
{
	for (struct fake_cell *cell = newest(f); cell; cell = cell->next)
		cell->worker.held = cell->files.held = false;
	fake_client_close(&f->client);
	fake_client_close(&f->other);
	fake_client_close(&f->admin);
	f->fake->spawner_waits = false;
	fake_service_pass(f->fake, PAUSE_MS);
	fake_service_free(f->fake);
}

static void cause(struct fixture *f, enum event event)
{
	if (event == CANCEL || event == KILL || event == CLOSE_CALLED || event == HANG_UP)
		call(f, "slow");
	switch (event) {
	case OPEN_AGAIN:
		say(f, &f->other, REQUEST("1", "workspace.open", "{\"workspace\":\"w\"}"));
		break;
	case CALL:
		call(f, "x");
		break;
	case CANCEL:
		say(f, &f->client, REQUEST("2", "tool.cancel", "{\"id\":1}"));
		break;
	case KILL:
		say(f, &f->admin, REQUEST("2", "kill", "{\"workspace\":\"w\",\"tenant\":\"one\"}"));
		break;
	case HANG_UP:
		fake_client_close(&f->client);
		break;
	case IDLE:
		be_idle(f);
		break;
	case REMOVE:
		say(f, &f->client, REQUEST("1", "workspace.remove", "{\"workspace\":\"w\"}"));
		break;
	default:
		say(f, &f->client, REQUEST("2", "workspace.close", "{}"));
	}
}

/* Returns the answer to request 1; "": there is none yet. */
static const char *answer_of(struct fake_client *client)
{
	static char answer[80];
	const char *got = client->got ? fake_client_take(client) : "";
	const char *one = strstr(got, "\"id\":1,"), *code = one ? strstr(one, "\"code\":\"") : NULL;

	answer[0] = '\0';
	if (code)
		assert_int_equal(sscanf(code, "\"code\":\"%63[^\"]", answer), 1);
	else if (one)
		strcpy(answer, "OK");
	return answer;
}

/* Returns the answer, the state of the cell or "gone", whether a client or a call uses the
 * workspace, and whether its call waits or runs. Requests to the spawner stay unanswered. */
static const char *outcome(struct fixture *f, enum event event)
{
	static const char *const names[STATES] = {"closed", "resting", "opening", "open",
		"files ending", "files held", "files resting", "files opening", "ending",
		"quarantined"};
	static char text[256];
	struct workspace_info info;
	const char *answer = answer_of(event == OPEN_AGAIN ? &f->other : &f->client);

	if (!workspace(f)) {
		snprintf(text, sizeof(text), "%s gone", answer);
		return text;
	}
	workspace_get_info(workspace(f), &info);
	snprintf(text, sizeof(text), "%s %s%s%s%s", answer, names[workspace(f)->cell->state],
		info.users > 0 ? "" : " unused", info.waiting > 0 ? " waiting" : "",
		info.running > 0 ? " running" : "");
	return text;
}

/* clang-format off */
static const char *const expected[STATES][WORKSPACE_EVENTS] = {
	[STATE_CLOSED] = {
		[OPEN_AGAIN] = " opening waiting",
		[CALL] = " opening waiting",
		[CANCEL] = "CANCELLED opening",
		[KILL] = "CANCELLED opening",
		[CLOSE] = " gone",
		[CLOSE_CALLED] = " opening waiting",
		[HANG_UP] = " gone",
		[IDLE] = " closed",
		[REMOVE] = "OK gone",
	},
	[STATE_RESTING] = {
		[OPEN_AGAIN] = " resting waiting",
		[CALL] = " resting waiting",
		[CANCEL] = "CANCELLED resting",
		[KILL] = "CANCELLED resting",
		[CLOSE] = " gone",
		[CLOSE_CALLED] = " resting waiting",
		[HANG_UP] = " gone",
		[IDLE] = " resting",
		[REMOVE] = "OK gone",
	},
	[STATE_OPENING] = {
		[OPEN_AGAIN] = " opening waiting",
		[CALL] = " opening waiting",
		[CANCEL] = "CANCELLED opening",
		[KILL] = "CANCELLED opening",
		[CLOSE] = " gone",
		[CLOSE_CALLED] = " opening waiting",
		[HANG_UP] = " gone",
		[IDLE] = " opening",
		[REMOVE] = "OK gone",
	},
	[STATE_OPEN] = {
		[OPEN_AGAIN] = "OK open",
		[CALL] = "OK open",
		[CANCEL] = "CANCELLED open",
		[KILL] = "CANCELLED open",
		[CLOSE] = " gone",
		[CLOSE_CALLED] = " open running",
		[HANG_UP] = " gone",
		[IDLE] = " closed",
		[REMOVE] = "OK gone",
	},
	[STATE_FILES_ENDING] = {
		[OPEN_AGAIN] = " files ending waiting",
		[CALL] = " files ending waiting",
		[CANCEL] = "CANCELLED files ending",
		[KILL] = "CANCELLED files ending",
		[CLOSE] = " ending unused",
		[CLOSE_CALLED] = " files ending waiting",
		[HANG_UP] = " ending unused",
		[IDLE] = " files ending",
		[REMOVE] = "OK ending unused",
	},
	[STATE_FILES_HELD] = {
		[OPEN_AGAIN] = "BUSY files held",
		[CALL] = "BUSY files held",
		[CANCEL] = "BUSY files held",
		[KILL] = "BUSY files held",
		[CLOSE] = " ending unused",
		[CLOSE_CALLED] = "BUSY ending unused",
		[HANG_UP] = " ending unused",
		[IDLE] = " files held",
		[REMOVE] = "OK ending unused",
	},
	[STATE_FILES_RESTING] = {
		[OPEN_AGAIN] = " files resting waiting",
		[CALL] = " files resting waiting",
		[CANCEL] = "CANCELLED files resting",
		[KILL] = "CANCELLED files resting",
		[CLOSE] = " gone",
		[CLOSE_CALLED] = " files resting waiting",
		[HANG_UP] = " gone",
		[IDLE] = " files resting",
		[REMOVE] = "OK gone",
	},
	[STATE_FILES_OPENING] = {
		[OPEN_AGAIN] = " files opening waiting",
		[CALL] = " files opening waiting",
		[CANCEL] = "CANCELLED files opening",
		[KILL] = "CANCELLED files opening",
		[CLOSE] = " gone",
		[CLOSE_CALLED] = " files opening waiting",
		[HANG_UP] = " gone",
		[IDLE] = " files opening",
		[REMOVE] = "OK gone",
	},
	[STATE_ENDING] = {
		[OPEN_AGAIN] = " ending waiting",
		[CALL] = " ending waiting",
		[CANCEL] = "CANCELLED ending",
		[KILL] = "CANCELLED ending",
		[CLOSE] = " ending unused",
		[CLOSE_CALLED] = " ending waiting",
		[HANG_UP] = " ending unused",
		[IDLE] = " ending",
		[REMOVE] = "OK ending unused",
	},
	[STATE_QUARANTINED] = {
		[OPEN_AGAIN] = "BUSY quarantined",
		[CALL] = "BUSY quarantined",
		[CANCEL] = "BUSY quarantined",
		[KILL] = "BUSY quarantined",
		[CLOSE] = " quarantined unused",
		[CLOSE_CALLED] = "BUSY quarantined unused",
		[HANG_UP] = " quarantined unused",
		[IDLE] = " quarantined",
		[REMOVE] = "OK quarantined unused",
	},
};
/* clang-format on */

TEST(test_every_event_in_every_state)
{
	for (enum state from = 0; from < STATES; from++)
		for (enum event event = 0; event < WORKSPACE_EVENTS; event++) {
			struct fixture f;

			assert_non_null(expected[from][event]);
			reach(&f, from);
			cause(&f, event);
			assert_string_equal(outcome(&f, event), expected[from][event]);
			leave(&f);
		}
}
