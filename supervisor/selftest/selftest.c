// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. A run is a sequence of steps: clear and fill the canary workspace, run the
 * suite's probes, clear it again. Probes of the network have workspaces of their own, which are
 * filled before the first of them. Each step is one call. Its completion stores the result and
 * activates the next step from the loop, never from inside the call that ended.
 */
#include "supervisor/selftest/selftest.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/call/call.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/selftest/selftest_attempts.h"
#include "supervisor/selftest/selftest_forks.h"
#include "supervisor/selftest/selftest_import.h"
#include "supervisor/selftest/selftest_program.h"
#include "supervisor/selftest/selftest_run.h"
#include "supervisor/selftest/selftest_verdict.h"
#include "supervisor/workspace/layers/workspace_preview.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/network/network_use.h"
#include "supervisor/workspace/workspaces.h"
#include "json/json_read.h"

#include <errno.h>
#include <event2/event.h>
#include <json-c/json.h>
#include <stdio.h>
#include <unistd.h>

#define COMMAND_BYTES   8192 /* the longest batch */
#define STEPS_SET_UP    3
#define INVALID_PARAMS  "INVALID_PARAMS"
#define EGRESS_WAITS    50 /* for cloister-egress to connect */
#define EGRESS_PAUSE_MS 100

/* The template that forks are made of is filled already. */
static bool is_set_up(const struct selftest *selftest)
{
	return canary_is_fork(selftest->place) ||
	       selftest->canaries[selftest->place].set_up == STEPS_SET_UP;
}

/*
 * Whether cloister-egress ended during probes of a network, whose answers say nothing then. The
 * batch is made once more, and then skipped.
 */
static bool was_interrupted(struct selftest *selftest, const struct observation *observation)
{
	bool is_there = egress_link_is_ready(selftest->service->egress);

	if (!canary_has_network(canary_place(selftest_suite[selftest->at].kind)) ||
		!observation->network || (is_there && !observation->network->is_lost))
		return false;
	if (!selftest->is_repeated) {
		selftest->is_repeated = true;
		selftest->next = selftest->at;
		return true;
	}
	log_warning("self-test: cloister-egress has ended again during its probes, which are "
		    "skipped");
	for (size_t i = selftest->at; i < selftest->next; i++)
		selftest_skip(&selftest->results, i, "cloister-egress has ended");
	return true;
}

/* Set-up is no probe, but no probe can run without it. */
static void note_set_up(struct selftest *selftest, const struct observation *observation)
{
	const struct command_ended *command = observation->command;

	if (observation->error != TOOL_OK && !selftest->obstacle[0]) {
		selftest->is_hindered = selftest_is_want(selftest, observation->error);
		snprintf(selftest->obstacle, sizeof(selftest->obstacle), "set-up: %s",
			tool_error_name(observation->error));
	} else if (command && command->wait_status != 0) {
		/* It makes small files, which fails for want of room, of files or of processes. */
		selftest->is_hindered = true;
		snprintf(selftest->obstacle, sizeof(selftest->obstacle),
			"set-up: the command failed (%u)", command->wait_status);
	}
	selftest_canary(selftest)->set_up++;
}

static void on_undone(void *context, enum tool_error error, const char *why)
{
	struct selftest *selftest = context;

	if (error != TOOL_OK)
		log_warning("self-test: the layer of its probes is still there: %s",
			why ? why : tool_error_sentence(error));
	selftest_step_soon(selftest);
}

/* Drops the layer of the probes, and goes on then; or skips them, since there is none. */
static void end_layers(struct selftest *selftest, const struct observation *observation)
{
	struct workspace *workspace = selftest_canary(selftest)->workspace;

	if (workspace_preview_is_open(workspace)) {
		selftest_note_call(&selftest->results, selftest->at, selftest->next, observation);
		workspace_preview_undo(workspace, on_undone, selftest);
		return;
	}
	(void)workspace_preview_forget(workspace);
	for (size_t i = selftest->at; i < selftest->next; i++)
		selftest_skip(&selftest->results, i, "no overlay can be made of layers here");
	log_warning("self-test: the probes of layers are skipped: %.*s",
		(int)observation_message(observation).len, observation_message(observation).data);
	selftest_step_soon(selftest);
}

/* What keeps a fork from being shown is no hole. */
static void skip_fork(struct selftest *selftest, const struct observation *observation)
{
	struct text why = observation_message(observation);

	log_warning("self-test: the probes of the fork %s are skipped: %.*s",
		canary_name(selftest->place), (int)why.len, why.data);
	for (size_t i = selftest->at; i < selftest->next; i++)
		selftest_skip(&selftest->results, i, tool_error_name(observation->error));
}

static void on_selftest_done(void *context, const struct observation *observation)
{
	struct selftest *selftest = context;

	selftest->call = NULL;
	if (!selftest->tearing_down && is_set_up(selftest) &&
		selftest_suite[selftest->at].kind == PROBE_LAYERS) {
		end_layers(selftest, observation);
		return;
	}
	if (!selftest->tearing_down && !is_set_up(selftest))
		note_set_up(selftest, observation);
	else if (!selftest->tearing_down && canary_is_fork(selftest->place) &&
		 observation->error != TOOL_OK)
		skip_fork(selftest, observation);
	else if (!selftest->tearing_down && !was_interrupted(selftest, observation))
		selftest_note_call(&selftest->results, selftest->at, selftest->next, observation);
	selftest_step_soon(selftest);
}

/* Ends the step as if a call had ended with @error. */
static void done_at_once(struct selftest *selftest, enum tool_error error)
{
	struct observation observation = {.error = error};

	on_selftest_done(selftest, &observation);
}

/* Begins the call with @params, which it takes. */
static void make_call(struct selftest *selftest, struct json_object *params)
{
	struct call_owner owner = {
		.done = on_selftest_done, .context = selftest, .unread = &selftest->unread};
	struct call_request request;
	struct call_refusal refusal;
	enum tool_error error;
	struct workspace *workspace = selftest_canary(selftest)->workspace;
	int r = call_request_read(params, 0, workspace_visible(workspace),
		selftest_canary(selftest)->tenant, TOOLS_ALL, READER_PROGRAM, &request, &refusal);

	json_object_put(params);
	if (r == 0 && (audit_forbids(selftest->service->audit) ||
			      audit_refuses_call(selftest->service->audit,
				      selftest_canary(selftest)->tenant))) {
		call_request_done(&request);
		if (!selftest->tearing_down) {
			selftest->is_hindered = true;
			snprintf(selftest->obstacle, sizeof(selftest->obstacle), "audit log: BUSY");
		}
		done_at_once(selftest, TOOL_BUSY);
		return;
	}
	if (r == 0) {
		request.inside = workspace_has_preview(workspace);
		/* cloisterd itself asks for the call. */
		request.uid = geteuid();
		request.gid = getegid();
		request.pid = getpid();
		if (call_start(selftest->service, workspace, &request, &owner, &selftest->call) < 0)
			done_at_once(selftest, TOOL_BUSY);
		return;
	}
	error = refusal.why.error;
	call_refusal_done(&refusal);
	/* A protocol error has no tool error code. */
	if (error == TOOL_OK && is_set_up(selftest) && !selftest->tearing_down)
		selftest_note(&selftest->results, selftest->at, TEXT_LITERAL(INVALID_PARAMS));
	done_at_once(selftest, error);
}

static void call_tool(struct selftest *selftest, const char *tool, const char *key,
	const char *value, const char *content)
{
	struct json_object *params = json_object_new_object();
	struct json_object *arguments = json_object_new_object(), *options;

	json_object_object_add(params, "tool", json_object_new_string(tool));
	json_object_object_add(params, "arguments", arguments);
	json_object_object_add(arguments, key, json_object_new_string(value));
	if (content) {
		options = json_object_new_object();
		json_object_object_add(arguments, "content", json_object_new_string(content));
		json_object_object_add(options, "encoding", json_object_new_string("base64"));
		json_object_object_add(params, "options", options);
	}
	make_call(selftest, params);
}

static void run_command(struct selftest *selftest, const char *command)
{
	call_tool(selftest, "run_command", "command", command, NULL);
}

static void set_up_selftest(struct selftest *selftest)
{
	_cleanup_free_ char *program = NULL;

	switch (selftest_canary(selftest)->set_up) {
	case 0:
		run_command(selftest, selftest_tear_down);
		break;
	case 1:
		program = selftest_program();
		if (program)
			call_tool(selftest, "write_file", "path", "probe", program);
		else
			done_at_once(selftest, TOOL_BUSY);
		break;
	default:
		run_command(selftest, selftest_set_up);
	}
}

/* Runs the probe program's probes from the current one on in one command. */
static void run_program(struct selftest *selftest)
{
	char command[COMMAND_BYTES] = "./probe";
	size_t len = strlen(command);
	enum probe_kind kind = selftest_suite[selftest->at].kind;

	for (selftest->next = selftest->at; selftest->next < selftest_suite_count;) {
		const struct selftest_probe *probe = &selftest_suite[selftest->next];

		if (probe->kind != kind || len + strlen(probe->name) + 2 > sizeof(command))
			break;
		len += (size_t)snprintf(command + len, sizeof(command) - len, " %s", probe->name);
		selftest->next++;
		if (kind == PROBE_ALONE)
			break;
	}
	run_command(selftest, command);
}

/* Runs the probe program above a layer of its own. */
static void run_above_a_layer(struct selftest *selftest)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	uint32_t checkpoint;
	enum tool_error error = workspace_preview_begin(
		selftest_canary(selftest)->workspace, &checkpoint, &refusal);

	if (error == TOOL_OK) {
		run_program(selftest);
		return;
	}
	selftest_note_request(selftest, error);
}

/* Reads the params of a row of the suite. Returns NULL if memory is out. */
static struct json_object *read_selftest_params(const char *text)
{
	const struct json_bounds bounds = json_request_bounds(strlen(text));
	struct json_object *params = NULL;
	struct json_report report;

	(void)json_read(text_from(text), &bounds, &params, &report);
	return params;
}

/* Enters @place; if its workspace cannot be opened, no more probes are made. */
static void enter_canary(struct selftest *selftest, enum canary_place place)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	enum tool_error error =
		canary_open(selftest->canaries, place, selftest->service->workspaces, &refusal);

	selftest->place = place;
	if (error == TOOL_OK)
		return;
	selftest->is_hindered = selftest_hinders(error);
	snprintf(selftest->obstacle, sizeof(selftest->obstacle), "no canary: %s",
		tool_error_name(error));
	log_error("self-test: the canary workspace cannot be opened: %s", refusal_text(&refusal));
}

/*
 * Whether there is a network whose probes can be made. Otherwise it skips them, or tries again
 * soon: cloister-egress may be a service that has only just been started.
 */
static bool has_network(struct selftest *selftest)
{
	const struct service *service = selftest->service;
	bool is_wanted = service->egress && config_has_network(service->config);

	if (is_wanted && egress_link_is_ready(service->egress))
		return true;
	selftest->next = selftest->at;
	if (is_wanted && selftest->waits++ < EGRESS_WAITS) {
		timer_set(&selftest->wait, EGRESS_PAUSE_MS);
		return false;
	}
	if (is_wanted)
		log_warning("self-test: cloister-egress is not there, so its probes are skipped");
	while (selftest->next < selftest_suite_count &&
		canary_has_network(canary_place(selftest_suite[selftest->next].kind)))
		selftest_note(&selftest->results, selftest->next++, TEXT_LITERAL("skipped"));
	selftest_step_soon(selftest);
	return false;
}

static void try_probe(struct selftest *selftest)
{
	const struct selftest_probe *probe = &selftest_suite[selftest->at];
	enum canary_place place = canary_place(probe->kind);

	if (canary_has_network(place) && !has_network(selftest))
		return;
	if (canary_is_fork(place) && !selftest_has_fork(selftest))
		return;
	enter_canary(selftest, place);
	if (selftest->obstacle[0] || !is_set_up(selftest)) {
		selftest->next = selftest->at;
		selftest_step_soon(selftest);
		return;
	}
	selftest->next = selftest->at + 1;
	unread_set_full(&selftest->unread, probe->kind == PROBE_UNREAD);
	switch (probe->kind) {
	case PROBE_CALL:
	case PROBE_UNREAD:
	case PROBE_COUNT:
		make_call(selftest, read_selftest_params(probe->how));
		break;
	case PROBE_SHELL:
		run_command(selftest, probe->how);
		break;
	case PROBE_PROGRAM:
	case PROBE_ALONE:
	case PROBE_EGRESS:
	case PROBE_EMPTY:
	case PROBE_FORKED:
	case PROBE_SIBLING:
	case PROBE_ROOT:
		run_program(selftest);
		break;
	case PROBE_LAYERS:
		run_above_a_layer(selftest);
		break;
	case PROBE_FOREIGN:
		selftest_try_foreign(selftest);
		break;
	case PROBE_OPEN:
		selftest_try_open(selftest, probe->how);
		break;
	case PROBE_MAKE:
		selftest_try_make(selftest, probe->how);
		break;
	case PROBE_IMPORT:
		selftest_try_import(selftest, probe->how);
		break;
	case PROBE_FORK:
		selftest_try_fork(selftest, probe->how);
		break;
	case PROBE_FORKS:
		selftest_try_forks(selftest);
		break;
	case PROBE_STEAL:
		selftest_try_steal(selftest);
		break;
	}
}

/* The end of a run. */

static void set_interval(struct selftest *selftest)
{
	int64_t ms = selftest_pause_ms(selftest);

	if (ms > 0)
		timer_set(&selftest->interval, ms);
}

static void finish_selftest(struct selftest *selftest)
{
	selftest->running = false;
	canaries_close(selftest->canaries);
	selftest_judge(selftest);
	selftest->ended(selftest);
	set_interval(selftest);
}

/* Clears the workspaces one after the other, and removes those that are forks before. */
static void leave_canary(struct selftest *selftest)
{
	selftest->tearing_down = true;
	if (selftest_leave_forks(selftest))
		return;
	for (size_t i = 0; i < CANARY_PLACES; i++) {
		struct canary *left = &selftest->canaries[i];

		if (!left->workspace || left->is_left)
			continue;
		left->is_left = true;
		selftest->place = (enum canary_place)i;
		run_command(selftest, selftest_tear_down);
		return;
	}
	finish_selftest(selftest);
}

static void on_step(evutil_socket_t fd, short what, void *context)
{
	struct selftest *selftest = context;

	(void)fd;
	(void)what;
	selftest_see_wants(selftest);
	if (selftest->tearing_down || selftest->obstacle[0]) {
		leave_canary(selftest);
		return;
	}
	if (!is_set_up(selftest)) {
		set_up_selftest(selftest);
		return;
	}
	selftest->at = selftest->next;
	if (selftest->at < selftest_suite_count)
		try_probe(selftest);
	else
		leave_canary(selftest);
}

static void on_wait(void *context)
{
	selftest_step_soon(context);
}

const char *selftest_obstacle(const struct selftest *selftest)
{
	const struct service *service = selftest->service;

	if (selftest->running)
		return NULL;
	/* Its workspaces would be opened, and a template made, beside the other generation. */
	return service->gives_way ? "Another generation of the service takes over: connect again, "
				    "and repeat the request there"
				  : audit_forbids(service->audit);
}

void selftest_run(struct selftest *selftest)
{
	if (selftest->running)
		return;
	timer_cancel(&selftest->interval);
	selftest->running = true;
	selftest->tearing_down = selftest->is_hindered = selftest->is_repeated = false;
	selftest->has_left_forks = selftest->is_doubtful = false;
	selftest->at = selftest->next = 0;
	selftest->waits = 0;
	selftest->obstacle[0] = '\0';
	memset(&selftest->results, 0, sizeof(selftest->results));
	selftest->began = clock_now();
	enter_canary(selftest, CANARY_PLAIN);
	selftest_step_soon(selftest);
}

static void run_when_it_may(struct selftest *selftest)
{
	if (selftest_obstacle(selftest))
		timer_set(&selftest->interval, LIMIT_SELFTEST_RETRY_MIN_MS);
	else
		selftest_run(selftest);
}

static void on_interval(void *context)
{
	run_when_it_may(context);
}

void selftest_start(struct selftest *selftest)
{
	if (selftest->service->config->host.selftest != SELFTEST_OFF)
		run_when_it_may(selftest);
	else
		set_interval(selftest);
}

struct selftest *selftest_new(
	struct service *service, void (*ended)(const struct selftest *selftest))
{
	struct selftest *selftest = calloc(1, sizeof(*selftest));

	if (!selftest)
		return NULL;
	selftest->service = service;
	selftest->ended = ended;
	unread_open(&selftest->unread, &service->unread);
	selftest->step = event_new(service->base, -1, 0, on_step, selftest);
	timer_init(&selftest->interval, on_interval, selftest);
	timer_init(&selftest->wait, on_wait, selftest);
	if (canaries_make(selftest->canaries) == 0)
		selftest->forks = selftest_forks_new(
			service->workspaces, selftest->canaries[CANARY_PLAIN].tenant);
	if (!selftest->forks || !selftest->step) {
		selftest_free(selftest);
		return NULL;
	}
	return selftest;
}

void selftest_free(struct selftest *selftest)
{
	if (!selftest)
		return;
	if (selftest->call)
		call_disown(selftest->call);
	selftest_import_forget(selftest->import);
	selftest_forks_free(selftest->forks);
	unread_close(&selftest->unread);
	if (selftest->step)
		event_free(selftest->step);
	timer_cancel(&selftest->interval);
	timer_cancel(&selftest->wait);
	canaries_free(selftest->canaries);
	free(selftest);
}

/* Functions for readers of the result. */

const char *selftest_state_name(enum selftest_state state)
{
	static const char *const names[] = {
		[SELFTEST_NEVER] = "never",
		[SELFTEST_PASSED] = "passed",
		[SELFTEST_FAILED] = "failed",
		[SELFTEST_NOT_DONE] = "not_done",
	};

	return names[state];
}

static void look_at_summary(const struct selftest *selftest, const struct selftest_summary *summary,
	struct selftest_summary *ret)
{
	*ret = *summary;
	ret->running = selftest->running;
	ret->required = selftest->service->config->host.selftest == SELFTEST_REQUIRED;
}

void selftest_look(const struct selftest *selftest, struct selftest_summary *ret)
{
	look_at_summary(selftest, &selftest->last, ret);
}

void selftest_look_latest(const struct selftest *selftest, struct selftest_summary *ret)
{
	look_at_summary(selftest, &selftest->latest, ret);
}

void selftest_each(const struct selftest *selftest,
	void (*each)(void *context, const struct selftest_result *result), void *context)
{
	for (size_t i = 0; i < selftest_suite_count; i++) {
		struct selftest_result shown = {&selftest_suite[i],
			selftest_outcome_name(selftest->results.of[i].outcome),
			selftest->results.of[i].answer};

		each(context, &shown);
	}
}

enum tool_error selftest_refuses(const struct selftest *selftest, struct refusal *ret_refusal)
{
	const struct selftest_summary *last = &selftest->last;

	if (selftest->service->config->host.selftest != SELFTEST_REQUIRED ||
		last->state == SELFTEST_PASSED)
		return TOOL_OK;
	if (last->state == SELFTEST_NEVER)
		return refusal_set(ret_refusal, TOOL_BUSY,
			last->obstacle && !selftest->running
				? "The service's self-test, which its configuration requires, "
				  "could not be made and is tried again soon; try again later"
				: "The service is still running its self-test; try again later");
	return refusal_set(ret_refusal, TOOL_FORBIDDEN,
		"The service's self-test has failed on this host, and its configuration requires "
		"that it passes; an administrator sees more with cloisterctl selftest");
}
