/* links: libcloister */
// SPDX-License-Identifier: Apache-2.0
/* The client library with a service that ends connections while a call with a key is in flight. */
#include "libcloister/cloister.h"

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

#include <poll.h>
#include <sys/un.h>

#define OPENED   "{\"id\":1,\"result\":{\"workspace\":\"w\",\"key_horizon_ms\":1}}\n"
#define RETIRING "{\"method\":\"service.retiring\",\"params\":{\"within_ms\":1}}\n"
#define BUSY                                                                                \
	"{\"id\":2,\"result\":{\"success\":false,\"tool\":\"run_command\",\"output\":null," \
	"\"error\":"                                                                        \
	"{\"code\":\"BUSY\",\"message\":\"\"}}}\n"
#define OPENED_AGAIN "{\"id\":3,\"result\":{\"workspace\":\"w\",\"key_horizon_ms\":1}}\n"
#define SERVED                                                                                     \
	"{\"id\":4,\"result\":{\"success\":true,\"tool\":\"run_command\",\"output\":{},\"error\":" \
	"null}}\n"
#define NOTICE "{\"method\":\"notice\",\"params\":{}}\n"

struct service {
	struct scratch scratch;
	char path[108];
	int listener, first; /* the first connection */
	struct cloister *cloister;
};

/* Makes a connection that repeats calls in its workspace. */
static struct service service_new(void)
{
	struct service service = {.scratch = scratch_new()};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct cloister_message *reply;

	snprintf(service.path, sizeof(service.path), "%s/sock", service.scratch.path);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", service.path);
	service.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(service.listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(service.listener, 8), 0);
	assert_int_equal(cloister_open(service.path, &service.cloister), 0);
	assert_int_equal(cloister_set_reconnect(service.cloister, 600000), 0);
	service.first = accept(service.listener, NULL, NULL);
	assert_int_equal(send(service.first, OPENED, strlen(OPENED), MSG_NOSIGNAL), strlen(OPENED));
	assert_int_equal(cloister_workspace(service.cloister, "w", &reply), 0);
	cloister_message_free(reply);
	return service;
}

static void service_free(struct service *service)
{
	close(service->listener);
	scratch_done(&service->scratch);
}

static int call(struct cloister *cloister)
{
	struct cloister_message *reply;

	return cloister_call(cloister, &(struct cloister_tool_call){.tool = "run_command"}, &reply);
}

static void close_at_reply(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	(void)id;
	(void)reply;
	*(int *)userdata = error;
	cloister_close(cloister);
}

/* Another request's handler closes the connection when it hears that it is lost. */
TEST(test_closed_when_it_is_lost)
{
	struct service service = service_new();
	int told = 0;

	assert_int_equal(
		cloister_start(service.cloister, "m", NULL, close_at_reply, &told, NULL), 0);
	shutdown(service.first, SHUT_WR);
	assert_int_equal(call(service.cloister), -ECANCELED);
	assert_int_equal(told, -ECONNRESET);
	/* Nobody has connected again. */
	assert_int_equal(poll(&(struct pollfd){.fd = service.listener, .events = POLLIN}, 1, 0), 0);
	close(service.first);
	service_free(&service);
}

static void close_at_notice(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata)
{
	(void)method;
	(void)params;
	*(int *)userdata += 1;
	cloister_close(cloister);
}

/* A handler closes the connection that has taken the lost one's place. */
TEST(test_closed_while_it_connects_again)
{
	struct service service = service_new();
	int notices = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		int second = accept(service.listener, NULL, NULL);

		(void)send(second, NOTICE, strlen(NOTICE), MSG_NOSIGNAL);
		for (;;)
			pause();
	}
	cloister_on_notification(service.cloister, close_at_notice, &notices);
	shutdown(service.first, SHUT_RDWR);
	assert_int_equal(call(service.cloister), -ECANCELED);
	assert_int_equal(notices, 1);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(service.first);
	service_free(&service);
}

/* Reads a request and answers it. */
static void answer(int connection, const char *line)
{
	char byte = 0;

	while (byte != '\n' && read(connection, &byte, 1) == 1)
		;
	(void)send(connection, line, strlen(line), MSG_NOSIGNAL);
}

/* Answers on the second connection, and stays. */
static pid_t serve_second(const struct service *service)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		int second = accept(service->listener, NULL, NULL);

		answer(second, OPENED_AGAIN);
		answer(second, SERVED);
		for (;;)
			pause();
	}
	return child;
}

/* What was not begun, because another process takes over, is begun there. */
TEST(test_a_service_that_is_replaced)
{
	struct service service = service_new();
	pid_t child = serve_second(&service);
	struct cloister_message *reply;

	assert_int_equal(send(service.first, RETIRING BUSY, strlen(RETIRING BUSY), MSG_NOSIGNAL),
		strlen(RETIRING BUSY));
	assert_int_equal(cloister_call(service.cloister,
				 &(struct cloister_tool_call){.tool = "run_command"}, &reply),
		0);
	assert_true(cloister_succeeded(reply));
	cloister_message_free(reply);
	cloister_close(service.cloister);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(service.first);
	service_free(&service);
}

/* BUSY alone is the program's to wait for. */
TEST(test_a_busy_service)
{
	struct service service = service_new();
	struct cloister_message *reply;

	assert_int_equal(send(service.first, BUSY, strlen(BUSY), MSG_NOSIGNAL), strlen(BUSY));
	assert_int_equal(cloister_call(service.cloister,
				 &(struct cloister_tool_call){.tool = "run_command"}, &reply),
		0);
	assert_int_equal(cloister_error(reply), CLOISTER_ERROR_BUSY);
	cloister_message_free(reply);
	cloister_close(service.cloister);
	close(service.first);
	service_free(&service);
}
