/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* A listening socket: which clients are admitted, which ones are told why not, and clients without
 * a tenant. */
#include "supervisor/connection/listener.h"

#include "common/wake_cost.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/connection/dear_users.h"
#include "supervisor/connection/unauthorized_client.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#include <sys/resource.h>
#include <sys/un.h>

#define FORBIDDEN(id)                                        \
	ERROR(id, "-32000",                                  \
		"\"message\":\"" UNAUTHORIZED_CLIENT_MESSAGE \
		"\",\"data\":{\"code\":\"FORBIDDEN\"}")

static struct fake_service *fake;
static struct listener *listener;
static struct sockaddr_un address;

/* The address of @name in the scratch directory. */
static struct sockaddr_un address_of(const char *name)
{
	struct sockaddr_un named = {.sun_family = AF_UNIX};
	size_t len = strlen(fake->scratch.path);

	assert_true(len + strlen(name) + 2 <= sizeof(named.sun_path));
	memcpy(named.sun_path, fake->scratch.path, len);
	named.sun_path[len] = '/';
	strcpy(named.sun_path + len + 1, name);
	return named;
}

/* Configures the tenant "one". If @admitted, its user is the one that runs the test. */
static void configure(bool admitted, const char *more)
{
	char config[256];

	snprintf(config, sizeof(config), "[cloister]\n%s[tenant one]\nusers = %u\nroots = @/root\n",
		more, admitted ? (unsigned)geteuid() : 4242);
	if (fake)
		fake_service_reconfigure(fake, config);
	else
		fake = fake_service_new(config);
}

static int set_up(void **state)
{
	(void)state;
	fake = NULL;
	configure(true, "");
	address = address_of("socket");
	assert_int_equal(listener_bind(address.sun_path, 0600, &listener), 0);
	assert_int_equal(listener_start(listener, &fake->service, &agent_endpoint), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	agent_conns_close();
	unauthorized_clients_close();
	assert_int_equal(fake->service.connections, 0);
	assert_int_equal(fake->service.unauthorized_clients, 0);
	listener_free(listener);
	/* The socket's name is removed with it. */
	assert_int_equal(access(address.sun_path, F_OK), -1);
	fake_service_free(fake);
	return 0;
}

FIXTURE(set_up, tear_down)

static struct fake_client connect_client(void)
{
	struct fake_client client = {.service = fake, .got = malloc(FAKE_CLIENT_BYTES + 1)};

	client.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(connect(client.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return client;
}

TEST(test_a_client_of_a_tenant)
{
	struct fake_client client = connect_client();
	struct stat stat_buf;

	assert_int_equal(stat(address.sun_path, &stat_buf), 0);
	assert_int_equal(stat_buf.st_mode & 07777, 0600);
	fake_client_talk(
		&client, &(struct fake_exchange){REQUEST("1", "ping", "{}"), RESULT("1", "{}")}, 1);
	assert_int_equal(fake->service.connections, 1);
	fake_client_close(&client);
}

/* A client that no tenant admits may send one request. It gets one answer and the end of file. */
TEST(test_a_client_of_no_tenant)
{
	static const struct {
		const char *says, *answer;
	} rows[] = {
		{REQUEST("1", "ping", "{}") "\n", FORBIDDEN("1")},
		{REQUEST("\"x\"", "ping", "{}") "\n" REQUEST("2", "ping", "{}") "\n",
			FORBIDDEN("\"x\"")},
		{"no JSON\n", FORBIDDEN("null")},
		{NOTIFICATION("ping", "{}") "\n", ""},
		{"\n", FORBIDDEN("null")},
	};

	configure(false, "");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fake_client client = connect_client();

		fake_service_run(fake);
		assert_int_equal(fake->service.unauthorized_clients, 1);
		assert_int_equal(fake->service.connections, 0);
		fake_client_send(&client, rows[i].says);
		fake_service_match(fake, fake_client_take(&client), rows[i].answer);
		fake_client_take(&client);
		assert_true(client.ended);
		assert_int_equal(fake->service.unauthorized_clients, 0);
		fake_client_close(&client);
	}
}

/* The longest line allowed, and a line in pieces. */
TEST(test_long_and_slow_words)
{
	static char line[LIMIT_UNAUTHORIZED_LINE_BYTES + 1];
	struct fake_client client;

	configure(false, "");
	memset(line, 'x', sizeof(line) - 1);
	client = connect_client();
	fake_client_send(&client, line);
	fake_service_match(fake, fake_client_take(&client), FORBIDDEN("null"));
	fake_client_close(&client);
	client = connect_client();
	fake_client_send(&client, "{\"jsonrpc\":\"2.0\",\"id\":3,");
	assert_string_equal(fake_client_take(&client), "");
	fake_client_send(&client, "\"method\":\"x\"}\n");
	fake_service_match(fake, fake_client_take(&client), FORBIDDEN("3"));
	fake_client_close(&client);
	/* A client that sends byte by byte gets no more time. */
	client = connect_client();
	for (int ms = 0; ms < LIMIT_UNAUTHORIZED_MS; ms += 1000) {
		assert_int_equal(client.ended, false);
		fake_client_send(&client, "x");
		fake_service_pass(fake, 1000);
	}
	fake_client_take(&client);
	assert_true(client.ended);
	fake_client_close(&client);
	/* After a client has hung up, nothing of it remains. */
	client = connect_client();
	fake_service_run(fake);
	fake_client_close(&client);
	assert_int_equal(fake->service.unauthorized_clients, 0);
}

TEST(test_too_many_without_a_tenant)
{
	struct fake_client clients[LIMIT_UNAUTHORIZED_CLIENTS + 1];

	configure(false, "");
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		clients[i] = connect_client();
		fake_service_run(fake);
	}
	assert_int_equal(fake->service.unauthorized_clients, LIMIT_UNAUTHORIZED_CLIENTS);
	/* The last client is refused at once. */
	fake_service_match(
		fake, fake_client_take(&clients[LIMIT_UNAUTHORIZED_CLIENTS]), FORBIDDEN("null"));
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		fake_client_close(&clients[i]);
}

TEST(test_who_is_refused)
{
	struct fake_client one, two;

	configure(true, "connections = 1\n");
	one = connect_client();
	fake_service_run(fake);
	two = connect_client();
	fake_service_match(fake, fake_client_take(&two),
		ERROR("null", "-32000",
			"\"message\":\"The service has reached its limit of connections*\","
			"\"data\":{\"code\":\"BUSY\",\"retry_after_ms\":*}"));
	fake_client_take(&two);
	assert_true(two.ended);
	fake_client_close(&two);
	fake_client_close(&one);
	fake->service.shutting_down = true;
	one = connect_client();
	fake_service_match(
		fake, fake_client_take(&one), ERROR("null", "-32000", NAMED("SHUTTING_DOWN")));
	fake_client_close(&one);
}

/* Without free descriptors cloisterd stops accepting, and continues when there are some. */
TEST(test_without_descriptors)
{
	struct rlimit limit, low;
	struct fake_client client = connect_client(), later;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)client.fd + 1; /* no descriptor is free */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	fake_service_run(fake);
	assert_int_equal(fake->service.connections, 0);
	/* Only reserved descriptors are free: the client is told so. */
	low.rlim_cur = (rlim_t)client.fd + LIMIT_DESCRIPTORS_KEPT;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	fake_service_run(fake);
	assert_string_equal(fake_client_take(&client), "");
	fake_service_pass(fake, 200);
	fake_service_match(fake, fake_client_take(&client),
		ERROR("null", "-32000",
			"\"message\":\"The service has few file descriptors left; try again "
			"later\","
			"\"data\":{\"code\":\"BUSY\",\"retry_after_ms\":50}"));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	later = connect_client();
	fake_service_run(fake);
	assert_int_equal(fake->service.connections, 0);
	fake_service_pass(fake, 200);
	assert_int_equal(fake->service.connections, 1);
	fake_client_close(&later);
	fake_client_close(&client);
}

/* More clients connect than cloisterd accepts in one turn of the loop. */
TEST(test_many_at_once)
{
	struct fake_client clients[40];

	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		clients[i] = connect_client();
	fake_service_run(fake);
	assert_int_equal(fake->service.connections, ARRAY_SIZE(clients));
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		fake_client_close(&clients[i]);
}

/* What is at the path already: a socket, a stale one, a file; or a path that is too long. */
TEST(test_binding)
{
	struct sockaddr_un stale = address_of("stale");
	struct listener *other;
	char path[sizeof(address.sun_path) + 2];
	int fd;

	assert_int_equal(listener_bind(address.sun_path, 0600, &other), -EADDRINUSE);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&stale, sizeof(stale)), 0);
	close(fd);
	assert_int_equal(listener_bind(stale.sun_path, 0666, &other), 0);
	listener_free(other);
	scratch_text(&fake->scratch, "stale", "a file");
	assert_int_equal(listener_bind(stale.sun_path, 0666, &other), -EADDRINUSE);
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(listener_bind(path, 0666, &other), -ENAMETOOLONG);
	listener_free(NULL);
}

/* A socket of the service manager: cloisterd finds its name and does not remove it. */
TEST(test_a_socket_that_was_passed)
{
	struct sockaddr_un passed = address_of("passed");
	struct listener *other;
	char *path;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&passed, sizeof(passed)), 0);
	assert_int_equal(listener_adopt(fd, &other, &path), 0);
	assert_string_equal(path, passed.sun_path);
	free(path);
	listener_free(other);
	assert_int_equal(access(passed.sun_path, F_OK), 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(listener_adopt(fd, &other, &path), 0);
	assert_null(path);
	listener_free(other);
}

/* Each reading of a clock is later by a third of what a peer may cost. */
static int64_t be_dear(void)
{
	static int64_t now;

	return now += LIMIT_WAKES_DEAR_US * 1000LL / 3;
}

/* A user whose connections are expensive to refuse, and to close, is not answered by the loop. The
 * user is known from then on, so this is the last test. */
TEST(test_refusals_that_are_dear)
{
	struct fake_client clients[LIMIT_UNAUTHORIZED_CLIENTS + 4];
	size_t n = 0;

	configure(false, "");
	/* The next one would be closed by a thread. */
	while (n < ARRAY_SIZE(clients) && dear_user_left_ms(geteuid()) == 0) {
		if (n == LIMIT_UNAUTHORIZED_CLIENTS)
			wake_cost_replace_clocks(be_dear, be_dear);
		clients[n++] = connect_client();
		fake_service_run(fake);
	}
	wake_cost_replace_clocks(NULL, NULL);
	assert_true(dear_user_left_ms(geteuid()) > 0);
	while (n > 0)
		fake_client_close(&clients[--n]);
}
