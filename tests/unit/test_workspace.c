/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* What happens to a workspace's calls, of each class, waiting or begun, when its cell changes; and
 * how long cloisterd keeps the cell of a workspace without calls. */
#include "common/wake_cost.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/call_state.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_calls.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#include <sys/mman.h>

#define CONFIG(idle)                                                               \
	"[cloister]\nspare_cells = 0\nworkspace_idle_time = " idle "\n"            \
	"[tenant one]\nusers = 1001\nroots = @/root\ncommands_per_workspace = 1\n" \
	"file_timeout = 10min\n"

static void begin(void **state, struct fake_client *ret_client, const char *config)
{
	static const struct fake_exchange open = {
		REQUEST("1", "workspace.open", "{\"root\":\"@/root\"}"), RESULT("1", "{*}")};
	struct fake_service *fake = fake_service_new(config);

	*state = fake;
	*ret_client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
	fake_client_talk(ret_client, &open, 1);
}

static void end(void **state, struct fake_client *client)
{
	struct fake_cell *cell = fake_spawner_cells(((struct fake_service *)*state)->spawner);

	for (; cell; cell = cell->next)
		cell->worker.held = cell->files.held = false;
	fake_client_close(client);
	fake_service_free(*state);
}

/* The classes that calls of tools have; sessions are in tests/integration/test_sessions.py. */
#define TOOL_CLASSES CALL_CLASS_SESSION

/* Makes a call of @class that its process never answers. */
static void call(struct fake_client *client, int id, enum call_class class)
{
	static const char *const calls[TOOL_CLASSES] = {
		[CALL_CLASS_SHORT] = "\"read_file\",\"arguments\":{\"path\":\"deaf\"}",
		[CALL_CLASS_WRITE] =
			"\"write_file\",\"arguments\":{\"path\":\"deaf\",\"content\":\"\"}",
		[CALL_CLASS_JOB] =
			"\"search_files\",\"arguments\":{\"pattern\":\"x\",\"path\":\"deaf\"}",
		[CALL_CLASS_COMMAND] = ("\"run_command\",\"arguments\":{\"command\":\"deaf\","
					"\"timeout_ms\":600000}"),
	};
	char line[512];

	snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tool.call\",\"params\":{\"tool\":%s}}"
		"\n",
		id, calls[class]);
	fake_client_send(client, line);
}

/* Makes one call of each class, numbered from @first. */
static void call_all(struct fake_client *client, int first)
{
	for (enum call_class class = 0; class < TOOL_CLASSES; class ++)
		call(client, first + (int)class, class);
}

static struct fake_cell *newest(void **state)
{
	return fake_spawner_cells(((struct fake_service *)*state)->spawner);
}

/* A process breaks the protocol and is killed. If @held, the kill does not end it yet. */
static void crash(void **state, bool files, bool held)
{
	struct fake_cell *cell = newest(state);

	cell->worker.held = cell->files.held = held;
	fake_process_say(files ? &cell->files : &cell->worker, 255, 0, (struct text){NULL, 0});
	fake_service_run(*state);
}

/* Returns the code in the answer to @id; "-": there is no answer. */
static const char *code_of(const char *answers, int id)
{
	static char code[64];
	char start[32];
	const char *line, *at;

	snprintf(start, sizeof(start), "\"id\":%d,", id);
	line = strstr(answers, start);
	if (!line)
		return "-";
	at = strstr(line, "\"code\":\"");
	if (!at || (strchr(line, '\n') && at > strchr(line, '\n')))
		return "no code";
	assert_int_equal(sscanf(at, "\"code\":\"%63[^\"]", code), 1);
	return code;
}

#define REST_MS 1000 /* the longest rest of a cell that crashed */

#define BEGUN   100
#define WAITING 200

/* In a cell that could not be made, no call has begun. */
static void lose_unmade(void **state, struct fake_client *client, int error)
{
	struct fake_service *fake = *state;

	crash(state, false, false);
	fake->spawner_waits = true;
	call_all(client, WAITING);
	fake_spawner_fail(
		fake->spawner, fake_spawner_asked(fake->spawner), error, TEXT_LITERAL("try"));
	fake_service_run(fake);
}

/* It is made, and its worker finds that it cannot serve the workspace. */
static void lose_unfit(void **state, struct fake_client *client)
{
	struct fake_service *fake = *state;
	uint8_t payload[64];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	crash(state, false, false);
	fake->workers_wait = true;
	call_all(client, WAITING);
	fake_service_run(fake);
	setup_failure_put(&writer, &(struct setup_failure){TEXT_LITERAL("try"), SETUP_UNFIT});
	fake_process_say(&newest(state)->worker, COMMAND_FAILED, 0,
		(struct text){(char *)payload, writer.len});
	fake_service_run(fake);
}

/* Calls that come while the cell or its files process ends wait for the next one. */
static void lose_open(void **state, struct fake_client *client, bool files, int64_t after_ms)
{
	struct fake_cell *cell;

	call_all(client, BEGUN);
	crash(state, files, true);
	cell = newest(state);
	call_all(client, WAITING);
	if (after_ms > 0) {
		fake_service_pass(*state, after_ms);
		return;
	}
	fake_process_end(&cell->files);
	if (!files)
		fake_process_end(&cell->worker);
	fake_service_run(*state);
}

static void lose(void **state, struct fake_client *client, enum cell_loss loss)
{
	switch (loss) {
	case CELL_GIVEN_UP: /* for the third time */
		for (int i = 0; i < 2; i++) {
			call(client, 1, CALL_CLASS_COMMAND);
			crash(state, false, false);
			fake_service_pass(*state, REST_MS);
		}
		(void)fake_client_take(client);
		lose_open(state, client, false, 0);
		break;
	case CELL_LOST:
		lose_open(state, client, false, 0);
		break;
	case CELL_HELD:
		lose_open(state, client, false, LIMIT_KILL_REPORT_MS);
		break;
	case CELL_FILES_LOST:
		lose_open(state, client, true, 0);
		break;
	case CELL_FILES_HELD:
		lose_open(state, client, true, LIMIT_KILL_REPORT_MS);
		break;
	case CELL_UNFIT:
		lose_unfit(state, client);
		break;
	default:
		lose_unmade(state, client,
			loss == CELL_NOT_MADE     ? -ENOSPC
			: loss == CELL_REFUSED    ? -SPAWNER_REFUSAL
			: loss == CELL_OVER_QUOTA ? -EDQUOT
			: loss == CELL_NOT_NOW    ? -SPAWNER_NOT_NOW
						  : -ETIMEDOUT);
	}
}

/* The answers of calls that had begun and of calls that waited. */
struct fate {
	const char *begun, *waiting; /* the code of the answer; "-": the call goes on */
};

#define IMPOSSIBLE "-" /* no call has begun, so there is no answer */

static const struct fate expected[CELL_LOSSES] = {
	[CELL_LOST] = {"WORKER_LOST", "-"},
	[CELL_GIVEN_UP] = {"WORKER_LOST", "WORKER_LOST"},
	[CELL_NOT_MADE] = {IMPOSSIBLE, "EXECUTION_ERROR"},
	[CELL_REFUSED] = {IMPOSSIBLE, "FORBIDDEN"},
	[CELL_OVER_QUOTA] = {IMPOSSIBLE, "QUOTA_EXCEEDED"},
	[CELL_NOT_NOW] = {IMPOSSIBLE, "BUSY"},
	[CELL_UNFIT] = {IMPOSSIBLE, "NOT_A_DIRECTORY"},
	[CELL_SILENT] = {IMPOSSIBLE, "TIMEOUT"},
	[CELL_HELD] = {"WORKER_LOST", "BUSY"},
	[CELL_FILES_LOST] = {"WORKER_LOST", "-"},
	[CELL_FILES_HELD] = {"WORKER_LOST", "BUSY"},
};

/* Commands do not need the files process. */
static const struct fate *fate_of(enum cell_loss loss, enum call_class class)
{
	static const struct fate goes_on = {"-", "-"};

	return class == CALL_CLASS_COMMAND && (loss == CELL_FILES_LOST || loss == CELL_FILES_HELD)
		       ? &goes_on
		       : &expected[loss];
}

TEST(test_every_loss_for_every_class)
{
	for (enum cell_loss loss = 0; loss < CELL_LOSSES; loss++) {
		_cleanup_free_ char *answers = NULL;
		struct fake_client client;

		begin(state, &client, CONFIG("1h"));
		lose(state, &client, loss);
		answers = strdup(fake_client_take(&client));
		assert_non_null(answers);
		for (enum call_class class = 0; class < TOOL_CLASSES; class ++) {
			const struct fate *want = fate_of(loss, class);

			/* tests/unit/test_call_stream.c and test_call_watch.c */
			if (class == CALL_CLASS_STREAM || class == CALL_CLASS_WATCH)
				continue;
			assert_non_null(want->begun);
			assert_non_null(want->waiting);
			assert_string_equal(code_of(answers, BEGUN + (int)class), want->begun);
			assert_string_equal(code_of(answers, WAITING + (int)class), want->waiting);
		}
		end(state, &client);
	}
}

/* A call that waited for a lost cell begins in the next one. */
TEST(test_what_waits_goes_on)
{
	static const struct fake_exchange echo = {
		REQUEST("5", "tool.call",
			"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"echo a\"}}"),
		NULL};
	struct fake_client client;
	struct fake_cell *cell;

	begin(state, &client, CONFIG("1h"));
	call(&client, BEGUN, CALL_CLASS_COMMAND);
	crash(state, false, true);
	cell = newest(state);
	fake_client_talk(&client, &echo, 1);
	fake_process_end(&cell->worker);
	fake_process_end(&cell->files);
	fake_service_match(*state, fake_client_take(&client),
		"*\"code\":\"WORKER_LOST\"*\"id\":5,\"result\":{\"success\":true*");
	end(state, &client);
}

static void note_id(void *context, struct call *call)
{
	struct call_info info;

	call_get_info(call, &info);
	*(uint64_t *)context = info.id;
}

/* cloisterd ignores a few frames of calls that have not begun or are over. A frame of another
 * process's call is never ignored. */
TEST(test_frames_of_no_call_of_its_own)
{
	struct fake_client client;
	struct fake_cell *cell;
	uint64_t id = 0;

	begin(state, &client, CONFIG("1h"));
	cell = newest(state);
	for (unsigned i = 0; i < LIMIT_UNKNOWN_CALL_FRAMES; i++) {
		fake_process_say(&cell->files, FILES_DATA, 7, TEXT_LITERAL("x"));
		if (i % 64 == 0)
			fake_service_run(*state);
	}
	fake_service_run(*state);
	assert_int_equal(cell->files.killed, 0);
	fake_process_say(&cell->files, FILES_DATA, 7, TEXT_LITERAL("x"));
	fake_service_run(*state);
	assert_true(cell->files.killed > 0);
	assert_int_equal(cell->worker.killed, 0);

	fake_service_pass(*state, REST_MS);
	call(&client, BEGUN, CALL_CLASS_SHORT);
	call_foreach(note_id, &id);
	fake_process_say(&cell->worker, COMMAND_ENDED, id, (struct text){NULL, 0});
	fake_service_run(*state);
	assert_true(cell->worker.killed > 0);
	end(state, &client);
}

/* cloisterd ends the processes of a workspace without calls after a time. The next call gets new
 * ones. */
TEST(test_idle)
{
	static const struct fake_exchange echo = {
		REQUEST("5", "tool.call",
			"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"echo a\"}}"),
		RESULT("5", "{\"success\":true*}")};
	struct fake_client client;
	struct fake_cell *cell;

	begin(state, &client, CONFIG("1s"));
	cell = newest(state);
	fake_service_pass(*state, 999);
	fake_client_talk(&client, &echo, 1);
	fake_service_pass(*state, 999);
	assert_int_equal(cell->worker.killed, 0);
	fake_service_pass(*state, 1);
	assert_true(cell->worker.killed > 0);
	fake_client_talk(&client, &echo, 1);
	assert_ptr_not_equal(newest(state), cell);
	/* A workspace with a running call is not idle, however long the call runs. */
	cell = newest(state);
	call(&client, BEGUN, CALL_CLASS_COMMAND);
	fake_service_pass(*state, 100000);
	assert_int_equal(cell->worker.killed, 0);
	end(state, &client);
}

TEST(test_without_an_idle_time_the_processes_stay)
{
	struct fake_client client;
	struct fake_cell *cell;

	begin(state, &client, CONFIG("0s"));
	cell = newest(state);
	fake_service_pass(*state, 10 * 3600 * 1000LL);
	assert_int_equal(cell->worker.killed, 0);
	/* A reload changes the time for open workspaces too. */
	fake_service_reconfigure(*state, CONFIG("200ms"));
	fake_service_pass(*state, 199);
	assert_int_equal(cell->worker.killed, 0);
	fake_service_pass(*state, 1);
	assert_true(cell->worker.killed > 0);
	end(state, &client);
}

static size_t count_lines(int log, const char *word)
{
	char text[64 * 1024];
	ssize_t n = pread(log, text, sizeof(text) - 1, 0);
	size_t lines = 0;

	assert_true(n >= 0);
	text[n] = '\0';
	for (const char *at = text; (at = strstr(at, word)); at++)
		lines++;
	return lines;
}

static void break_the_protocol(void **state)
{
	crash(state, false, false);
}

static void hold_a_pipe(void *context, struct call *call)
{
	(void)context;
	call_pipe_held(call);
}

static void hold_pipes(void **state)
{
	call_foreach(hold_a_pipe, NULL);
	fake_service_run(*state);
}

/* Each reading is so much later that every call between two was dear once too often. */
static int64_t be_dear(void)
{
	static int64_t ns;

	return ns += 2 * LIMIT_WAKES_DEAR_US * CLOCK_NS_PER_US;
}

static void make_calls_dear(void **state)
{
	wake_cost_replace_clocks(be_dear, be_dear);
	crash(state, false, false);
	wake_cost_replace_clocks(NULL, NULL);
}

/* A tenant whose code has its worker ended again and again. */
TEST(test_a_tenant_cannot_fill_the_log)
{
	static const struct {
		void (*attack)(void **state);
		const char *line;
	} rows[] = {
		{break_the_protocol, "root of the tenant one: its processes have ended: "},
		{hold_pipes, "root of the tenant one: its processes have ended: A process held"},
		{make_calls_dear, "root of the tenant one: its processes have ended: A descriptor"},
	};

	for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
		int log = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
		struct fake_client client;

		assert_true(log >= 0 && saved >= 0);
		begin(state, &client, CONFIG("0s"));
		dup2(log, STDERR_FILENO);
		for (unsigned i = 0; i < 2 * LIMIT_TROUBLE_LINES; i++) {
			call(&client, 1, CALL_CLASS_COMMAND);
			fake_service_run(*state);
			rows[row].attack(state);
			fake_service_pass(*state, REST_MS);
		}
		assert_int_equal(count_lines(log, rows[row].line), LIMIT_TROUBLE_LINES);
		assert_int_equal(count_lines(log, "nothing more about its workspaces"), 1);
		assert_int_equal(count_lines(log, "\n"), LIMIT_TROUBLE_LINES + 1);
		fake_service_pass(*state, LIMIT_TROUBLE_LINES_MS);
		call(&client, 1, CALL_CLASS_COMMAND);
		fake_service_run(*state);
		rows[row].attack(state);
		assert_int_equal(count_lines(log, rows[row].line), LIMIT_TROUBLE_LINES + 1);
		assert_int_equal(count_lines(log, "one: 16 lines about its workspaces"), 1);
		dup2(saved, STDERR_FILENO);
		close(saved);
		close(log);
		end(state, &client);
	}
}
