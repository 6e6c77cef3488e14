/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer */
// SPDX-License-Identifier: Apache-2.0
/* cloisterd as a service: reloads, what the service manager is told, and its end. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/audit/audit.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/daemon/config_reload.h"
#include "supervisor/daemon/memory_bound.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/daemon/shutdown.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#include <event2/event.h>
#include <sys/un.h>

static const char config[] = "[cloister]\n"
			     "admin_group = 50\n"
			     "drain_time = 10s\n"
			     "[tenant one]\n"
			     "users = 1001\n"
			     "roots = @/root\n";

static struct fake_service *fake;
static struct config_reload *reload;

static int set_up(void **state)
{
	(void)state;
	fake = fake_service_new(config);
	reload = config_reload_new(&fake->service, fake->source, fake->spawner);
	assert_non_null(reload);
	fake->service.config_reload = reload;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	config_reload_free(reload);
	fake_service_free(fake);
	return 0;
}

FIXTURE(set_up, tear_down)

/* Writes the configuration @text, in which '@' stands for the scratch directory. */
static void write_config(const char *text)
{
	char expanded[4096] = "";

	for (; *text; text++)
		snprintf(expanded + strlen(expanded), sizeof(expanded) - strlen(expanded),
			*text == '@' ? "%s" : "%.1s", *text == '@' ? fake->scratch.path : text);
	scratch_text(&fake->scratch, "cloister.conf", expanded);
}

TEST(test_a_configuration_that_is_read_again)
{
	static const struct {
		const char *text;
		int result;
		const char *first; /* words of the first mistake; NULL: there is none */
	} rows[] = {
		{"[cloister]\nadmin_group = 50\n[tenant one]\nusers = 1001\n[tenant two]\n", 0,
			NULL},
		{"[cloister]\nadmin_group = 50\nhats = 1\n[tenant one]\n", -EINVAL, ":3: "},
		{"[cloister]\nadmin_group = 50\n[tenant one]\nusers = x y\n", -EINVAL, ":4: "},
		{"[cloister]\nstate_dir = /elsewhere\n[tenant one]\n", -EINVAL,
			"state_dir is fixed at start: restart cloisterd to change it"},
		{"[cloister]\nmode = system\n[tenant one]\n", -EINVAL, "mode is fixed at start"},
		{"[tenant one]\nreadonly_paths = " FAKE_OWN_PATH "\n", -EINVAL,
			"would show cloister's own files"},
		{"[tenant one]\nreadonly_paths = /usr\n", 0, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct config *before = fake->service.config;
		unsigned told = fake_spawner_reloads(fake->spawner);
		_cleanup_free_ char *first = NULL;
		int r;

		write_config(rows[i].text);
		r = config_reload_now(reload, &first);
		if (r != rows[i].result)
			fail_msg("%s: %d, %s", rows[i].text, r, first ? first : "");
		assert_int_equal(first != NULL, rows[i].first != NULL);
		if (first && rows[i].first && !strstr(first, rows[i].first))
			fail_msg("%s: %s", rows[i].text, first);
		/* cloisterd takes all of a new configuration or nothing. The spawner is told only
		 * if it is taken. */
		assert_int_equal(fake->service.config != before, r == 0);
		assert_int_equal(fake_spawner_reloads(fake->spawner), told + (r == 0));
	}
}

/* The counters of a tenant continue under the new tenant of the same name. */
TEST(test_what_a_tenant_uses_goes_on)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
	_cleanup_free_ char *first = NULL;

	fake_client_talk(&client,
		&(struct fake_exchange){REQUEST("1", "workspace.open", "{\"root\":\"@/root\"}"),
			RESULT("1", "{*}")},
		1);
	write_config("[tenant zero]\n[tenant one]\nusers = 1001\nroots = @/root\n");
	assert_int_equal(config_reload_now(reload, &first), 0);
	assert_int_equal(fake->service.config->tenants[0]->usage->connections, 0);
	assert_int_equal(fake->service.config->tenants[1]->usage->connections, 1);
	assert_int_equal(fake->service.config->tenants[1]->usage->workspaces, 1);
	fake_client_close(&client);
	assert_int_equal(fake->service.config->tenants[1]->usage->connections, 0);
	assert_int_equal(fake->service.config->tenants[1]->usage->workspaces, 0);
}

TEST(test_the_first_configuration)
{
	struct config *first;

	first = config_reload_first(fake->source);
	assert_non_null(first);
	config_release(first);
	write_config("nothing\n");
	assert_null(config_reload_first(fake->source));
}

/* A reload asked for by a signal or by an administrator: the audit log records both. */
TEST(test_who_asks_for_it)
{
	static const struct fake_exchange
		good = {REQUEST("1", "reload", "{}"), RESULT("1", "{\"tenants\":2}")},
		bad = {REQUEST("1", "reload", "{}"),
			ERROR("1", "-32000",
				"\"message\":\"The configuration was not reloaded and the old one "
				"stays in use: *:1: *\",\"data\":{\"code\":\"EXECUTION_ERROR\"*}")};
	struct fake_client admin = fake_client_connect(fake, &control_endpoint, 1, 50);
	struct audit *audit;
	char path[512];

	snprintf(path, sizeof(path), "%s/log/audit.log", fake->scratch.path);
	assert_int_equal(audit_new(path, false, &(struct audit_rotation){0}, &audit), 0);
	fake->service.audit = audit;
	write_config("[cloister]\nadmin_group = 50\n[tenant one]\n[tenant two]\n");
	fake_client_talk(&admin, &good, 1);
	assert_non_null(strstr(fake_audit_take(), "\"act\":\"reload\",\"outcome\":\"done\""));
	write_config("nothing\n");
	fake_client_talk(&admin, &bad, 1);
	assert_non_null(
		strstr(fake_audit_take(), "\"act\":\"reload\",\"outcome\":\"EXECUTION_ERROR\""));
	raise(SIGHUP);
	fake_service_run(fake);
	assert_non_null(strstr(fake_audit_take(),
		"\"by\":\"signal\",\"act\":\"reload\",\"outcome\":\"EXECUTION_ERROR\""));
	write_config("[tenant one]\n");
	raise(SIGHUP);
	fake_service_run(fake);
	assert_non_null(strstr(
		fake_audit_take(), "\"by\":\"signal\",\"act\":\"reload\",\"outcome\":\"done\""));
	assert_int_equal(fake->service.config->n_tenants, 1);
	/* Each reload opens the log again, whether or not the configuration is valid. */
	assert_int_equal(fake_audit_reopened, 4);
	fake->service.audit = NULL;
	fake_client_close(&admin);
	audit_free(audit);
}

/* What the service manager is told: datagrams, here with one line each. */

static int manager = -1;

static void hear_manager(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	assert_true(strlen(fake->scratch.path) + sizeof("/notify") <= sizeof(address.sun_path));
	strcpy(stpcpy(address.sun_path, fake->scratch.path), "/notify");
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(manager, (struct sockaddr *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
}

/* Checks that the next datagram matches @pattern; NULL: that there is none. */
static void manager_hears(const char *pattern)
{
	char said[1024];
	ssize_t n = recv(manager, said, sizeof(said) - 1, 0);

	if (!pattern) {
		assert_int_equal(n, -1);
		return;
	}
	assert_true(n > 0);
	said[n] = '\0';
	fake_service_match(fake, said, pattern);
}

/* cloisterd ignores a watchdog set for another process, and one whose time is not a number. It
 * comes first: a watchdog's time, once read, stays set. */
TEST(test_watchdogs_that_are_none)
{
	static const struct {
		const char *usec, *pid;
	} rows[] = {{"1000000", "1"}, {"", NULL}, {"1s", NULL}, {"-1", NULL},
		{"99999999999999999999", NULL}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		hear_manager();
		setenv("WATCHDOG_USEC", rows[i].usec, 1);
		if (rows[i].pid)
			setenv("WATCHDOG_PID", rows[i].pid, 1);
		assert_int_equal(notify_open(), 0);
		notify_start(&fake->service);
		manager_hears("READY=1");
		fake_service_pass(fake, 10000);
		for (char said[256]; recv(manager, said, sizeof(said), 0) > 0;)
			assert_memory_equal(said, "STATUS=", 7);
		notify_close();
		close_fd(&manager);
		assert_int_equal(unlinkat(fake->scratch.fd, "notify", 0), 0);
	}
}

TEST(test_what_the_manager_is_told)
{
	_cleanup_free_ char *first = NULL;
	struct fake_client client;
	char pid[32];

	hear_manager();
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("WATCHDOG_USEC", "1000000", 1);
	setenv("WATCHDOG_PID", pid, 1);
	client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
	assert_int_equal(notify_open(), 0);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	assert_null(getenv("WATCHDOG_PID"));
	notify_start(&fake->service);
	manager_hears("READY=1");
	manager_hears("WATCHDOG=1");
	manager_hears("STATUS=serving: 0 calls, 0 workspaces, 1 connections");
	fake_service_pass(fake, 499);
	manager_hears(NULL);
	fake_service_pass(fake, 1);
	manager_hears("WATCHDOG=1");
	manager_hears(NULL); /* an unchanged status is not sent again */
	fake_client_talk(&client,
		&(struct fake_exchange){REQUEST("1", "workspace.open", "{\"root\":\"@/root\"}"),
			RESULT("1", "{*}")},
		1);
	fake->service.draining = true;
	fake_service_pass(fake, 500);
	manager_hears("WATCHDOG=1");
	manager_hears("STATUS=draining: 0 calls, 1 workspaces, 1 connections");
	config_reload_now(reload, &first);
	manager_hears("RELOADING=1\nMONOTONIC_USEC=*");
	manager_hears("READY=1");
	notify_stopping(1500);
	manager_hears("STOPPING=1\nEXTEND_TIMEOUT_USEC=1500000\nSTATUS=shutting down");
	fake->service.shutting_down = true;
	fake_service_pass(fake, 500);
	manager_hears("WATCHDOG=1");
	manager_hears("STATUS=shutting down: 0 calls, 1 workspaces, 1 connections");
	notify_close();
	fake_service_pass(fake, 500);
	manager_hears(NULL);
	fake_client_close(&client);
	close_fd(&manager);
}

TEST(test_sockets_that_are_none)
{
	static const struct {
		const char *socket;
		int result;
	} rows[] = {
		{"", 0},
		{"relative", -EAFNOSUPPORT},
		{"/", -EAFNOSUPPORT},
		{"@", -EAFNOSUPPORT},
		{"/nonexistent/socket", -ENOENT},
		{"@cloister-test-nobody", -ECONNREFUSED},
	};
	char path[200];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		setenv("NOTIFY_SOCKET", rows[i].socket, 1);
		assert_int_equal(notify_open(), rows[i].result);
		assert_null(getenv("NOTIFY_SOCKET"));
	}
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	setenv("NOTIFY_SOCKET", path, 1);
	assert_int_equal(notify_open(), -ENAMETOOLONG);
	/* Without a service manager nothing is sent, and that is no error. */
	assert_int_equal(notify_open(), 0);
	notify_start(&fake->service);
	notify_ready();
	notify_close();
}

/* Shutdown. */

/* Lets @ms pass in steps of the shutdown's timer, with a turn of the loop at each tenth. */
static void pass(int64_t ms)
{
	for (int64_t step = 1; step <= ms / 20 && !fake->stopped; step++) {
		fake_clock_pass(20);
		if (step % 10 == 0)
			fake_service_run(fake);
	}
}

#define BUSY(command)                                                                     \
	REQUEST("1", "tool.call",                                                         \
		"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"" command "\"}}") \
	"\n"

TEST(test_ending)
{
	static const struct {
		const char *name, *command; /* NULL: no call is in flight */
		int signals[2];
		int64_t after_ms; /* until the second signal, or until the row ends */
		bool answered;    /* whether the call is answered by then */
		bool over;        /* whether the loop has ended by then */
	} rows[] = {
		{"nothing to wait for", NULL, {SIGTERM}, 200, false, true},
		{"nothing to wait for, interrupted", NULL, {SIGINT}, 200, false, true},
		{"a call has its drain time", "hang", {SIGTERM}, 9900, false, false},
		{"and is ended after it", "hang", {SIGTERM}, 10400, true, true},
		{"interrupted it is ended at once", "hang", {SIGINT}, 400, true, true},
		{"a second signal ends it", "hang", {SIGTERM, SIGTERM}, 400, true, true},
		{"one that resists is killed", "stubborn", {SIGINT}, LIMIT_TERM_GRACE_MS + 600,
			true, true},
		{"one that hangs is not waited for", "deaf", {SIGINT},
			LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS + 600, false, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fake_client client;
		struct shutdown *shutdown;
		const char *answer;

		if (i > 0)
			set_up(state);
		client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
		shutdown = shutdown_new(&fake->service);
		assert_non_null(shutdown);
		fake_client_talk(&client,
			&(struct fake_exchange){
				REQUEST("0", "workspace.open", "{\"root\":\"@/root\"}"),
				RESULT("0", "{*}")},
			1);
		if (rows[i].command) {
			char line[256];

			snprintf(line, sizeof(line), BUSY("%s"), rows[i].command);
			fake_client_send(&client, line);
			assert_string_equal(fake_client_take(&client), "");
		}
		raise(rows[i].signals[0]);
		fake_service_run(fake);
		assert_true(fake->service.shutting_down);
		if (rows[i].signals[1]) {
			raise(rows[i].signals[1]);
			fake_service_run(fake);
		}
		pass(rows[i].after_ms);
		if (fake->stopped != rows[i].over)
			fail_msg("%s: the loop has %s", rows[i].name,
				rows[i].over ? "not ended" : "ended");
		answer = fake_client_take(&client);
		if ((strstr(answer, "\"code\":\"SHUTTING_DOWN\"") != NULL) != rows[i].answered)
			fail_msg("%s: %s", rows[i].name, answer);
		shutdown_free(shutdown);
		fake_client_close(&client);
		if (i + 1 < ARRAY_SIZE(rows))
			tear_down(state);
	}
}

/* The bound on cloisterd's memory grows with the configured numbers. */
TEST(test_the_bound_on_memory)
{
	uint64_t before = memory_bound(fake->service.config);

	fake->service.config->host.connections *= 2;
	assert_true(memory_bound(fake->service.config) > before);
	before = memory_bound(fake->service.config);
	fake->service.config->host.commands *= 2;
	assert_true(memory_bound(fake->service.config) > before);
}
