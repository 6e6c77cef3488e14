/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * The reader of shell lines and the list of blocked commands that uses it. Each reported command is
 * well formed; a line gets the same decision alone and after another line; and a policy that blocks
 * a command alone also blocks it among other commands.
 *
 * Input: the visible root up to a newline, then the line.
 */
#include "common/limits.h"
#include "supervisor/config/command_line.h"
#include "supervisor/config/command_policy.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#define BEFORE "true\n"

static struct command_policy *policy;

static size_t count_words(struct text words)
{
	size_t n = 0;

	for (; words.len > 0; n++) {
		const char *word = command_line_word(&words);

		CHECK(word);
	}
	return n;
}

static int note(struct text words, bool plain, void *userdata)
{
	size_t *n = userdata;

	(void)plain;
	CHECK(words.len > 0 && words.data[words.len - 1] == '\0');
	CHECK(count_words(words) > 0);
	++*n;
	return 0;
}

/* A copy of @before and @line, freed by the caller. */
static struct text after(const char *before, struct text line)
{
	struct text whole = {NULL, strlen(before) + line.len};
	char *copy = malloc(whole.len + 1);

	CHECK(copy);
	memcpy(copy, before, strlen(before));
	if (line.len > 0)
		memcpy(copy + strlen(before), line.data, line.len);
	whole.data = copy;
	return whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text line = fuzz_text(data, size), root = text_take(&line, '\n'), alone, second;
	size_t n = 0, n_second = 0;
	const char *blocked, *blocked_second;
	char *message;
	int r;

	if (!policy)
		CHECK(command_policy_new(command_policy_default_patterns,
			      command_policy_default_count, &policy, &message) == 0);
	if (root.len == 0 || root.data[0] != '/' || text_has_nul(root) || text_has_nul(line) ||
		line.len > LIMIT_COMMAND_BYTES - sizeof(BEFORE))
		return -1;
	alone = after("", line);
	second = after(BEFORE, line);
	alone.data = realloc((void *)alone.data, alone.len ? alone.len : 1);
	second.data = realloc((void *)second.data, second.len);
	r = command_line_each(alone, note, &n);
	CHECK(r == 0 || r == -ELOOP);
	CHECK(command_line_each(second, note, &n_second) == r);
	CHECK(n_second == n + 1);
	blocked = command_policy_match(policy, alone, root);
	blocked_second = command_policy_match(policy, second, root);
	CHECK(blocked == blocked_second);
	free((void *)alone.data);
	free((void *)second.data);
	return 0;
}
