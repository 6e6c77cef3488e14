/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* Pages of workspace.list: in any order rows come, each is on one page, and a page is bounded. */
#include "supervisor/agent/listing_page.h"

#include "common/limits.h"
#include "supervisor/base/json_text.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>

#define ROWS 100

static char text[LIMIT_LISTED_BYTES];

/* Reads the page after @cursor of ROWS rows of @len bytes that come in an order of their own.
 * Returns how many it has, and leaves the next cursor. */
static size_t read_page(char cursor[64], size_t limit, size_t len, size_t *ret_first)
{
	struct listing_page page = {.limit = limit};
	struct evbuffer *out = evbuffer_new();
	struct json_text json = json_text(out);
	char key[16], *written, *next;
	size_t n;

	memset(text, '1', sizeof(text));
	assert_int_equal(listing_page_begin(&page, text_from(cursor[0] ? cursor : NULL)), 0);
	for (size_t i = 0; i < ROWS; i++) {
		snprintf(key, sizeof(key), "t/1/%03zu", i * 37 % ROWS);
		if (listing_page_wants(&page, key))
			assert_int_equal(listing_page_add(&page, key, text, len), 0);
	}
	json_text_object_begin(&json);
	assert_int_equal(listing_page_write(&page, &json), 0);
	json_text_object_end(&json);
	assert_int_equal(json_text_flush(&json), 0);
	n = page.n;
	*ret_first = n > 0 ? (size_t)atoi(page.rows[0].key + 4) : 0;
	evbuffer_add(out, "", 1);
	written = (char *)evbuffer_pullup(out, -1);
	next = strstr(written, "\"next_cursor\":\"");
	cursor[0] = '\0';
	if (next)
		assert_int_equal(sscanf(next, "\"next_cursor\":\"%63[^\"]", cursor), 1);
	evbuffer_free(out);
	listing_page_done(&page);
	return n;
}

static void read_all(size_t limit, size_t len, size_t expected)
{
	char cursor[64] = "";
	size_t seen = 0, first, n;

	do {
		n = read_page(cursor, limit, len, &first);
		assert_int_equal(first, seen);
		seen += n;
		assert_true(n == expected || seen == ROWS);
	} while (cursor[0]);
	assert_int_equal(seen, ROWS);
}

TEST(test_pages)
{
	read_all(1, 1, 1);
	read_all(7, 1, 7);
	read_all(ROWS, 1, ROWS);
	read_all(ROWS - 1, 1, ROWS - 1);
	/* However long rows are, a page holds no more than it may, and one at least. */
	read_all(ROWS, LIMIT_LISTED_BYTES / 10, 10);
	read_all(ROWS, LIMIT_LISTED_BYTES / 2 + 1, 1);
	read_all(ROWS, LIMIT_LISTED_BYTES, 1);
}

TEST(test_what_is_no_cursor)
{
	static char longer[4 * LIMIT_PATH_BYTES];
	struct listing_page page = {.limit = 1};

	memset(longer, 'A', sizeof(longer));
	assert_int_equal(listing_page_begin(&page, TEXT_LITERAL("")), -EINVAL);
	assert_int_equal(listing_page_begin(&page, TEXT_LITERAL("x")), -EINVAL);
	free(page.after);
	page.after = NULL;
	assert_int_equal(listing_page_begin(&page, (struct text){longer, sizeof(longer)}), -EINVAL);
	/* Any text may be one: it is compared, and nothing else. */
	assert_int_equal(listing_page_begin(&page, TEXT_LITERAL("AAAA")), 0);
	listing_page_done(&page);
}
