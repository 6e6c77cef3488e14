/* links: libcloister */
// SPDX-License-Identifier: Apache-2.0
/* Which of several hosts a workspace is on, and which workspaces move when hosts come and go. */
#include "libcloister/cloister.h"
#include "tests/lib/unit.h"

#define WORKSPACES 2000
#define NODES      10

static const struct {
	const char *tenant, *workspace, *nodes, *chosen;
} rows[] = {
#include "tests/lib/places.h"
};

/* Splits @text, which it changes, at its spaces. */
static size_t split(char *text, const char **ret)
{
	size_t n = 0;
	char *rest;

	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		ret[n++] = word;
	return n;
}

TEST(test_the_table)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *nodes[NODES];
		char text[256];
		size_t n, chosen = SIZE_MAX;

		snprintf(text, sizeof(text), "%s", rows[i].nodes);
		n = split(text, nodes);
		assert_int_equal(
			cloister_place(rows[i].tenant, rows[i].workspace, nodes, n, &chosen), 0);
		assert_string_equal(nodes[chosen], rows[i].chosen);
	}
}

static const char *const names[NODES] = {
	"cloister-0",
	"cloister-1",
	"cloister-2",
	"cloister-3",
	"cloister-4",
	"cloister-5",
	"cloister-6",
	"cloister-7",
	"cloister-8",
	"cloister-9",
};

static const char *placed(unsigned number, const char *const *nodes, size_t n)
{
	char workspace[16];
	size_t chosen = SIZE_MAX;

	snprintf(workspace, sizeof(workspace), "w%u", number);
	assert_int_equal(cloister_place("blue", workspace, nodes, n, &chosen), 0);
	assert_true(chosen < n);
	return nodes[chosen];
}

TEST(test_all_get_their_share)
{
	unsigned counts[NODES] = {0};

	for (unsigned i = 0; i < WORKSPACES; i++) {
		const char *node = placed(i, names, NODES);

		counts[node[strlen(node) - 1] - '0']++;
	}
	for (size_t i = 0; i < NODES; i++)
		assert_in_range(counts[i], WORKSPACES / NODES * 3 / 4, WORKSPACES / NODES * 5 / 4);
}

/* A host that goes moves its own workspaces and no others; one that comes back gets them again. */
TEST(test_as_few_move_as_can)
{
	const char *fewer[NODES - 1];
	unsigned moved = 0, to[NODES] = {0};

	memcpy(fewer, names, sizeof(fewer));
	fewer[4] = names[NODES - 1]; /* without cloister-4, in another order */
	for (unsigned i = 0; i < WORKSPACES; i++) {
		const char *before = placed(i, names, NODES), *after = placed(i, fewer, NODES - 1);

		if (strcmp(before, names[4]) != 0) {
			assert_string_equal(before, after);
			continue;
		}
		moved++;
		to[after[strlen(after) - 1] - '0']++;
	}
	for (size_t i = 0; i < NODES; i++)
		assert_true(i == 4 ? to[i] == 0 : to[i] > moved / NODES / 4);
}

TEST(test_the_order_does_not_matter)
{
	const char *reversed[NODES];

	for (size_t i = 0; i < NODES; i++)
		reversed[i] = names[NODES - 1 - i];
	for (unsigned i = 0; i < WORKSPACES; i++)
		assert_string_equal(placed(i, names, NODES), placed(i, reversed, NODES));
}

TEST(test_mistakes)
{
	static const char *const one[] = {"a"}, *const with_none[] = {"a", NULL};
	size_t chosen = 7;

	assert_int_equal(cloister_place(NULL, "w", one, 1, &chosen), -EINVAL);
	assert_int_equal(cloister_place("t", NULL, one, 1, &chosen), -EINVAL);
	assert_int_equal(cloister_place("t", "w", NULL, 1, &chosen), -EINVAL);
	assert_int_equal(cloister_place("t", "w", one, 0, &chosen), -EINVAL);
	assert_int_equal(cloister_place("t", "w", with_none, 2, &chosen), -EINVAL);
	assert_int_equal(cloister_place("t", "w", one, 1, NULL), -EINVAL);
	assert_int_equal(chosen, 7);
}
