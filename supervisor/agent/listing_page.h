/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rows of one answer to workspace.list. Rows come in any order; the page keeps those with the
 * smallest keys after the cursor, up to its limit. So a page takes bounded memory. If the list
 * changes between two pages, no row that stays is skipped or repeated.
 *
 * Runs in cloisterd. The texts come from clients.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

struct json_text;

struct listing_row {
	char *key, *text; /* the text is a JSON value */
	size_t len;
};

/* Zeroed but for limit: an empty page. */
struct listing_page {
	size_t limit; /* rows */
	char *after;  /* a key; NULL: from the beginning */
	/* The rest belongs to listing_page.c: a heap with the largest key first. */
	struct listing_row *rows;
	size_t n, size, bytes;
	char *end; /* a row with this key is not on the page, nor any after it; NULL: none yet */
};

/** Reads a cursor. Returns 0; -EINVAL if it is none; or -ENOMEM. */
int listing_page_begin(struct listing_page *page, struct text cursor);

/** Whether a row with @key may be on the page. */
bool listing_page_wants(struct listing_page *page, const char *key);

/** Adds a row that is wanted, with @len bytes of @text. Returns 0 or -ENOMEM. */
int listing_page_add(struct listing_page *page, const char *key, const void *text, size_t len);

/** Writes the rows as an array, and the cursor of the next page if there is one. Returns 0 or
 * -ENOMEM. */
int listing_page_write(struct listing_page *page, struct json_text *json);

void listing_page_done(struct listing_page *page);
