// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. Questions to the DNS server inside that come over TCP, each behind two
 * bytes with its length: RFC 1035, 4.2.2. A C library that uses TCP sends several before it reads.
 */
#include "egress/conn_state.h"
#include "egress/protocol/dns_question.h"

#include <errno.h>
#include <event2/event.h>

#define LENGTH_BYTES   2
#define QUESTION_BYTES ((size_t)LENGTH_BYTES + DNS_PACKET_BYTES)

/* Returns whether a whole question has come, without its length in @ret. */
static bool take_question(struct text received, struct text *ret)
{
	size_t len;

	if (received.len < LENGTH_BYTES)
		return false;
	len = (size_t)(uint8_t)received.data[0] << 8 | (uint8_t)received.data[1];
	if (received.len - LENGTH_BYTES < len)
		return false;
	*ret = (struct text){received.data + LENGTH_BYTES, len};
	return true;
}

/* Sends the answer that lies ready. Returns false if the connection is over. */
static bool send_answer(struct conn *conn)
{
	struct byte_queue *ready = &conn->ways[CONN_IN].pending;
	struct text answer = byte_queue_peek(ready);
	bool sent = conn_answer(conn, answer.data, answer.len);

	byte_queue_free(ready);
	if (!sent)
		conn_end(conn);
	return sent;
}

/* Returns false if it is no question, or memory is out. */
static bool answer_question(struct conn *conn, struct text question, bool *ret_told)
{
	struct byte_queue *ready = &conn->ways[CONN_IN].pending;
	uint8_t reply[QUESTION_BYTES];
	size_t len = dns_answer(conn->cell, conn->call, question, reply + LENGTH_BYTES, ret_told);

	reply[0] = (uint8_t)(len >> 8);
	reply[1] = (uint8_t)len;
	return len > 0 && byte_queue_append(ready, (const char *)reply, LENGTH_BYTES + len) == 0;
}

static void answer_all(struct conn *conn)
{
	struct byte_queue *received = &conn->ways[CONN_OUT].pending;
	struct text question;
	bool told;

	while (take_question(byte_queue_peek(received), &question)) {
		if (!answer_question(conn, question, &told)) {
			conn_end(conn);
			return;
		}
		byte_queue_consume(received, LENGTH_BYTES + question.len);
		if (!told) {
			/* The event comes before the answer. */
			conn_watch_client(conn, 0);
			egress_wait(conn->cell->egress, conn);
			return;
		}
		if (!send_answer(conn))
			return;
	}
	conn_watch_client(conn, EV_READ);
}

void conn_read_question(struct conn *conn)
{
	ssize_t n = conn_read_client(conn, 2 * QUESTION_BYTES);

	if (n > 0)
		answer_all(conn);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		conn_end(conn);
}

void conn_answer_question(struct conn *conn)
{
	if (send_answer(conn))
		answer_all(conn);
}
