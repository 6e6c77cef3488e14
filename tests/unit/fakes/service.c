// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/service.h"

#include "supervisor/audit/audit.h"
#include "supervisor/base/log.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/call/call.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/call/pipe_stock.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_load.h"
#include "supervisor/config/known_sets.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/control/control_events.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/workers.h"

#include <event2/event.h>
#include <limits.h>

#define PASSES 16 /* of the loop: more than any chain of events takes */
#define QUIET  4  /* after so many in which nothing was to be done, nothing follows */

static void on_idle(struct service *service)
{
	((struct fake_service *)service)->idle++;
}

static void complain(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	fail_msg("%s:%u: %s", file, line, message);
}

/* Returns @text, malloc'ed, with the scratch directory in place of each '@'. */
static char *expand(const struct fake_service *fake, const char *text)
{
	size_t size = strlen(text) + 1, len = strlen(fake->scratch.path);
	char *expanded, *at;

	for (const char *c = text; *c; c++)
		size += *c == '@' ? len : 0;
	expanded = at = malloc(size);
	assert_non_null(expanded);
	for (; *text; text++)
		at = *text == '@' ? stpcpy(at, fake->scratch.path) : (*at = *text, at + 1);
	*at = '\0';
	return expanded;
}

static struct config *read_config(struct fake_service *fake, const char *text)
{
	static const struct config_complaints complaints = {complain, NULL, NULL};
	_cleanup_free_ char *expanded = NULL, *path = NULL;
	struct config *config;

	known_sets_read();
	if (!text)
		return config_user_mode("alice", 1000);
	expanded = expand(fake, text);
	path = expand(fake, "@/cloister.conf");
	scratch_text(&fake->scratch, "cloister.conf", expanded);
	if (!fake->source)
		assert_int_equal(config_source_open(path, &fake->source), 0);
	assert_int_equal(config_load(fake->source, &complaints, &config), 0);
	return config;
}

static void make_directories(struct fake_service *fake)
{
	char canonical[PATH_MAX];

	fake->scratch = scratch_new();
	/* /tmp may be a link, and roots are canonical. */
	assert_non_null(realpath(fake->scratch.path, canonical));
	assert_true(strlen(canonical) < sizeof(fake->scratch.path));
	strcpy(fake->scratch.path, canonical);
	assert_int_equal(mkdirat(fake->scratch.fd, "root", 0755), 0);
	assert_int_equal(mkdirat(fake->scratch.fd, "state", 0755), 0);
	fake->own[0] = expand(fake, "@/state");
	fake->own[1] = FAKE_OWN_PATH;
	fake->managed_fd = openat(fake->scratch.fd, "state", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(fake->managed_fd >= 0);
}

static void observe(struct fake_service *fake)
{
	fake->observers[0] =
		(struct call_observer){audit_call_admitted, audit_call_ended, NULL, NULL, NULL};
	fake->observers[1] = (struct call_observer){control_events_begun, control_events_ended,
		control_events_refused, NULL, &control_watchers};
	fake->service.observers = fake->observers;
	fake->service.n_observers = ARRAY_SIZE(fake->observers);
}

struct fake_service *fake_service_new(const char *config)
{
	static const struct cgroup no_cgroup = {.root = -1, .missing = "no cgroup in a test"};
	struct fake_service *fake = calloc(1, sizeof(*fake));
	struct service *service;

	assert_non_null(fake);
	service = &fake->service;
	log_init(true);
	signal(SIGPIPE, SIG_IGN);
	fake_clock_start();
	make_directories(fake);
	service->config = read_config(fake, config);
	assert_non_null(service->config);
	assert_int_equal(usage_begin_all(service->config, NULL), 0);
	service->base = event_base_new();
	assert_int_equal(event_base_priority_init(service->base, LOOP_PRIORITIES), 0);
	assert_int_equal(loop_turn_start(service->base), 0);
	assert_int_equal(loop_share_start(service->base), 0);
	assert_int_equal(shared_fds_start(service->base), 0);
	fake->spawner = fake_spawner_new();
	service->admission.scheduler = scheduler_new(service->base, service->config);
	service->workspaces = workspaces_new(service->base, fake->spawner,
		service->admission.scheduler, fake->own, fake->managed_fd);
	service->pipes = pipe_stock_new(service->base);
	service->cgroup = &no_cgroup;
	service->idle = on_idle;
	unread_init(&service->unread);
	observe(fake);
	workspaces_reload(service->workspaces, service->config);
	return fake;
}

/* Ends all calls, because the list of calls outlives the service of one test. */
static void end_calls(struct fake_service *fake)
{
	fake->spawner_waits = false;
	fake_spawner_refuse(fake->spawner, -ECONNRESET);
	for (struct fake_cell *cell = fake_spawner_cells(fake->spawner); cell; cell = cell->next) {
		fake_process_end(&cell->worker);
		fake_process_end(&cell->files);
	}
	fake_service_run(fake);
}

void fake_service_free(struct fake_service *fake)
{
	struct service *service = &fake->service;

	agent_conns_close();
	end_calls(fake);
	workspaces_free(service->workspaces);
	if (service->keys)
		keys_free(service->keys);
	scheduler_free(service->admission.scheduler);
	fake_workers_done();
	fake_spawner_free(fake->spawner);
	pipe_stock_free(service->pipes);
	config_release(service->config);
	config_source_free(fake->source);
	shared_fds_stop();
	loop_share_stop();
	loop_turn_stop();
	event_base_free(service->base);
	close(fake->managed_fd);
	free((char *)fake->own[0]);
	scratch_done(&fake->scratch);
	fake_clock_stop();
	free(fake);
}

int fake_service_set_up(void **state)
{
	*state = fake_service_new(NULL);
	return 0;
}

int fake_service_tear_down(void **state)
{
	fake_service_free(*state);
	return 0;
}

void fake_service_reconfigure(struct fake_service *fake, const char *text)
{
	struct service *service = &fake->service;
	struct config *former = service->config;

	service->config = read_config(fake, text);
	assert_int_equal(usage_begin_all(service->config, former), 0);
	scheduler_set_config(service->admission.scheduler, service->config);
	workspaces_reload(service->workspaces, service->config);
	config_release(former);
}

void fake_service_keep_keys(struct fake_service *fake)
{
	assert_int_equal(keys_open(fake->scratch.fd, false, &fake->service.keys), 0);
	keys_configure(fake->service.keys, fake->service.config);
}

/* Returns whether there was something to be done. */
static bool play(struct fake_service *fake)
{
	struct fake_asked *asked;
	struct fake_cell *cell;
	bool acted = false;

	while (!fake->spawner_waits && (asked = fake_spawner_asked(fake->spawner))) {
		cell = fake_spawner_answer(fake->spawner, asked);
		if (cell && !fake->workers_wait)
			fake_workers_ready(cell);
		acted = true;
	}
	for (cell = fake_spawner_cells(fake->spawner); cell && !fake->workers_wait;
		cell = cell->next)
		acted |= fake_workers_act(cell);
	return acted;
}

void fake_service_run(struct fake_service *fake)
{
	struct event_base *base = fake->service.base;
	int quiet = 0;

	for (int i = 0; i < PASSES && quiet < QUIET; i++) {
		fake_clock_pass(0);
		/* The next turn would reset this flag. */
		fake->stopped |= event_base_got_break(base);
		event_base_loop(base, EVLOOP_NONBLOCK);
		fake->stopped |= event_base_got_break(base);
		quiet = play(fake) || event_base_get_num_events(base, EVENT_BASE_COUNT_ACTIVE) > 0
				? 0
				: quiet + 1;
		/* Threads read, write and close pipes. */
		for (; shared_fds_are_busy(); i = quiet = 0) {
			usleep(50);
			event_base_loop(base, EVLOOP_NONBLOCK);
		}
	}
}

void fake_service_pass(struct fake_service *fake, int64_t ms)
{
	fake_clock_pass(ms);
	fake_service_run(fake);
}

void fake_service_forget(struct fake_service *fake)
{
	/* First the grace of a workspace without a client, then the retention of what has ended. */
	for (int i = 0; i < 2; i++)
		fake_service_pass(fake, 16L * 60 * 1000);
}

struct fake_client fake_client_connect(
	struct fake_service *fake, const struct endpoint *endpoint, uid_t uid, gid_t gid)
{
	struct peer_credentials peer = {.uid = uid, .gid = gid, .pid = 4321};
	struct fake_client client = {.service = fake, .got = malloc(FAKE_CLIENT_BYTES + 1)};
	int ends[2];

	assert_non_null(client.got);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	client.fd = ends[0];
	assert_int_equal(agent_conn_new(&fake->service, endpoint, ends[1], &peer), 0);
	return client;
}

void fake_client_close(struct fake_client *client)
{
	close_fd(&client->fd);
	free(TAKE_PTR(client->got));
	fake_service_run(client->service);
}

static void receive(struct fake_client *client)
{
	ssize_t n;

	while ((n = read(client->fd, client->got + client->len, FAKE_CLIENT_BYTES - client->len)) >
		0)
		client->len += (size_t)n;
	client->ended = n == 0 && client->len < FAKE_CLIENT_BYTES;
}

void fake_client_send(struct fake_client *client, const char *text)
{
	_cleanup_free_ char *expanded = expand(client->service, text);
	size_t len = strlen(expanded), sent = 0;

	/* cloisterd may close the connection in the middle. */
	for (int i = 0; sent < len && i < 10000; i++) {
		ssize_t n = send(client->fd, expanded + sent, len - sent, MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
		else if (errno != EAGAIN)
			return;
		fake_service_run(client->service);
	}
	assert_int_equal(sent, len);
}

const char *fake_client_take(struct fake_client *client)
{
	fake_service_run(client->service);
	receive(client);
	client->got[client->len] = '\0';
	if (client->len > 0 && client->got[client->len - 1] == '\n')
		client->got[client->len - 1] = '\0';
	client->len = 0;
	return client->got;
}

/* Whether @text matches @pattern. Each '*' except the last matches as little as possible. */
static bool matches(const char *text, const char *pattern)
{
	const char *star = NULL, *after = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			after = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++after;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

void fake_service_match(struct fake_service *fake, const char *text, const char *pattern)
{
	_cleanup_free_ char *expected = expand(fake, pattern);

	if (!matches(text, expected))
		fail_msg("expected %s\ngot      %s", expected, text);
}

void fake_client_talk(struct fake_client *client, const struct fake_exchange *exchanges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *line = NULL;

		assert_true(asprintf(&line, "%s\n", exchanges[i].says) > 0);
		fake_client_send(client, line);
		fake_service_match(client->service, fake_client_take(client),
			exchanges[i].answer ? exchanges[i].answer : "");
	}
}

void fake_client_says(struct fake_client *client, const char *line, const char *answer)
{
	fake_client_talk(client, &(struct fake_exchange){line, answer}, 1);
}

void fake_client_hears(struct fake_client *client, const char *answer)
{
	fake_service_match(client->service, fake_client_take(client), answer);
}

struct fake_client fake_client_open(
	struct fake_service *fake, const struct endpoint *endpoint, uid_t uid, const char *name)
{
	struct fake_client client = fake_client_connect(fake, endpoint, uid, uid);
	char line[256];

	snprintf(
		line, sizeof(line), REQUEST("0", "workspace.open", "{\"workspace\":\"%s\"}"), name);
	fake_client_says(&client, line, RESULT("0", "{*}"));
	return client;
}
