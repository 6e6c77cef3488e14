// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress, once, at the start. The sockets that c-ares gets are event descriptors,
 * which are always readable: so the whole way of an answer is tried, libevent's part too, and
 * nothing leaves the process. ares_set_socket_functions(3), RFC 1035 section 4.
 */
#include "egress/resolver_check.h"

#include "common/cleanup.h"
#include "egress/resolver.h"

#include <ares.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#define SERVER   "127.0.0.1:53"
#define PORT     4711
#define BOUND_S  10 /* all of it takes less than a millisecond */
#define HEADER   12
#define MESSAGES 8

enum { TYPE_A = 1, TYPE_AAAA = 28, NO_SUCH_NAME = 3 };

/* "there.test" has an address of each family, "absent.test" has none. */
static const unsigned char there[] = "\5there\4test", absent[] = "\6absent\4test";
static const unsigned char v4[] = {192, 0, 2, 1},
			   v6[] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

struct message {
	unsigned char bytes[512];
	size_t len;
};

struct trial {
	struct event_base *base;
	struct message waiting[MESSAGES]; /* answers that c-ares has not read yet */
	size_t n_waiting;
	bool was_strange; /* there was a question for another name */
	bool is_answered;
	bool has_v4, has_v6, has_others; /* what the answers had */
};

static ares_socket_t on_open(int family, int type, int protocol, void *context)
{
	(void)family;
	(void)type;
	(void)protocol;
	(void)context;
	return eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
}

static int on_close(ares_socket_t fd, void *context)
{
	(void)context;
	return close(fd);
}

static int on_connect(
	ares_socket_t fd, const struct sockaddr *address, ares_socklen_t len, void *context)
{
	(void)fd;
	(void)address;
	(void)len;
	(void)context;
	return 0;
}

/* Adds to the end of @message. */
static void add_dns_data(struct message *message, const void *data, size_t len)
{
	if (len > sizeof(message->bytes) - message->len)
		return; /* cannot be: each is shorter */
	memcpy(message->bytes + message->len, data, len);
	message->len += len;
}

/* Answers @question of @name and @type: first as somebody who does not know its id, then rightly.
 */
static void answer_trial(struct trial *trial, const struct message *question, bool exists,
	size_t name_len, unsigned char type)
{
	static const unsigned char wrong[] = {198, 51, 100, 9};
	const unsigned char counts[] = {
		0x81, exists ? 0x80 : 0x80 | NO_SUCH_NAME, 0, 1, 0, exists ? 1 : 0, 0, 0, 0, 0};
	/* The name as a pointer to the question's, class IN, a minute. */
	const unsigned char record[] = {0xc0, HEADER, 0, type, 0, 1, 0, 0, 0, 60, 0,
		type == TYPE_A ? sizeof(v4) : sizeof(v6)};

	for (int is_right = 0; is_right < 2 && trial->n_waiting < MESSAGES; is_right++) {
		struct message *reply = &trial->waiting[trial->n_waiting++];

		*reply = (struct message){0};
		add_dns_data(reply, question->bytes, 2);
		reply->bytes[0] ^= is_right ? 0 : 1;
		add_dns_data(reply, counts, sizeof(counts));
		add_dns_data(reply, question->bytes + HEADER, name_len + 4);
		if (!exists)
			continue;
		add_dns_data(reply, record, sizeof(record));
		if (type != TYPE_A)
			add_dns_data(reply, v6, sizeof(v6));
		else
			add_dns_data(reply, is_right ? v4 : wrong, sizeof(v4));
	}
}

static ares_ssize_t on_send(ares_socket_t fd, const struct iovec *data, int n, void *context)
{
	struct trial *trial = context;
	struct message question = {0};
	size_t name_len;
	bool exists;

	(void)fd;
	for (int i = 0; i < n; i++)
		add_dns_data(&question, data[i].iov_base, data[i].iov_len);
	name_len =
		strnlen((char *)question.bytes + HEADER, sizeof(question.bytes) - HEADER - 5) + 1;
	exists = name_len == sizeof(there) && memcmp(question.bytes + HEADER, there, name_len) == 0;
	if (!exists && (name_len != sizeof(absent) ||
			       memcmp(question.bytes + HEADER, absent, name_len) != 0))
		trial->was_strange = true;
	answer_trial(trial, &question, exists, name_len, question.bytes[HEADER + name_len + 1]);
	return (ares_ssize_t)question.len;
}

static ares_ssize_t on_receive(ares_socket_t fd, void *buffer, size_t size, int flags,
	struct sockaddr *ret_from, ares_socklen_t *ret_len, void *context)
{
	const struct sockaddr_in server = {.sin_family = AF_INET,
		.sin_port = htons(53),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct trial *trial = context;
	struct message reply;

	(void)fd;
	(void)flags;
	if (trial->n_waiting == 0) {
		errno = EAGAIN;
		return -1;
	}
	reply = trial->waiting[0];
	trial->n_waiting--;
	memmove(trial->waiting, trial->waiting + 1, trial->n_waiting * sizeof(reply));
	if (ret_from && ret_len && *ret_len >= sizeof(server)) {
		memcpy(ret_from, &server, sizeof(server));
		*ret_len = sizeof(server);
	}
	memcpy(buffer, reply.bytes, reply.len < size ? reply.len : size);
	return (ares_ssize_t)(reply.len < size ? reply.len : size);
}

static void on_answer(void *context, const struct sockaddr_storage *addresses, size_t n)
{
	struct trial *trial = context;

	for (size_t i = 0; i < n; i++) {
		const struct sockaddr_in *is_v4 = (const struct sockaddr_in *)&addresses[i];
		const struct sockaddr_in6 *is_v6 = (const struct sockaddr_in6 *)&addresses[i];

		if (is_v4->sin_family == AF_INET && is_v4->sin_port == htons(PORT) &&
			memcmp(&is_v4->sin_addr, v4, sizeof(v4)) == 0)
			trial->has_v4 = true;
		else if (is_v6->sin6_family == AF_INET6 && is_v6->sin6_port == htons(PORT) &&
			 memcmp(&is_v6->sin6_addr, v6, sizeof(v6)) == 0)
			trial->has_v6 = true;
		else
			trial->has_others = true;
	}
	trial->is_answered = true;
	(void)event_base_loopbreak(trial->base);
}

/* Asks for @name and waits for the answer. Returns false if there is none. */
static bool ask_resolver(struct trial *trial, struct resolver *resolver, struct text name)
{
	const struct timeval bound = {.tv_sec = BOUND_S};
	struct host host;

	trial->is_answered = false;
	if (host_parse(name, &host) == 0 && event_base_loopexit(trial->base, &bound) == 0 &&
		resolver_ask(resolver, &host, PORT, on_answer, trial))
		(void)event_base_dispatch(trial->base);
	return trial->is_answered;
}

static const char *find_fault(struct trial *trial, struct resolver *resolver)
{
	if (!ask_resolver(trial, resolver, TEXT_LITERAL("there.test")) ||
		!ask_resolver(trial, resolver, TEXT_LITERAL("absent.test")))
		return "does not tell what a server answers";
	if (trial->was_strange)
		return "asks for other names than it is given";
	if (trial->has_others)
		return "takes answers to other questions, or changes addresses";
	return trial->has_v4 && trial->has_v6 ? NULL : "leaves addresses out";
}

int resolver_check(const char **ret_fault)
{
	static const struct ares_socket_functions sockets = {
		.asocket = on_open,
		.aclose = on_close,
		.aconnect = on_connect,
		.arecvfrom = on_receive,
		.asendv = on_send,
	};
	struct trial trial = {.base = event_base_new()};
	struct resolver *resolver;
	int r = trial.base ? resolver_new(trial.base, SERVER, &resolver) : -ENOMEM;

	if (r == 0) {
		resolver_use_sockets(resolver, &sockets, &trial);
		*ret_fault = find_fault(&trial, resolver);
		/* A query that is left would begin again. */
		if (!*ret_fault)
			resolver_free(resolver);
	}
	if (trial.base)
		event_base_free(trial.base);
	return r;
}
