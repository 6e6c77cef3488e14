// SPDX-License-Identifier: Apache-2.0
/* The copying between a client and a server: each of the ends is the test's, the relay a child. */
#include "common/relay.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>

static bool remains_hurry;

/* Replaces the C library's: remains are kept for a moment where a test waits for their end. */
int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const int ms = remains_hurry && timeout == LIMIT_RELAY_REMAINS_MS ? 1 : timeout;
	const struct timespec moment = {ms / 1000, ms % 1000 * 1000000L};

	return ppoll(fds, n, ms < 0 ? NULL : &moment, NULL);
}

struct ends {
	int client, server;
	pid_t relay;
};

/* Two ends of a TCP connection, as a server in a workspace has. */
static void connect_tcp(int pair[2])
{
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), bytes = 4096;

	/* Much less than the client's socket takes. */
	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &len), 0);
	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	assert_int_equal(connect(pair[0], (struct sockaddr *)&name, len), 0);
	pair[1] = accept(listener, NULL, NULL);
	assert_true(pair[1] >= 0);
	close(listener);
}

static struct ends begin(int idle_ms)
{
	int client[2], server[2];
	struct ends ends;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, client), 0);
	connect_tcp(server);
	ends = (struct ends){.client = client[0], .server = server[1], .relay = fork()};
	assert_true(ends.relay >= 0);
	if (ends.relay == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(client[0]);
		close(server[1]);
		fcntl(client[1], F_SETFL, O_NONBLOCK);
		fcntl(server[0], F_SETFL, O_NONBLOCK);
		_exit(-relay(client[1], server[0], idle_ms) & 127);
	}
	close(client[1]);
	close(server[0]);
	return ends;
}

/* Returns the errno with which the relay has ended. */
static int end_of(const struct ends *ends)
{
	int status;

	assert_int_equal(waitpid(ends->relay, &status, 0), ends->relay);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void hears(int fd, const char *text)
{
	char buffer[64];
	size_t len = strlen(text);

	assert_true(len < sizeof(buffer));
	assert_int_equal(recv(fd, buffer, len, MSG_WAITALL), len);
	assert_memory_equal(buffer, text, len);
}

static void hears_the_end(int fd)
{
	char byte;

	assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

TEST(test_the_client_ends_first)
{
	struct ends ends = begin(-1);

	assert_int_equal(send(ends.client, "question", 8, 0), 8);
	shutdown(ends.client, SHUT_WR);
	hears(ends.server, "question");
	hears_the_end(ends.server);
	assert_int_equal(send(ends.server, "answer", 6, 0), 6);
	close(ends.server);
	hears(ends.client, "answer");
	hears_the_end(ends.client);
	assert_int_equal(end_of(&ends), 0);
	close(ends.client);
}

TEST(test_the_server_ends_first)
{
	struct ends ends = begin(-1);

	assert_int_equal(send(ends.server, "first", 5, 0), 5);
	shutdown(ends.server, SHUT_WR);
	hears(ends.client, "first");
	hears_the_end(ends.client);
	assert_int_equal(send(ends.client, "late", 4, 0), 4);
	hears(ends.server, "late");
	close(ends.client);
	hears_the_end(ends.server);
	assert_int_equal(end_of(&ends), 0);
	close(ends.server);
}

/* A server that is closed at once, with what it said before. */
TEST(test_the_server_is_closed)
{
	struct ends ends = begin(-1);

	assert_int_equal(send(ends.server, "first", 5, 0), 5);
	close(ends.server);
	hears(ends.client, "first");
	hears_the_end(ends.client);
	close(ends.client);
	(void)end_of(&ends);
}

TEST(test_a_client_that_is_gone)
{
	struct ends ends = begin(-1);

	assert_int_equal(send(ends.client, "last words", 10, 0), 10);
	close(ends.client);
	hears(ends.server, "last words");
	hears_the_end(ends.server);
	/* The server does not end; the relay does. */
	assert_int_equal(end_of(&ends), EPIPE);
	close(ends.server);
}

/* What one end does not take stays with the other, and is not lost. */
TEST(test_an_end_that_does_not_read)
{
	static char piece[64 * KIB];
	struct ends ends = begin(-1);
	size_t sent = 0, got = 0;
	ssize_t n;

	memset(piece, 'x', sizeof(piece));
	fcntl(ends.client, F_SETFL, O_NONBLOCK);
	do {
		n = send(ends.client, piece, sizeof(piece), MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	assert_int_equal(errno, EAGAIN);
	shutdown(ends.client, SHUT_WR);
	while ((n = recv(ends.server, piece, sizeof(piece), 0)) > 0)
		got += (size_t)n;
	assert_int_equal(got, sent);
	close(ends.server);
	assert_int_equal(end_of(&ends), 0);
	close(ends.client);
}

TEST(test_silence)
{
	struct ends ends = begin(1);

	assert_int_equal(end_of(&ends), ETIMEDOUT);
	close(ends.client);
	close(ends.server);
}

/* A client that is gone, and a server that does not take what it has left. */
TEST(test_remains_are_not_kept_for_ever)
{
	static char piece[64 * KIB];
	struct ends ends;

	remains_hurry = true;
	ends = begin(-1);
	fcntl(ends.client, F_SETFL, O_NONBLOCK);
	while (send(ends.client, piece, sizeof(piece), MSG_NOSIGNAL) > 0)
		continue;
	close(ends.client);
	assert_int_equal(end_of(&ends), ETIMEDOUT);
	close(ends.server);
}
