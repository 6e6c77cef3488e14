// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-egress. Pure functions on a client's bytes, of which none is trusted. */
#include "egress/protocol/client_hello.h"

#include "common/limits.h"

#include <errno.h>
#include <stdint.h>

enum {
	RECORD_HANDSHAKE = 22,
	RECORD_HEADER = 5,
	RECORD_MAX = 16384,
	HANDSHAKE_CLIENT_HELLO = 1,
	HANDSHAKE_HEADER = 4,
	EXTENSION_SERVER_NAME = 0,
	NAME_TYPE_HOST = 0,
};

/* Bytes that are left to read. One that is missing makes it failed, and reads as 0. */
struct input {
	const uint8_t *data;
	size_t left;
	bool failed;
};

static struct input take_hello_bytes(struct input *input, size_t n)
{
	struct input part = {input->data, n, false};

	if (input->failed || n > input->left) {
		input->failed = true;
		return (struct input){NULL, 0, true};
	}
	input->data += n;
	input->left -= n;
	return part;
}

static size_t number(struct input *input, size_t bytes)
{
	struct input part = take_hello_bytes(input, bytes);
	size_t value = 0;

	for (size_t i = 0; i < part.left; i++)
		value = value << 8 | part.data[i];
	return value;
}

/* Takes a vector whose length is in the first @bytes bytes. */
static struct input vector(struct input *input, size_t bytes)
{
	return take_hello_bytes(input, number(input, bytes));
}

/* Reads the list of server_name: exactly one name, of the type that there is. */
static int read_names(struct input extension, struct host *ret)
{
	struct input names = vector(&extension, 2), name;
	size_t type = number(&names, 1);

	name = vector(&names, 2);
	if (names.failed || name.failed || names.left > 0 || extension.failed ||
		extension.left > 0 || type != NAME_TYPE_HOST)
		return -EBADMSG;
	/* An address is not permitted in it, and a trailing dot is dropped: RFC 6066. */
	return host_parse((struct text){(const char *)name.data, name.left}, ret);
}

static int read_extensions(struct input extensions, struct host *ret)
{
	bool found = false;

	while (extensions.left > 0 && !extensions.failed) {
		size_t type = number(&extensions, 2);
		struct input extension = vector(&extensions, 2);
		int r;

		if (extension.failed)
			return -EBADMSG;
		if (type != EXTENSION_SERVER_NAME)
			continue;
		if (found)
			return -EBADMSG;
		found = true;
		r = read_names(extension, ret);
		if (r < 0)
			return r;
	}
	return extensions.failed ? -EBADMSG : found ? 1 : -ENOENT;
}

static int read_hello(struct input hello, struct host *ret)
{
	struct input session, ciphers, compressions, extensions;

	if (number(&hello, 2) < 0x0301)
		return -EBADMSG;
	take_hello_bytes(&hello, 32); /* random */
	session = vector(&hello, 1);
	ciphers = vector(&hello, 2);
	compressions = vector(&hello, 1);
	if (hello.failed || session.left > 32 || ciphers.left < 2 || compressions.left < 1)
		return -EBADMSG;
	if (hello.left == 0)
		return -ENOENT;
	extensions = vector(&hello, 2);
	if (extensions.failed || hello.left > 0)
		return -EBADMSG;
	return read_extensions(extensions, ret);
}

/* The length of the message whose first @len bytes are in @message; of its header, as long as that
 * is not known. */
static size_t message_length(const uint8_t *message, size_t len)
{
	if (len < HANDSHAKE_HEADER)
		return HANDSHAKE_HEADER;
	return HANDSHAKE_HEADER + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
}

/* Returns 1 if the message of @len bytes is whole, 0 if not, or -errno. */
static int check_message(const uint8_t *message, size_t len)
{
	size_t need = message_length(message, len);

	if (len < HANDSHAKE_HEADER)
		return 0;
	if (message[0] != HANDSHAKE_CLIENT_HELLO)
		return -EBADMSG;
	if (need > LIMIT_EGRESS_HELLO_BYTES)
		return -E2BIG;
	/* The rest of a record is nobody's. */
	return len < need ? 0 : len == need ? 1 : -EBADMSG;
}

/* Reads the header of a record whose first bytes are there. Returns 1, 0, or -errno. */
static int read_record_header(struct input *input, size_t *ret_length)
{
	size_t type, version, length;

	if (input->left > 0 && input->data[0] != RECORD_HANDSHAKE)
		return -EBADMSG;
	if (input->left < RECORD_HEADER)
		return 0;
	type = number(input, 1);
	version = number(input, 2);
	length = number(input, 2);
	if (type != RECORD_HANDSHAKE || version >> 8 != 3 || length == 0 || length > RECORD_MAX)
		return -EBADMSG;
	*ret_length = length;
	return 1;
}

/*
 * Puts together the handshake message from the records that carry it. Returns 1 when the whole
 * message is in @message, which has *@len bytes of it; 0 or -errno as client_hello_name().
 */
static int join_records(struct text bytes, uint8_t *message, size_t *len, size_t *ret_needed)
{
	struct input input = {(const uint8_t *)bytes.data, bytes.len, false}, body;
	int r;

	while ((r = check_message(message, *len)) == 0) {
		size_t missing = message_length(message, *len) - *len, length;
		size_t read = bytes.len - input.left;

		r = read_record_header(&input, &length);
		if (r < 0)
			return r;
		if (r == 0) {
			*ret_needed = read + RECORD_HEADER + missing;
			return 0;
		}
		if (*len + length > LIMIT_EGRESS_HELLO_BYTES)
			return -E2BIG;
		body = take_hello_bytes(&input, length);
		if (!body.data) {
			*ret_needed = read + RECORD_HEADER + length +
				      (missing > length ? RECORD_HEADER + missing - length : 0);
			return 0;
		}
		memcpy(message + *len, body.data, length);
		*len += length;
	}
	return r;
}

int client_hello_name(struct text bytes, size_t *ret_needed, struct host *ret)
{
	uint8_t message[LIMIT_EGRESS_HELLO_BYTES] = {0};
	size_t len = 0;
	int r = join_records(bytes, message, &len, ret_needed);

	if (r <= 0)
		return r;
	return read_hello(
		(struct input){message + HANDSHAKE_HEADER, len - HANDSHAKE_HEADER, false}, ret);
}
