// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. A cursor comes from a client, which is hostile: it is a key and nothing more.
 */
#include "supervisor/agent/listing_page.h"

#include "common/array.h"
#include "common/base64.h"
#include "common/limits.h"
#include "supervisor/base/json_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CURSOR_BYTES (2UL * LIMIT_PATH_BYTES)

int listing_page_begin(struct listing_page *page, struct text cursor)
{
	size_t len;

	if (!cursor.data)
		return 0;
	if (cursor.len == 0 || cursor.len > CURSOR_BYTES)
		return -EINVAL;
	page->after = calloc(1, base64_decoded_size(cursor.len) + 1);
	if (!page->after)
		return -ENOMEM;
	return base64_decode(cursor, page->after, &len);
}

bool listing_page_wants(struct listing_page *page, const char *key)
{
	if (page->after && strcmp(key, page->after) <= 0)
		return false;
	return !page->end || strcmp(key, page->end) < 0;
}

static void swap(struct listing_row *a, struct listing_row *b)
{
	struct listing_row row = *a;

	*a = *b;
	*b = row;
}

static void sink(struct listing_page *page, size_t i)
{
	for (;;) {
		size_t largest = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < page->n; child++)
			if (strcmp(page->rows[child].key, page->rows[largest].key) > 0)
				largest = child;
		if (largest == i)
			return;
		swap(&page->rows[i], &page->rows[largest]);
		i = largest;
	}
}

/* Takes the row with the largest key out: the page ends before it. */
static void pop(struct listing_page *page)
{
	free(page->end);
	page->end = page->rows[0].key;
	page->bytes -= page->rows[0].len;
	free(page->rows[0].text);
	page->rows[0] = page->rows[--page->n];
	sink(page, 0);
}

int listing_page_add(struct listing_page *page, const char *key, const void *text, size_t len)
{
	struct listing_row row = {.key = strdup(key), .text = malloc(len), .len = len};
	size_t i = page->n;

	if (!row.key || !row.text ||
		array_reserve(&page->rows, &page->size, page->n + 1, sizeof(*page->rows)) < 0) {
		free(row.key);
		free(row.text);
		return -ENOMEM;
	}
	memcpy(row.text, text, len);
	page->rows[page->n++] = row;
	page->bytes += len;
	for (; i > 0 && strcmp(page->rows[i].key, page->rows[(i - 1) / 2].key) > 0; i = (i - 1) / 2)
		swap(&page->rows[i], &page->rows[(i - 1) / 2]);
	while (page->n > page->limit || (page->bytes > LIMIT_LISTED_BYTES && page->n > 1))
		pop(page);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct listing_row *)a)->key, ((const struct listing_row *)b)->key);
}

static int write_cursor(struct json_text *json, struct text key)
{
	const size_t len = base64_encoded_size(key.len);
	char *cursor = malloc(len + 1);

	if (!cursor)
		return -ENOMEM;
	base64_encode(key, cursor);
	json_text_put_text(json, "next_cursor", (struct text){cursor, len});
	free(cursor);
	return 0;
}

int listing_page_write(struct listing_page *page, struct json_text *json)
{
	if (page->n > 0)
		qsort(page->rows, page->n, sizeof(*page->rows), compare);
	json_text_put_array(json, "workspaces");
	for (size_t i = 0; i < page->n; i++)
		json_text_raw(json, (struct text){page->rows[i].text, page->rows[i].len});
	json_text_array_end(json);
	return page->end && page->n > 0 ? write_cursor(json, text_from(page->rows[page->n - 1].key))
					: 0;
}

void listing_page_done(struct listing_page *page)
{
	for (size_t i = 0; i < page->n; i++) {
		free(page->rows[i].key);
		free(page->rows[i].text);
	}
	free(page->rows);
	free(page->after);
	free(page->end);
	*page = (struct listing_page){0};
}
