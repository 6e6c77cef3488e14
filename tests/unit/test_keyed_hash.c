// SPDX-License-Identifier: Apache-2.0
/* links: cloister-common */
/* The hash of names that clients choose. */
#include "common/keyed_hash.h"

#include "common/cleanup.h"
#include "tests/lib/unit.h"

#include <stdio.h>

#define BUCKETS 64
#define NAMES   4096 /* of twelve pairs of letters; both pairs are the same for hash * 33 + c */

TEST(test_names_that_collide_in_a_hash_without_a_secret)
{
	unsigned counts[BUCKETS] = {0}, most = 0;
	char name[32];

	for (unsigned i = 0; i < NAMES; i++) {
		size_t len = 0;

		for (unsigned bit = 0; bit < 12; bit++) {
			memcpy(name + len, i >> bit & 1 ? "Ez" : "FY", 2);
			len += 2;
		}
		counts[keyed_hash((struct text){name, len}) % BUCKETS]++;
	}
	for (size_t i = 0; i < BUCKETS; i++)
		most = counts[i] > most ? counts[i] : most;
	/* 64 on the average; 250 would be 23 standard deviations more. */
	assert_true(most < 250);
}

TEST(test_a_text_has_one_hash)
{
	const struct text text = TEXT_LITERAL("name"), longer = TEXT_LITERAL("name\0");

	assert_int_equal(keyed_hash(text), keyed_hash(text));
	assert_int_not_equal(keyed_hash(text), keyed_hash(longer));
	(void)keyed_hash((struct text){NULL, 0});
}
