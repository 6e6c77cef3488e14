/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* The layers of a workspace on disk: names of directories, and what they mean at each moment. */
#include "supervisor/workspace/layers/layers.h"

#include "supervisor/config/tenant.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

#include <limits.h>

struct fixture {
	struct scratch scratch;
	struct tenant *tenant;
	struct layers_place place;
	unsigned dropped;
	char last[512]; /* what was dropped last */
	bool unclear;   /* 3-2 was dropped before 4-3, in whose place 4-2 is */
};

static bool is_there(const struct fixture *f, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "one/.layers-w/%s", name);
	return faccessat(f->scratch.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void note_dropped(void *context, const char *tenant, const char *name)
{
	struct fixture *f = context;

	f->dropped++;
	f->unclear |= is_there(f, "4-3") && !is_there(f, "3-2");
	snprintf(f->last, sizeof(f->last), "%s/%s", tenant, name);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->scratch = scratch_new();
	f->tenant = tenant_new("one");
	f->place = (struct layers_place){f->scratch.fd, f->tenant, "w", note_dropped, f};
	assert_int_equal(mkdirat(f->scratch.fd, "one", 0700), 0);
	assert_int_equal(mkdirat(f->scratch.fd, "one/w", 0700), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	scratch_done(&f->scratch);
	tenant_release(f->tenant);
	free(f);
	return 0;
}

FIXTURE(set_up, tear_down)

static void make(const struct fixture *f, const char *name)
{
	char path[512];

	(void)mkdirat(f->scratch.fd, "one/.layers-w", 0700);
	snprintf(path, sizeof(path), "one/.layers-w/%s", name);
	assert_int_equal(mkdirat(f->scratch.fd, path, 0700), 0);
}

static void expect(const struct fixture *f, const struct layer_stack *expected)
{
	struct layer_stack stack = {.count = 9};

	assert_int_equal(layers_read(&f->place, &stack), 0);
	assert_int_equal(stack.count, expected->count);
	assert_memory_equal(stack.numbers, expected->numbers, stack.count * sizeof(uint32_t));
	assert_string_equal(stack.template, expected->template);
}

static void put(struct fixture *f, const struct layer_stack *stack)
{
	assert_int_equal(layers_make(&f->place, stack), 0);
	assert_int_equal(layers_commit(&f->place, stack), 0);
}

static const struct layer_stack none = {0}, one = {2, {0, 1}, ""}, two = {3, {0, 1, 2}, ""},
				after = {3, {0, 1, 3}, ""};

TEST(test_a_stack_is_in_force_when_it_is_committed)
{
	struct fixture *f = *state;

	expect(f, &none);
	assert_int_equal(layers_make(&f->place, &one), 0);
	expect(f, &none);
	/* A second try finds the layer of the first, which nobody has used. */
	assert_int_equal(layers_make(&f->place, &one), 0);
	assert_int_equal(f->dropped, 1);
	assert_int_equal(strncmp(f->last, "one/.layers-w/.dropped-", 23), 0);
	assert_int_equal(layers_commit(&f->place, &one), 0);
	expect(f, &one);
	assert_int_equal(layers_make(&f->place, &two), 0);
	expect(f, &one);
	assert_int_equal(layers_commit(&f->place, &two), 0);
	expect(f, &two);
}

TEST(test_what_is_not_in_the_stack_is_dropped)
{
	struct fixture *f = *state;

	put(f, &one);
	put(f, &two);
	assert_int_equal(layers_label(&f->place, 1, text_from("gone")), 0);
	assert_int_equal(layers_label(&f->place, 0, text_from("kept")), 0);
	assert_int_equal(layers_make(&f->place, &after), 0);
	layers_tidy(&f->place, &two);
	assert_true(is_there(f, "2-1") && is_there(f, "c1=gone"));
	assert_false(is_there(f, "3-1"));
	assert_int_equal(f->dropped, 1);
	layers_tidy(&f->place, &one);
	assert_false(is_there(f, "2-1") || is_there(f, "c1=gone"));
	assert_true(is_there(f, "1-0") && is_there(f, "c0=kept"));
}

/* A change that was given up, such as a rollback for which no call came to an end, leaves its
 * layer. The next change has a layer of the same number, which may lie on another one. */
TEST(test_a_layer_that_was_given_up_never_shows)
{
	static const struct layer_stack given_up = {3, {0, 1, 4}, ""},
					wanted = {4, {0, 1, 2, 3}, ""},
					last = {5, {0, 1, 2, 3, 4}, ""};
	struct fixture *f = *state;
	struct layer_stack read;

	put(f, &one);
	put(f, &two);
	put(f, &wanted);
	assert_int_equal(layers_make(&f->place, &given_up), 0);
	assert_int_equal(layers_make(&f->place, &last), 0);
	assert_false(is_there(f, "4-1"));
	assert_int_equal(layers_commit(&f->place, &last), 0);
	expect(f, &last);
	/* Also if a record has both. */
	make(f, "4-1");
	assert_int_equal(layers_read(&f->place, &read), -EBADMSG);
	layers_tidy(&f->place, &last);
	assert_false(is_there(f, "4-1"));
	assert_true(is_there(f, "4-3"));
}

static void drop_many(const struct fixture *f, const char *directory, bool present)
{
	const int n = *directory ? LIMIT_LAYERS_DROPPED : LIMIT_LAYERS_REMOVED;
	char path[512];

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "one/%s.dropped-%d", directory, i);
		assert_int_equal(present ? mkdirat(f->scratch.fd, path, 0700)
					 : unlinkat(f->scratch.fd, path, AT_REMOVEDIR),
			0);
	}
}

/* Whoever drops layers faster than they are cleared would fill the disk. */
TEST(test_no_layer_is_made_while_many_wait_to_be_cleared)
{
	struct fixture *f = *state;

	drop_many(f, "", true);
	assert_int_equal(layers_make(&f->place, &one), -EBUSY);
	assert_int_equal(layers_may_fork(&f->place), -EBUSY);
	drop_many(f, "", false);
	put(f, &one);
	drop_many(f, ".layers-w/", true);
	assert_int_equal(layers_make(&f->place, &two), -EBUSY);
	expect(f, &one);
	drop_many(f, ".layers-w/", false);
	/* Those of removed workspaces do not hold up one that has layers. */
	drop_many(f, "", true);
	put(f, &two);
}

struct seen {
	size_t n;
	uint32_t numbers[4];
	char labels[4][NAME_MAX + 1];
};

static void see(void *context, const struct checkpoint_info *checkpoint)
{
	struct seen *seen = context;

	assert_true(checkpoint->made_ms > 0);
	seen->numbers[seen->n] = checkpoint->number;
	snprintf(seen->labels[seen->n++], NAME_MAX + 1, "%.*s", (int)checkpoint->label.len,
		checkpoint->label.data ? checkpoint->label.data : "");
}

TEST(test_labels_may_be_any_text)
{
	char longest[LIMIT_CHECKPOINT_LABEL_BYTES + 1];
	struct fixture *f = *state;
	struct seen seen = {0};

	memset(longest, '/', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	put(f, &one);
	put(f, &two);
	assert_int_equal(layers_label(&f->place, 0, text_from("a/b 100%2F ..=c")), 0);
	assert_int_equal(layers_label(&f->place, 1, text_from("first")), 0);
	assert_int_equal(layers_label(&f->place, 1, text_from(longest)), 0);
	assert_int_equal(layers_each(&f->place, &two, see, &seen), 0);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.numbers[0], 1);
	assert_int_equal(seen.numbers[1], 2);
	assert_string_equal(seen.labels[0], "a/b 100%2F ..=c");
	assert_string_equal(seen.labels[1], longest);
}

/* A fork of a former version has a directory for the name of its first checkpoint, too. */
TEST(test_a_fork_is_called_after_its_template)
{
	struct fixture *f = *state;
	struct layer_stack stack;
	struct seen seen = {0}, former = {0};

	assert_int_equal(layers_fork(&f->place, "repo"), 0);
	assert_int_equal(layers_read(&f->place, &stack), 0);
	assert_int_equal(layers_each(&f->place, &stack, see, &seen), 0);
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.labels[0], "repo");
	make(f, "c0=former");
	assert_int_equal(layers_each(&f->place, &stack, see, &former), 0);
	assert_int_equal(former.n, 1);
	assert_string_equal(former.labels[0], "former");
}

TEST(test_a_damaged_record_is_told)
{
	struct fixture *f = *state;
	struct layer_stack stack = one;

	put(f, &one);
	make(f, "01-0"); /* is no layer's name, nor are these */
	make(f, "at-01");
	make(f, "1-");
	make(f, "9999999999-1");
	expect(f, &one);
	/* Two layers that take changes; then one that is not there. */
	make(f, "at-7");
	assert_int_equal(layers_read(&f->place, &stack), -EBADMSG);
	assert_int_equal(unlinkat(f->scratch.fd, "one/.layers-w/at-1", AT_REMOVEDIR), 0);
	assert_int_equal(layers_read(&f->place, &stack), -EBADMSG);
	/* A circle. */
	make(f, "7-6");
	make(f, "6-7");
	assert_int_equal(layers_read(&f->place, &stack), -EBADMSG);
	assert_memory_equal(&stack, &one, sizeof(stack));
}

/* The stack of one layer more than there may be without folding, but for the layer @without. */
static struct layer_stack many(uint32_t without)
{
	struct layer_stack stack = {.count = LIMIT_LAYERS_FOLD + 1};

	for (uint32_t i = 0; i < stack.count; i++)
		stack.numbers[i] = i;
	if (without > 0)
		layer_stack_take_out(&stack, without);
	return stack;
}

static void put_many(struct fixture *f)
{
	struct layer_stack stack = many(0);
	const uint32_t count = stack.count;

	for (stack.count = 2; stack.count <= count; stack.count++)
		put(f, &stack);
}

static void label(const struct fixture *f, uint32_t first, uint32_t n, const char *text)
{
	for (uint32_t number = first; number < first + n; number++)
		assert_int_equal(layers_label(&f->place, number, text_from(text)), 0);
}

TEST(test_which_are_to_be_folded)
{
	struct layer_stack all = many(0), fewer = many(1);
	struct fixture *f = *state;
	const uint32_t last = LIMIT_LAYERS_FOLD - LIMIT_LAYERS_NEWEST - 1;
	size_t high = 9;

	put_many(f);
	label(f, 0, all.count - 1, "");
	assert_int_equal(layers_to_fold(&f->place, &all, &high), 0);
	assert_int_equal(high, 2); /* the first checkpoint, of layer 0, stays */
	label(f, 1, 2, "kept");
	assert_int_equal(layers_to_fold(&f->place, &all, &high), 0);
	assert_int_equal(high, 4);
	/* The newest stay. */
	label(f, 3, last - 3, "kept");
	assert_int_equal(layers_to_fold(&f->place, &all, &high), 0);
	assert_int_equal(high, last + 1);
	label(f, last, 1, "kept");
	assert_int_equal(layers_to_fold(&f->place, &all, &high), 0);
	assert_int_equal(high, 0);
	/* There are few. */
	label(f, 1, all.count - 2, "");
	assert_int_equal(layers_to_fold(&f->place, &fewer, &high), 0);
	assert_int_equal(high, 0);
	/* Those that lie closest to each other. */
	for (uint32_t i = 1; i < all.count; i++)
		all.numbers[i] += i < 4 ? 2 * i : 6;
	assert_int_equal(layers_to_fold(&f->place, &all, &high), 0);
	assert_int_equal(high, 5);
}

TEST(test_two_layers_become_one)
{
	struct layer_stack stack = many(0), folded = many(3);
	struct fixture *f = *state;
	uint32_t taken_out = 9;

	put_many(f);
	assert_int_equal(layers_fold(&f->place, &stack, &taken_out), 0);
	assert_int_equal(taken_out, 0);
	make(f, "folded-4-3-2");
	layers_tidy(&f->place, &stack);
	expect(f, &stack);
	assert_int_equal(layers_fold(&f->place, &stack, &taken_out), 0);
	assert_int_equal(taken_out, 3);
	assert_memory_equal(&stack, &folded, sizeof(stack));
	/* A death at any moment from here on leaves it in force. */
	assert_true(is_there(f, "4-2") && is_there(f, "4-3") && is_there(f, "3-2"));
	expect(f, &folded);
	layers_tidy(&f->place, &stack);
	assert_true(is_there(f, "4-2") && is_there(f, "5-4"));
	assert_false(is_there(f, "4-3") || is_there(f, "3-2") || is_there(f, "folded-4-3-2"));
	expect(f, &folded);
	assert_int_equal(f->dropped, 2);
	assert_false(f->unclear);
}

/* Without the layer that lay between, it cannot be told how another one came there. */
TEST(test_a_layer_in_the_place_of_another_is_understood_or_told)
{
	struct layer_stack folded = many(3), read;
	struct fixture *f = *state;

	put_many(f);
	make(f, "4-2");
	expect(f, &folded);
	make(f, "5-2");
	layer_stack_take_out(&folded, 4);
	expect(f, &folded);
	make(f, "5-3");
	expect(f, &folded);
	assert_int_equal(unlinkat(f->scratch.fd, "one/.layers-w/3-2", AT_REMOVEDIR), 0);
	assert_int_equal(layers_read(&f->place, &read), -EBADMSG);
	assert_int_equal(unlinkat(f->scratch.fd, "one/.layers-w/5-3", AT_REMOVEDIR), 0);
	expect(f, &folded); /* 4-3 does not lead to it any more */
	assert_int_equal(unlinkat(f->scratch.fd, "one/.layers-w/4-2", AT_REMOVEDIR), 0);
	assert_int_equal(layers_read(&f->place, &read), -EBADMSG);
}

TEST(test_what_takes_no_place_is_dropped)
{
	struct layer_stack all = many(0), fewer = many(1);
	const char *wrong[] = {"folded-16-15-14", "folded-4-3-1", "folded-4-2-1", "folded-30-3-2"};
	struct fixture *f = *state;
	uint32_t taken_out = 9;
	unsigned dropped;

	put_many(f);
	dropped = f->dropped;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		make(f, wrong[i]);
	make(f, "folded-4-3"); /* is no name */
	make(f, "folded-4-3-02");
	assert_int_equal(layers_fold(&f->place, &all, &taken_out), 0);
	assert_int_equal(taken_out, 0);
	layers_tidy(&f->place, &all);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(is_there(f, wrong[i]));
	assert_int_equal(f->dropped, dropped + 4);
	expect(f, &all);
	/* Few layers are left as they are. */
	make(f, "folded-9-8-7");
	assert_int_equal(layers_fold(&f->place, &fewer, &taken_out), 0);
	assert_int_equal(taken_out, 0);
	layers_tidy(&f->place, &fewer);
	assert_false(is_there(f, "folded-9-8-7"));
}

TEST(test_all_layers_are_removed_at_once)
{
	struct fixture *f = *state;

	assert_int_equal(layers_remove(&f->place), 0);
	put(f, &one);
	assert_int_equal(layers_remove(&f->place), 0);
	assert_int_equal(strncmp(f->last, "one/.dropped-", 13), 0);
	expect(f, &none);
}

/* The template stays below whatever is put on top, and goes with the layers. */
TEST(test_a_fork_says_what_is_below)
{
	static const struct layer_stack first = {2, {0, 1}, "repo"},
					second = {3, {0, 1, 2}, "repo"};
	struct fixture *f = *state;

	put(f, &one);
	assert_int_equal(layers_fork(&f->place, "repo"), 0); /* what an older one had is dropped */
	expect(f, &first);
	put(f, &second);
	layers_tidy(&f->place, &second);
	expect(f, &second);
	assert_int_equal(layers_remove(&f->place), 0);
	expect(f, &none);
}

/* A preview that was not kept is undone by its reader; the layer below takes changes. */
TEST(test_a_preview_is_undone_unless_it_was_kept)
{
	struct fixture *f = *state;

	/* The first layer of all: there is none again. */
	assert_int_equal(layers_make(&f->place, &one), 0);
	assert_int_equal(layers_preview(&f->place, 1), 0);
	assert_int_equal(layers_commit(&f->place, &one), 0);
	layers_tidy(&f->place, &one);
	assert_true(is_there(f, "preview-1"));
	expect(f, &none);
	assert_false(is_there(f, "at-1"));
	layers_tidy(&f->place, &none);
	assert_false(is_there(f, "preview-1") || is_there(f, "1-0"));
	/* One above others. */
	put(f, &one);
	assert_int_equal(layers_make(&f->place, &two), 0);
	assert_int_equal(layers_preview(&f->place, 2), 0);
	expect(f, &one); /* it is not in force yet */
	assert_int_equal(layers_commit(&f->place, &two), 0);
	expect(f, &one);
	assert_true(is_there(f, "at-1"));
	/* One that is kept. */
	assert_int_equal(layers_make(&f->place, &two), 0);
	assert_false(is_there(f, "preview-2"));
	assert_int_equal(layers_preview(&f->place, 2), 0);
	assert_int_equal(layers_commit(&f->place, &two), 0);
	assert_int_equal(layers_keep(&f->place, 2), 0);
	expect(f, &two);
	assert_int_equal(layers_keep(&f->place, 2), -ENOENT);
	/* One of an older layer means nothing. */
	make(f, "preview-1");
	expect(f, &two);
	layers_tidy(&f->place, &two);
	assert_false(is_there(f, "preview-1"));
	/* Discarded. */
	put(f, &after);
	assert_int_equal(layers_commit(&f->place, &none), 0);
	expect(f, &none);
}

TEST(test_a_fork_s_preview)
{
	static const struct layer_stack first = {2, {0, 1}, "repo"},
					second = {3, {0, 1, 2}, "repo"};
	struct fixture *f = *state;

	assert_int_equal(layers_fork(&f->place, "repo"), 0);
	assert_int_equal(layers_make(&f->place, &second), 0);
	assert_int_equal(layers_preview(&f->place, 2), 0);
	assert_int_equal(layers_commit(&f->place, &second), 0);
	expect(f, &first);
}
