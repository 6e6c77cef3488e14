// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8

#include "supervisor/config/command_policy.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/config/command_line.h"
#include "supervisor/config/loopback_request.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <pcre2.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define MATCH_BYTES ((size_t)64) /* a match of nothing takes as long as this many */
#define CLOCK_BYTES (16 * KIB)   /* between two looks at the clock */

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

/* Whether the interpreter runs Python's http.server: its own option -m, not one of the script. */
static bool is_http_server(struct text words)
{
	const char *word = command_line_word(&words);

	while (words.len > 0) {
		word = command_line_word(&words);
		if (word[0] == '$') /* what it stands for may be an option */
			continue;
		if (word[0] != '-' || strcmp(word, "-c") == 0)
			return false;
		if (words.len > 0 && strcmp(word, "-m") == 0)
			return strncmp(words.data, "http", 4) == 0;
		if (words.len > 0 && (strcmp(word, "-W") == 0 || strcmp(word, "-X") == 0))
			command_line_word(&words);
	}
	return false;
}

/* Whether a word is --inspect, perhaps with a value, or one of its kin. */
static bool is_inspected(struct text words)
{
	static const char *const kin[] = {"", "-brk", "-port", "-publish", "-wait"};

	while (words.len > 0) {
		const char *word = command_line_word(&words);

		if (strncmp(word, "--inspect", 9) != 0)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(kin); i++) {
			const char *rest = word + 9 + strlen(kin[i]);

			if (strncmp(word + 9, kin[i], strlen(kin[i])) == 0 &&
				(*rest == '\0' || *rest == '='))
				return true;
		}
	}
	return false;
}

/*
 * For each of them, in the same order: what its refusal says, and what it leaves alone. A pattern
 * that names a program means that one, and not "reboot-test".
 */
static const struct rule {
	const char *why;
	const char *program; /* that the pattern means, also with a suffix ".x"; NULL: any */
	bool (*means)(struct text words);    /* whether the pattern means them; NULL: always */
	bool (*harmless)(struct text words); /* for plain words, command_line_fn; or NULL */
} default_rules[] = {
	{.program = "sudo",
		.why = "sudo is blocked: every command here runs as the same user; run it without "
		       "sudo"},
	{.why = "rm -rf outside the workspace is blocked; name paths in it or in /tmp"},
	{.program = "shutdown",
		.why = "shutdown is blocked: it stops the machine; end single processes with kill"},
	{.program = "reboot",
		.why = "reboot is blocked: it stops the machine; start single processes again"},
	{.program = "format",
		.why = "format is blocked: it can erase a disk; name a script by its path, "
		       "./format"},
	{.program = "mkfs",
		.why = "mkfs is blocked: it can erase a disk; ask the user to make file systems"},
	{.why = "dd is blocked: it can overwrite a disk; use cp, head -c or truncate"},
	{.why = "chmod 777 is blocked: it lets every user write; use chmod u+rwx or 755"},
	{.program = "curl",
		.why = "curl is blocked: there is no network; only a server on localhost may be "
		       "asked, with plain arguments: curl -s 'http://localhost:8080/'",
		.harmless = is_loopback_request},
	{.program = "wget",
		.why = "wget is blocked: there is no network; only a server on localhost may be "
		       "asked, with plain arguments: wget -qO- 'http://localhost:8080/'",
		.harmless = is_loopback_request},
	{.program = "nc",
		.why = "nc is blocked: there is no network; only a port of localhost may be tried, "
		       "with plain arguments: nc -z localhost 8080",
		.harmless = is_loopback_request},
	{.program = "netcat",
		.why = "netcat is blocked: there is no network; only a port of localhost may be "
		       "tried, with plain arguments: netcat -z localhost 8080",
		.harmless = is_loopback_request},
	{.means = is_http_server,
		.why = "Python's http.server is blocked: it gives all files to whoever reaches its "
		       "port; read them here, or ask the user to serve them"},
	{.means = is_inspected,
		.why = "node --inspect is blocked: its port lets others control the process; print "
		       "what you want to see"},
};
static_assert(ARRAY_SIZE(default_rules) == ARRAY_SIZE(command_policy_default_patterns),
	"each pattern has a rule");

/* Programs that are blocked because they have nothing to reach where there is no network. */
static bool is_of_network(const char *pattern)
{
	static const char *const of_network[] = {"^curl\\b", "^wget\\b", "^nc\\b", "^netcat\\b"};

	for (size_t i = 0; i < ARRAY_SIZE(of_network); i++)
		if (strcmp(pattern, of_network[i]) == 0)
			return true;
	return false;
}

size_t command_policy_defaults(bool network, const char **ret_patterns)
{
	size_t n = 0;

	for (size_t i = 0; i < command_policy_default_count; i++)
		if (!network || !is_of_network(command_policy_default_patterns[i]))
			ret_patterns[n++] = command_policy_default_patterns[i];
	return n;
}

struct pattern {
	pcre2_code *code;
	/* by a command's first byte: whether it can match at all */
	bool starts[UINT8_MAX + 1];
	int first; /* the byte that every match begins with, wherever that is; -1: not known */
	const struct rule *rule; /* of a default pattern, or NULL */
	char *why;               /* without a rule: what its refusal says */
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
		free(policy->patterns[i].why);
		pcre2_code_free(policy->patterns[i].code);
	}
	pcre2_match_data_free(policy->match_data);
	pcre2_match_context_free(policy->match_context);
	free(policy);
}

static const struct rule *default_rule(const char *source)
{
	for (size_t i = 0; i < ARRAY_SIZE(default_rules); i++)
		if (strcmp(command_policy_default_patterns[i], source) == 0)
			return &default_rules[i];
	return NULL;
}

/*
 * Finds out with which bytes a match of an anchored pattern can begin: a partial match tells that
 * more bytes would have been looked at, pcre2partial(3). Most commands of a line are so told from
 * most patterns without matching.
 */
static void find_starts(struct pattern *pattern, pcre2_match_data *match_data)
{
	uint32_t options = 0, type = 0, first = 0;

	(void)pcre2_pattern_info(pattern->code, PCRE2_INFO_ALLOPTIONS, &options);
	(void)pcre2_pattern_info(pattern->code, PCRE2_INFO_FIRSTCODETYPE, &type);
	(void)pcre2_pattern_info(pattern->code, PCRE2_INFO_FIRSTCODEUNIT, &first);
	pattern->first = type == 1 ? (int)first : -1;
	for (unsigned byte = 0; byte <= UINT8_MAX; byte++) {
		const PCRE2_UCHAR8 start = (PCRE2_UCHAR8)byte;

		pattern->starts[byte] = !(options & PCRE2_ANCHORED) ||
					pcre2_match(pattern->code, &start, 1, 0, PCRE2_PARTIAL_HARD,
						match_data, NULL) != PCRE2_ERROR_NOMATCH;
	}
}

/* PCRE2 does not tell whether the first byte may be of either case. */
static bool has_first(const struct pattern *pattern, struct text command)
{
	return pattern->first < 0 || memchr(command.data, tolower(pattern->first), command.len) ||
	       memchr(command.data, toupper(pattern->first), command.len);
}

static bool can_match(const struct pattern *pattern, struct text command)
{
	return pattern->starts[(unsigned char)command.data[0]] && has_first(pattern, command);
}

/* @number counts the administrator's own patterns, so that the message says which it was. */
static int compile_blocked_pattern(
	struct pattern *pattern, const char *source, size_t *number, char **ret_message)
{
	PCRE2_UCHAR reason[256];
	PCRE2_SIZE offset;
	int error;

	pattern->rule = default_rule(source);
	if (!pattern->rule && asprintf(&pattern->why,
				      "the administrator has blocked such commands (number %zu of "
				      "the tenant's own blocked_commands); do it another way or "
				      "ask the user",
				      ++*number) < 0) {
		pattern->why = NULL;
		return -ENOMEM;
	}
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

static int fill_command_policy(
	struct command_policy *policy, const char *const *patterns, char **ret_message)
{
	size_t own = 0;

	policy->match_context = pcre2_match_context_create(NULL);
	policy->match_data = pcre2_match_data_create(1, NULL);
	if (!policy->match_context || !policy->match_data)
		return -ENOMEM;
	pcre2_set_match_limit(policy->match_context, LIMIT_BLOCKED_MATCH_STEPS);
	for (size_t i = 0; i < policy->count; i++) {
		int r = compile_blocked_pattern(
			&policy->patterns[i], patterns[i], &own, ret_message);

		if (r < 0)
			return r;
		find_starts(&policy->patterns[i], policy->match_data);
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
	r = fill_command_policy(policy, patterns, ret_message);
	if (r < 0) {
		command_policy_free(policy);
		return r;
	}
	*ret_policy = policy;
	return 0;
}

int command_policy_new_default(bool network, struct command_policy **ret, char **ret_message)
{
	const char *patterns[ARRAY_SIZE(command_policy_default_patterns)];

	return command_policy_new(
		patterns, command_policy_defaults(network, patterns), ret, ret_message);
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
	return strspn(name, "*?.") >= len;
}

/* Whether the shell might expand @path to one that leads out of its directory, as .* does to .. */
static bool could_climb(const char *path)
{
	return strpbrk(path, "$`[{") ||
	       (strpbrk(path, "*?") && (path[0] == '.' || strstr(path, "/.")));
}

/*
 * Returns the part of the absolute path @operand below @directory, empty for the directory itself,
 * or NULL if the path is not, or might not be, there. Of "/" itself nothing is given.
 */
static const char *operand_below(const char *operand, struct text directory)
{
	struct text path = text_from(operand);
	struct text component, expected;
	bool is_root = true;

	if (operand[0] != '/' || directory.len == 0 || strstr(operand, ".."))
		return NULL;
	for (;;) {
		expected = take_component(&directory);
		component = take_component(&path);
		if (expected.len == 0 || !text_equal(component, expected))
			break;
		is_root = false;
	}
	if (expected.len > 0 || could_climb(component.data) ||
		(is_root && could_mean_all(component.data, component.len)))
		return NULL;
	return component.data;
}

/* The part of an rm's @operand below what commands may clear: the workspace, or their own /tmp. */
static const char *below_own(const char *operand, struct text visible_root)
{
	const char *rest = operand_below(operand, visible_root);

	return rest ? rest : operand_below(operand, TEXT_LITERAL("/tmp"));
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
		struct text left = words;
		bool options_end = false;
		const char *operand;

		while ((operand = take_operand(&left, &options_end))) {
			const char *rest = below_own(operand, visible_root);
			bool outside = !rest && strchr("/~", operand[0]) && operand[0] != '\0';

			if (outside == (inside == 1))
				continue;
			show_word(shown, rest ? "./" : operand);
			if (rest)
				show(shown, rest);
		}
	}
}

/* Whether a program is asked for nothing but its help or its version. */
static bool asks_for_help(struct text words)
{
	const char *argument;

	command_line_word(&words);
	if (words.len == 0)
		return false;
	argument = command_line_word(&words);
	return words.len == 0 &&
	       (strcmp(argument, "--help") == 0 || strcmp(argument, "--version") == 0);
}

/* Whether the pattern, which matches, means another command than @words. */
static bool is_another(const struct rule *rule, struct text words)
{
	struct text left = words;
	size_t len;
	const char *program;

	if (!rule || words.len == 0)
		return false;
	if (rule->means)
		return !rule->means(words);
	if (!rule->program)
		return false;
	program = command_line_word(&left);
	len = strlen(rule->program);
	return strncmp(program, rule->program, len) == 0 && program[len] != '\0' &&
	       program[len] != '.';
}

/* Whether the pattern leaves @words alone although it means them. */
static bool is_harmless(const struct rule *rule, struct text words)
{
	return rule && (asks_for_help(words) || (rule->harmless && rule->harmless(words)));
}

struct match {
	const struct command_policy *policy;
	struct text visible_root;
	char *shown;  /* room for any of the line's commands */
	bool exempts; /* nothing in the line speaks against harmless requests */
	size_t bytes; /* matched since the clock was read */
	uint64_t began;
	const char *why;
};

/* The processor time of the thread: what else runs on the host changes no decision. */
static uint64_t used_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

/* Whether the line has taken too long, after @bytes of it were looked at. */
static bool takes_too_long(struct match *match, size_t bytes, uint64_t limit_ms)
{
	match->bytes += bytes + MATCH_BYTES;
	if (match->bytes < CLOCK_BYTES)
		return false;
	match->bytes = 0;
	if (used_ms() < match->began + limit_ms)
		return false;
	match->why = "to check so many commands takes too long; write them to a file and run that, "
		     "or run fewer at once";
	return true;
}

/* A command_line_fn that ends the reading with 1 at the first match. */
static int match_command(struct text words, bool plain, void *userdata)
{
	struct match *match = userdata;
	struct shown shown = {.data = match->shown};
	struct text left = words;

	if (is_recursive_forced_rm(words))
		show_rm(&shown, words, match->visible_root);
	else
		while (left.len > 0)
			show_word(&shown, command_line_word(&left));
	if (takes_too_long(match, shown.len, LIMIT_BLOCKED_NEXT_MS))
		return 1;
	for (size_t i = 0; i < match->policy->count; i++) {
		const struct pattern *pattern = &match->policy->patterns[i];
		int r;

		if (shown.len > 0 && !can_match(pattern, (struct text){shown.data, shown.len}))
			continue;
		r = pcre2_match(pattern->code, (PCRE2_SPTR)shown.data, shown.len, 0, 0,
			match->policy->match_data, match->policy->match_context);
		if (r != PCRE2_ERROR_NOMATCH && !is_another(pattern->rule, words) &&
			!(plain && match->exempts && is_harmless(pattern->rule, words))) {
			/* it matched, or could not be decided */
			match->why = pattern->rule ? pattern->rule->why : pattern->why;
			return 1;
		}
		if (takes_too_long(match, shown.len, LIMIT_BLOCKED_LINE_MS))
			return 1;
	}
	return 0;
}

const char *command_policy_match(
	const struct command_policy *policy, struct text command, struct text visible_root)
{
	/* One byte more for each word than the line has: "/x" can become "./x". */
	_cleanup_free_ char *shown = malloc(2 * command.len + sizeof("rm -rf "));
	struct match match = {.policy = policy,
		.visible_root = visible_root,
		.shown = shown,
		.exempts = !loopback_is_redirected(command),
		.began = used_ms()};
	int r;

	if (!shown)
		return "cloisterd has no memory left to check it; try again later";
	r = command_line_each(command, match_command, &match);
	if (r == -ELOOP)
		return "its parts are nested too deeply to be checked; run them one by one";
	return r < 0 ? "cloisterd has no memory left to check it; try again later" : match.why;
}
