/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer */
// SPDX-License-Identifier: Apache-2.0
/* workspace.forward: a client's connection that becomes the worker's. The test plays the worker,
 * which may lie, and its own network stands in for the workspace's. */
#include "common/wire/wire_commands.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/audit/audit.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <arpa/inet.h>

#define ALICE 1001
#define BOB   1002

static struct audit *audit;
static struct fake_client keeper; /* has the workspace open while others give their connections */
static int server;
static uint16_t port; /* at which it listens */

/* A server of this machine stands in for the command's. */
static void listen_here(void)
{
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);

	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server, (struct sockaddr *)&name, len), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&name, &len), 0);
	port = ntohs(name.sin_port);
}

static int set_up(void **state)
{
	struct fake_service *fake = fake_service_new("[cloister]\n"
						     "spare_cells = 0\n"
						     "[tenant one]\n"
						     "users = 1001\n"
						     "roots = @/root\n"
						     "managed = yes\n"
						     "[tenant two]\n"
						     "users = 1002\n"
						     "managed = yes\n"
						     "forward_ports = none\n");

	fake_spawner_tell_ports(fake->spawner);
	assert_int_equal(
		audit_new("/audit/audit.log", true, &(struct audit_rotation){0}, &audit), 0);
	assert_int_equal(audit_start(audit), 0);
	fake->service.audit = audit;
	listen_here();
	*state = fake;
	keeper = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	return 0;
}

static int tear_down(void **state)
{
	fake_client_close(&keeper);
	fake_service_free(*state);
	audit_free(audit);
	close_fd(&server);
	return 0;
}

FIXTURE(set_up, tear_down)

static const struct tenant_usage *usage(void **state)
{
	const struct fake_service *fake = *state;

	return fake->service.config->tenants[0]->usage;
}

#define FORWARD(params) REQUEST("1", "workspace.forward", params)
#define WRONG(words)    ERROR("1", "-32602", "\"message\":\"" words "\"*")
#define REFUSED(code, words) \
	ERROR("1", "-32000", "\"message\":\"" words "\",\"data\":{\"code\":\"" code "\"*}")
#define FORWARDED RESULT("1", "{\"workspace\":\"w\",\"port\":*}")

/* Asks for the port at which the server listens. */
static void forwards(struct fake_client *client, const char *answer)
{
	char line[128];

	snprintf(line, sizeof(line), FORWARD("{\"port\":%u}"), port);
	fake_client_says(client, line, answer);
}

/* The worker gets the client's connection. Returns the number of the forward. */
static uint64_t worker_hears(struct fake_process *worker, int *ret_fd)
{
	struct command_forward message;
	struct channel_frame frame;
	uint64_t number;

	assert_true(fake_process_hear(worker, &frame));
	assert_int_equal(frame.type, COMMAND_FORWARD);
	assert_int_equal(command_forward_get(frame.payload, &message), 0);
	assert_int_equal(message.port, port);
	assert_false(message.ipv6);
	assert_int_equal(message.idle_ms, LIMIT_FORWARD_IDLE_MS);
	assert_int_equal(frame.n_fds, 1);
	number = frame.call;
	*ret_fd = frame.fds[0];
	frame.n_fds = 0;
	channel_frame_done(&frame);
	return number;
}

static struct fake_process *worker_of(void **state)
{
	struct fake_service *fake = *state;

	fake->workers_wait = true;
	return &fake_spawner_cells(fake->spawner)->worker;
}

static void ended(void **state, struct fake_process *worker, uint64_t number, const char *payload)
{
	fake_process_say(worker, COMMAND_FORWARD_ENDED, number, text_from(payload));
	fake_service_run(*state);
}

TEST(test_what_is_refused)
{
	static const struct fake_exchange exchanges[] = {
		{FORWARD("{}"), WRONG("port must be a number from 1 to 65535")},
		{FORWARD("{\"port\":0}"), WRONG("port must be*")},
		{FORWARD("{\"port\":65536}"), WRONG("port must be*")},
		{FORWARD("{\"port\":\"80\"}"), WRONG("port must be*")},
		{FORWARD("{\"port\":80,\"workspace\":1}"), WRONG("workspace must be a string")},
		{FORWARD("{\"port\":80}"), REFUSED("WORKSPACE_NOT_FOUND", "No workspace is open*")},
		{FORWARD("{\"port\":80,\"workspace\":\"v\"}"), REFUSED("WORKSPACE_NOT_FOUND", "*")},
		{NOTIFICATION("workspace.forward", "{\"port\":80}"), NULL},
	};
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, ALICE, ALICE);
	char line[256];

	fake_client_talk(&client, exchanges, ARRAY_SIZE(exchanges));
	fake_client_close(&client);
	client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	/* Answers to other requests would come in the middle of the stream. */
	fake_client_says(&client,
		REQUEST("7", "tool.call",
			"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"}}"),
		NULL);
	forwards(&client, WRONG("workspace.forward must be the only request *"));
	fake_client_says(
		&client, REQUEST("8", "tool.cancel", "{\"id\":7}"), "{*\"id\":*}\n{*\"id\":*}");
	/* What was sent too early would be lost. */
	snprintf(line, sizeof(line), FORWARD("{\"port\":%u}") "\nearly", port);
	fake_client_send(&client, line);
	fake_service_match(*state, fake_client_take(&client),
		WRONG("workspace.forward must be the only request *"));
	fake_client_close(&client);
	client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	fake_audit_state.error = ENOSPC;
	forwards(&client, REFUSED("BUSY", "*audit log*"));
	fake_audit_state.error = 0;
	close_fd(&server);
	fake_service_pass(*state, LIMIT_PORT_ASK_MS);
	forwards(&client, REFUSED("NOT_FOUND", "Nothing listens at this port*"));
	fake_client_close(&client);
	/* The tenant may not. */
	client = fake_client_open(*state, &agent_endpoint, BOB, "w");
	forwards(&client, REFUSED("FORBIDDEN", "This port may not be forwarded;*"));
	fake_client_close(&client);
	assert_int_equal(usage(state)->forwards_begun, 0);
}

/* Ends one that there is none of, one twice, and one with more than its end. */
TEST(test_a_worker_that_lies)
{
	for (int i = 0; i < 3; i++) {
		struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
		struct fake_process *worker;
		uint64_t number;
		int fd = -1;

		fake_service_pass(*state, 60000); /* longer than a cell rests */
		fake_client_says(&client,
			REQUEST("2", "tool.call",
				"{\"tool\":\"read_file\",\"arguments\":{\"path\":\"x\"}}"),
			RESULT("2", "{\"success\":true,*}"));
		worker = worker_of(state);
		forwards(&client, FORWARDED);
		number = worker_hears(worker, &fd);
		close_fd(&fd);
		if (i == 1)
			ended(state, worker, number, "");
		assert_int_equal(worker->killed, 0);
		ended(state, worker, i == 0 ? number + 1 : number, i == 2 ? "x" : "");
		assert_int_equal(worker->killed, 1);
		assert_int_equal(usage(state)->forwards, 0);
		((struct fake_service *)*state)->workers_wait = false;
		fake_client_close(&client);
	}
}
