// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8

#include "supervisor/config/command_policy.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/config/command_line.h"

#include <errno.h>
#include <pcre2.h>
#include <stdbool.h>
#include <stdio.h>

const char *const command_policy_default_patterns[] = {
	"^sudo\\b",
	"\\brm\\s+-rf\\s+[/~]",
	"^shutdown\\b",
	"^reboot\\b",
	"^format\\b",
	"^mkfs\\b",
	"^dd\\s+",
	"^chmod\\s+777",
	"^curl\\b",
	"^wget\\b",
	"^nc\\b",
	"^netcat\\b",
	"^python.*-m\\s+http",
	"^node.*--inspect",
};
const size_t command_policy_default_count = ARRAY_SIZE(command_policy_default_patterns);

struct pattern {
	char *source;
	pcre2_code *code;
};

struct command_policy {
	pcre2_match_context *match_context;
	pcre2_match_data *match_data;
	size_t count;
	struct pattern patterns[];
};

void command_policy_free(struct command_policy *policy)
{
	if (!policy)
		return;
	for (size_t i = 0; i < policy->count; i++) {
		free(policy->patterns[i].source);
		pcre2_code_free(policy->patterns[i].code);
	}
	pcre2_match_data_free(policy->match_data);
	pcre2_match_context_free(policy->match_context);
	free(policy);
}

static int compile(struct pattern *pattern, const char *source, char **ret_message)
{
	PCRE2_UCHAR reason[256];
	PCRE2_SIZE offset;
	int error;

	pattern->source = strdup(source);
	if (!pattern->source)
		return -ENOMEM;
	pattern->code = pcre2_compile(
		(PCRE2_SPTR)source, PCRE2_ZERO_TERMINATED, PCRE2_NEVER_UTF, &error, &offset, NULL);
	if (pattern->code)
		return 0;
	pcre2_get_error_message(error, reason, sizeof(reason));
	if (asprintf(ret_message, "blocked command pattern \"%s\": %s at character %zu", source,
		    (const char *)reason, (size_t)offset + 1) < 0)
		*ret_message = NULL;
	return -EINVAL;
}

static int fill(struct command_policy *policy, const char *const *patterns, char **ret_message)
{
	policy->match_context = pcre2_match_context_create(NULL);
	policy->match_data = pcre2_match_data_create(1, NULL);
	if (!policy->match_context || !policy->match_data)
		return -ENOMEM;
	pcre2_set_match_limit(policy->match_context, LIMIT_BLOCKED_MATCH_STEPS);
	for (size_t i = 0; i < policy->count; i++) {
		int r = compile(&policy->patterns[i], patterns[i], ret_message);

		if (r < 0)
			return r;
	}
	return 0;
}

int command_policy_new(const char *const *patterns, size_t count,
	struct command_policy **ret_policy, char **ret_message)
{
	struct command_policy *policy =
		calloc(1, sizeof(*policy) + count * sizeof(policy->patterns[0]));
	int r;

	if (!policy)
		return -ENOMEM;
	policy->count = count;
	r = fill(policy, patterns, ret_message);
	if (r < 0) {
		command_policy_free(policy);
		return r;
	}
	*ret_policy = policy;
	return 0;
}

/* Takes the next component from @path, empty at the end. Skips "/" and ".". */
static struct text take_component(struct text *path)
{
	struct text component;

	do {
		while (path->len > 0 && path->data[0] == '/') {
			path->data++;
			path->len--;
		}
		component = (struct text){path->data, 0};
		while (path->len > 0 && path->data[0] != '/') {
			path->data++;
			path->len--;
			component.len++;
		}
	} while (text_equal(component, TEXT_LITERAL(".")));
	return component;
}

/*
 * Whether the shell might expand this name, which may be empty, to its directory or to everything
 * in it.
 */
static bool could_mean_all(const char *name, size_t len)
{
	return strspn(name, "*?.") >= len || strcspn(name, "[{$") < len;
}

/*
 * Returns the part of the absolute path @operand below @directory, empty for the directory itself,
 * or NULL if the path is not, or might not be, there. Of "/" itself nothing is given.
 */
static const char *below_root(const char *operand, struct text root)
{
	struct text path = text_from(operand);
	struct text component, expected;

	if (operand[0] != '/' || root.len == 0 || strstr(operand, ".."))
		return NULL;
	do {
		expected = take_component(&root);
		component = take_component(&path);
	} while (expected.len > 0 && text_equal(component, expected));
	if (expected.len > 0 || could_mean_all(component.data, component.len))
		return NULL;
	return component.data;
}

/* The text that the patterns are matched with. It has room for everything that is added. */
struct shown {
	char *data;
	size_t len;
};

static void show(struct shown *shown, const char *string)
{
	for (; *string; string++)
		shown->data[shown->len++] = strchr(" \t\n\v\f\r", *string) ? '_' : *string;
}

static void show_word(struct shown *shown, const char *word)
{
	if (shown->len > 0)
		shown->data[shown->len++] = ' ';
	show(shown, word);
}

/* Takes the next operand from the words of an rm, skipping options. Returns NULL at the end. */
static const char *take_operand(struct text *words, bool *options_end)
{
	while (words->len > 0) {
		const char *word = command_line_word(words);

		if (*options_end || word[0] != '-' || word[1] == '\0')
			return word;
		*options_end = strcmp(word, "--") == 0;
	}
	return NULL;
}

static bool is_recursive_forced_rm(struct text words)
{
	bool recursive = false, force = false;

	if (strcmp(command_line_word(&words), "rm") != 0)
		return false;
	while (words.len > 0) {
		const char *word = command_line_word(&words);

		if (strcmp(word, "--") == 0)
			break;
		if (word[0] != '-')
			continue;
		recursive |=
			strcmp(word, "--recursive") == 0 || (word[1] != '-' && strpbrk(word, "rR"));
		force |= strcmp(word, "--force") == 0 || (word[1] != '-' && strchr(word, 'f'));
	}
	return recursive && force;
}

/* Puts operands that are not its own first, where a pattern that checks one operand finds them. */
static void show_rm(struct shown *shown, struct text words, struct text visible_root)
{
	show_word(shown, command_line_word(&words));
	show_word(shown, "-rf");
	for (int inside = 0; inside <= 1; inside++) {
		struct text rest = words;
		bool options_end = false;
		const char *operand;

		while ((operand = take_operand(&rest, &options_end))) {
			const char *below = below_root(operand, visible_root);
			bool outside = !below && strchr("/~", operand[0]) && operand[0] != '\0';

			if (outside == (inside == 1))
				continue;
			show_word(shown, below ? "./" : operand);
			if (below)
				show(shown, below);
		}
	}
}

struct match {
	const struct command_policy *policy;
	struct text visible_root;
	char *shown; /* room for any of the line's commands */
	const char *pattern;
};

/* A command_line_fn that ends the reading with 1 at the first match. */
static int match_command(struct text words, void *userdata)
{
	struct match *match = userdata;
	struct shown shown = {.data = match->shown};

	if (is_recursive_forced_rm(words))
		show_rm(&shown, words, match->visible_root);
	else
		while (words.len > 0)
			show_word(&shown, command_line_word(&words));
	for (size_t i = 0; i < match->policy->count; i++) {
		const struct pattern *pattern = &match->policy->patterns[i];
		int r = pcre2_match(pattern->code, (PCRE2_SPTR)shown.data, shown.len, 0, 0,
			match->policy->match_data, match->policy->match_context);

		if (r != PCRE2_ERROR_NOMATCH) { /* it matched, or could not be decided */
			match->pattern = pattern->source;
			return 1;
		}
	}
	return 0;
}

const char *command_policy_match(
	const struct command_policy *policy, struct text command, struct text visible_root)
{
	/* One byte more for each word than the line has: "/x" can become "./x". */
	_cleanup_free_ char *shown = malloc(2 * command.len + sizeof("rm -rf "));
	struct match match = {policy, visible_root, shown, NULL};
	int r;

	if (!shown)
		return "(out of memory)";
	r = command_line_each(command, match_command, &match);
	if (r == -ELOOP)
		return "(nested too deeply)";
	return r < 0 ? "(out of memory)" : match.pattern;
}
