/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/* Questions that still wait when a command ends: no work of that moment, and nobody's later. */
#include "egress/egress.h"
#include "egress/protocol/dns_question.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <event2/event.h>

#define TRUNCATED 2

static const char question[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\3bad\4test\0\0\1\0\1";

static struct tenant tenant; /* which may reach nothing */
static struct egress egress;
static struct cell cell = {.egress = &egress, .tenant = &tenant};
static int asking;

static void set_up(int link)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int one = 1;

	egress.base = event_base_new();
	TAILQ_INIT(&egress.paused);
	channel_init(&egress.channel, link, link, 0);
	LIST_INIT(&cell.conns);
	cell.diag = link; /* it is not asked for datagrams */
	cell.dns = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(setsockopt(cell.dns, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)), 0);
	assert_int_equal(bind(cell.dns, (struct sockaddr *)&address, len), 0);
	assert_int_equal(getsockname(cell.dns, (struct sockaddr *)&address, &len), 0);
	asking = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(connect(asking, (struct sockaddr *)&address, len), 0);
}

static void ask(void)
{
	assert_int_equal(send(asking, question, sizeof(question) - 1, 0), sizeof(question) - 1);
}

/* The kernel begins to stamp packets when they come, a moment after the first socket wanted it. */
static bool is_stamped(void)
{
	const struct timespec moment = {.tv_nsec = 2000000};
	char byte, control[CMSG_SPACE(sizeof(struct timespec))] __attribute__((aligned(8)));
	struct iovec data = {&byte, sizeof(byte)};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct timespec now, stamp;

	ask();
	nanosleep(&moment, NULL);
	clock_gettime(CLOCK_REALTIME, &now);
	assert_int_equal(recvmsg(cell.dns, &message, 0), sizeof(byte));
	assert_non_null(CMSG_FIRSTHDR(&message));
	memcpy(&stamp, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(stamp));
	return stamp.tv_sec < now.tv_sec ||
	       (stamp.tv_sec == now.tv_sec && stamp.tv_nsec < now.tv_nsec);
}

static bool waits(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/* Serves one question. Returns whether it is to be asked again by TCP. */
static bool answer(void)
{
	char bytes[DNS_PACKET_BYTES];

	dns_serve(cell.dns, EV_READ, &cell);
	assert_true(recv(asking, bytes, sizeof(bytes), MSG_DONTWAIT) > 0);
	return bytes[2] & TRUNCATED;
}

TEST(test_left)
{
	int link[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, link), 0);
	set_up(link[0]);
	while (!is_stamped())
		;
	assert_int_equal(cell_add_command(&cell, &(struct egress_call){.call = 7}), 0);
	for (unsigned i = 0; i < 100; i++)
		ask();
	cell_end_command(&cell, 7);
	assert_true(waits(link[1])); /* its end is told */
	assert_false(waits(asking)); /* before one of them is answered */
	assert_int_equal(cell_add_command(&cell, &(struct egress_call){.call = 8}), 0);
	ask();
	for (unsigned i = 0; i < 100; i++)
		assert_true(answer());
	assert_int_equal(cell.commands[0].sums.denied, 0);
	assert_false(answer());
	assert_int_equal(cell.commands[0].sums.denied, 1);
	free(cell.commands);
	event_base_free(egress.base);
	close(cell.dns);
	close(asking);
	close(link[0]);
	close(link[1]);
}
