/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * SOCKS messages and TLS ClientHellos. Bytes that follow a whole message change nothing about it,
 * and no beginning of one is taken for the whole.
 *
 * Input: a byte that chooses the parser, the client's bytes.
 */
#include "egress/protocol/client_hello.h"
#include "egress/protocol/socks.h"
#include "tests/fuzz/fuzz.h"

static void check_socks(struct text text)
{
	struct socks_request request, shorter;
	size_t len = 0;
	bool accepts;

	if (socks_greeting_parse(text, &len, &accepts) == 1) {
		CHECK(len >= 2 && len <= text.len);
		CHECK(socks_greeting_parse((struct text){text.data, len - 1}, &len, &accepts) == 0);
	}
	if (socks_request_parse(text, &request) != 1)
		return;
	CHECK(request.len <= text.len);
	CHECK(!request.has_host || (request.host.len > 0 && request.port > 0));
	CHECK(socks_request_parse((struct text){text.data, request.len - 1}, &shorter) == 0);
}

/*
 * It comes in pieces: none of them may be refused if the whole is not, or name another host, or
 * want more bytes than there need be.
 */
static void check_hello(struct text text)
{
	struct host host, of_piece;
	size_t needed, whole = text.len;

	if (client_hello_name(text, &needed, &host) != 1)
		return;
	CHECK(host.len > 0 && host.len == strlen(host.text));
	for (size_t len = text.len; len-- > 0;) {
		int r = client_hello_name((struct text){text.data, len}, &needed, &of_piece);

		CHECK(r == 0 || (r == 1 && host_equal(&of_piece, &host)));
		whole = r == 1 ? len : whole;
		CHECK(r == 1 || (needed > len && needed <= whole));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size);
	bool socks = fuzz_byte(&rest) & 1;
	char *copy = fuzz_copy(rest);

	if (socks)
		check_socks((struct text){copy, rest.len});
	else
		check_hello((struct text){copy, rest.len});
	free(copy);
	return 0;
}
