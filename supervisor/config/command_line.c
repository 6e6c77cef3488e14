// SPDX-License-Identifier: Apache-2.0
#include "supervisor/config/command_line.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>

/* POSIX XBD 3, "metacharacter": ends a word unless it is quoted. */
#define METACHARACTERS " \t\n;&|()<>"

/* The end of a list of commands. */
enum end {
	END_OF_LINE,
	END_PARENTHESIS,
	END_BACKTICK,
};

struct heredoc {
	struct text delimiter; /* as written, with its quotes */
	bool strip_tabs;
};

struct reader {
	struct text line;
	size_t at;
	char *words; /* words of the commands being read, outermost first; see words_size() */
	size_t len;
	int depth;
	bool plain; /* what starts this line as a command is plain, command_line_fn */
	/* The here-documents whose bodies begin at the next newline. */
	struct heredoc heredocs[LIMIT_COMMAND_HEREDOCS];
	size_t heredoc_count;
	command_line_fn *fn;
	void *userdata;
};

/* The simple command being read, and the list that contains it. */
struct list {
	enum end end;
	size_t start; /* of the command's words in reader->words */
	size_t word;  /* start of the current word */
	bool in_word;
	bool operand; /* the current word, or the next one, belongs to a redirection */
	bool expands; /* the shell would expand something in the command */
	int groups;   /* number of open parentheses */
};

static int read_line(struct text line, int depth, bool plain, command_line_fn *fn, void *userdata);
static int read_list(struct reader *reader, enum end end);

const char *command_line_word(struct text *words)
{
	const char *word = words->data;
	size_t size = strlen(word) + 1;

	words->data += size;
	words->len -= size;
	return word;
}

/*
 * Every step of the reader consumes a byte and adds at most one byte and one NUL; at the end of the
 * line each open list adds one more NUL. The buffer is therefore always large enough.
 */
static size_t words_size(struct text line)
{
	return 2 * line.len + LIMIT_COMMAND_NESTING + 2;
}

/* Returns the byte at @offset from the reader's position; NUL past the end. */
static char peek(const struct reader *reader, size_t offset)
{
	return offset < reader->line.len - reader->at ? reader->line.data[reader->at + offset]
						      : '\0';
}

static void begin_word(struct reader *reader, struct list *list)
{
	if (!list->in_word)
		list->word = reader->len;
	list->in_word = true;
}

static void put_command_char(struct reader *reader, struct list *list, char c)
{
	begin_word(reader, list);
	if (c != '\0') /* a shell cannot get a NUL in its argument */
		reader->words[reader->len++] = c;
}

static void end_word(struct reader *reader, struct list *list)
{
	if (!list->in_word)
		return;
	list->in_word = false;
	if (list->operand)
		reader->len = list->word;
	else
		reader->words[reader->len++] = '\0';
	list->operand = false;
}

/* Keywords after which a command may follow; "time" is treated as a wrapper. */
static bool is_keyword(const char *word)
{
	static const char *const keywords[] = {
		"!", "{", "if", "then", "elif", "else", "while", "until", "do", "coproc"};

	for (size_t i = 0; i < ARRAY_SIZE(keywords); i++)
		if (keywords[i][0] == word[0] && strcmp(word, keywords[i]) == 0)
			return true;
	return false;
}

static bool is_assignment(const char *word)
{
	size_t len =
		strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

	if (len == 0 || (word[0] >= '0' && word[0] <= '9'))
		return false;
	return word[len] == '=' || (word[len] == '+' && word[len + 1] == '=');
}

/*
 * Returns the length of the directory before a system program's name, as in "/usr/bin/sudo". Other
 * paths are kept: ./format.sh is a script of the workspace.
 */
static size_t bin_directory_len(const char *word)
{
	const char *slash = strrchr(word, '/');
	const char *start, *end;
	struct text directory;

	if (word[0] != '/' || slash[1] == '\0')
		return 0;
	for (end = slash; end > word && end[-1] == '/'; end--)
		;
	for (start = end; start > word && start[-1] != '/'; start--)
		;
	directory = (struct text){start, (size_t)(end - start)};
	if (!text_equal(directory, TEXT_LITERAL("bin")) &&
		!text_equal(directory, TEXT_LITERAL("sbin")))
		return 0;
	return (size_t)(slash - word) + 1;
}

/* A program whose arguments are a command. */
struct wrapper {
	const char *name;
	const char *valued; /* short options that take a value */
	const char *marks;  /* short options that change its meaning */
	int operands;       /* number of operands before the command */
	enum {
		RUNS_WORDS, /* runs the rest of its words, unless it has one of these options */
		RUNS_MORE,  /* likewise, and adds words that it reads */
		RUNS_LINE,  /* runs the next word as a shell line, if it has one of these options */
		RUNS_ALL,   /* runs all of its words as a shell line */
	} kind;
};

static const struct wrapper *wrapper_by_name(const char *name)
{
	static const struct wrapper wrappers[] = {
		{"env", "uCS", "", 0, RUNS_WORDS},
		{"command", "", "vV", 0, RUNS_WORDS}, /* with -v it only looks the command up */
		{"builtin", "", "", 0, RUNS_WORDS},
		{"exec", "a", "", 0, RUNS_WORDS},
		{"nohup", "", "", 0, RUNS_WORDS},
		{"setsid", "", "", 0, RUNS_WORDS},
		{"time", "fo", "", 0, RUNS_WORDS},
		{"nice", "n", "", 0, RUNS_WORDS},
		{"ionice", "cnpPu", "", 0, RUNS_WORDS},
		{"stdbuf", "ioe", "", 0, RUNS_WORDS},
		{"timeout", "ks", "", 1, RUNS_WORDS},
		{"xargs", "adEILnPs", "", 0, RUNS_MORE},
		{"sh", "o", "c", 0, RUNS_LINE},
		{"ash", "o", "c", 0, RUNS_LINE},
		{"bash", "oO", "c", 0, RUNS_LINE},
		{"dash", "o", "c", 0, RUNS_LINE},
		{"ksh", "o", "c", 0, RUNS_LINE},
		{"zsh", "o", "c", 0, RUNS_LINE},
		{"eval", "", "", 0, RUNS_ALL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrappers); i++)
		if (wrappers[i].name[0] == name[0] && strcmp(wrappers[i].name, name) == 0)
			return &wrappers[i];
	return NULL;
}

/*
 * Removes @wrapper's options and operands from @words. Returns whether one of its special options
 * was there.
 */
static bool take_options(const struct wrapper *wrapper, struct text *words)
{
	bool marked = false;

	while (words->len > 0 && (words->data[0] == '-' || words->data[0] == '+')) {
		const char *option = command_line_word(words);

		if (strcmp(option, "--") == 0)
			break;
		if (option[1] == '-') /* a long option; its value, if any, follows "=" */
			continue;
		for (const char *c = option + 1; *c; c++) {
			marked |= strchr(wrapper->marks, *c) != NULL;
			if (!strchr(wrapper->valued, *c))
				continue;
			if (c[1] == '\0' && words->len > 0)
				command_line_word(words);
			break;
		}
	}
	for (int i = 0; i < wrapper->operands && words->len > 0; i++)
		command_line_word(words);
	return marked;
}

/* Reads @words joined to one line, as eval does. */
static int read_words(struct text words, int depth, bool plain, command_line_fn *fn, void *userdata)
{
	char *line;
	int r;

	if (words.len == 0)
		return 0;
	line = malloc(words.len);
	if (!line)
		return -ENOMEM;
	for (size_t i = 0; i < words.len; i++)
		line[i] = words.data[i] == '\0' ? ' ' : words.data[i];
	r = read_line((struct text){line, words.len}, depth, plain, fn, userdata);
	free(line);
	return r;
}

/* Removes what comes before the program's name. Clears @plain if that changes the environment. */
static void skip_prefix(struct text *words, bool *plain)
{
	while (words->len > 0 && (is_keyword(words->data) || is_assignment(words->data)))
		*plain &= !is_assignment(command_line_word(words));
	if (words->len > 0) {
		size_t len = bin_directory_len(words->data);

		words->data += len;
		words->len -= len;
	}
}

/* Reports the simple command @words, and the commands that it would start. */
static int report_command(struct reader *reader, struct text words, bool plain)
{
	for (int depth = reader->depth;; depth++) {
		const struct wrapper *wrapper;
		bool marked;
		int r;

		skip_prefix(&words, &plain);
		if (words.len == 0)
			return 0;
		if (depth > LIMIT_COMMAND_NESTING)
			return -ELOOP;
		r = reader->fn(words, plain, reader->userdata);
		wrapper = wrapper_by_name(words.data);
		if (r != 0 || !wrapper)
			return r;
		command_line_word(&words);
		if (wrapper->kind == RUNS_ALL)
			return read_words(words, depth + 1, plain, reader->fn, reader->userdata);
		marked = take_options(wrapper, &words);
		if (wrapper->kind == RUNS_LINE)
			return !marked || words.len == 0
				       ? 0
				       : read_line(text_from(words.data), depth + 1, plain,
						 reader->fn, reader->userdata);
		if (marked)
			return 0;
		plain &= wrapper->kind != RUNS_MORE;
	}
}

static int end_command(struct reader *reader, struct list *list)
{
	bool plain = reader->plain && !list->expands;
	struct text words;

	end_word(reader, list);
	list->operand = false;
	list->expands = false;
	words = (struct text){reader->words + list->start, reader->len - list->start};
	reader->len = list->start;
	return report_command(reader, words, plain);
}

/*
 * Reads a command substitution, the part of a word that the shell replaces by the output of
 * commands.
 */
static int read_substitution(struct reader *reader, struct list *list, enum end end)
{
	int r;

	put_command_char(reader, list, '$');
	list->expands = true;
	if (reader->depth >= LIMIT_COMMAND_NESTING)
		return -ELOOP;
	reader->depth++;
	r = read_list(reader, end);
	reader->depth--;
	return r;
}

/* Reads $((…)) after its first three characters: plain text, except for substitutions in it. */
static int read_arithmetic(struct reader *reader, struct list *list)
{
	int r = 0;

	put_command_char(reader, list, '$');
	for (int open = 2; r == 0 && open > 0 && reader->at < reader->line.len;) {
		char c = reader->line.data[reader->at++];

		if (c == '(') {
			open++;
		} else if (c == ')') {
			open--;
		} else if (c == '`') {
			r = read_substitution(reader, list, END_BACKTICK);
		} else if (c == '$' && peek(reader, 0) == '(' && peek(reader, 1) != '(') {
			reader->at++;
			r = read_substitution(reader, list, END_PARENTHESIS);
		}
	}
	return r;
}

/* Reads an expansion after its dollar sign. */
static int read_dollar(struct reader *reader, struct list *list)
{
	list->expands = true;
	if (peek(reader, 0) != '(') {
		put_command_char(reader, list, '$');
		return 0;
	}
	reader->at++;
	if (peek(reader, 0) != '(')
		return read_substitution(reader, list, END_PARENTHESIS);
	reader->at++;
	return read_arithmetic(reader, list);
}

static void read_single_quoted(struct reader *reader, struct list *list)
{
	begin_word(reader, list);
	while (reader->at < reader->line.len) {
		char c = reader->line.data[reader->at++];

		if (c == '\'')
			return;
		put_command_char(reader, list, c);
	}
}

static int read_double_quoted(struct reader *reader, struct list *list)
{
	int r = 0;

	begin_word(reader, list);
	while (r == 0 && reader->at < reader->line.len) {
		char c = reader->line.data[reader->at++];

		if (c == '"')
			return 0;
		if (c == '$') {
			r = read_dollar(reader, list);
		} else if (c == '`') {
			r = read_substitution(reader, list, END_BACKTICK);
		} else if (c == '\\' && peek(reader, 0) == '\n') {
			reader->at++;
		} else if (c == '\\' && peek(reader, 0) != '\0' &&
			   strchr("$`\"\\", peek(reader, 0))) {
			put_command_char(reader, list, reader->line.data[reader->at++]);
		} else {
			put_command_char(reader, list, c);
		}
	}
	return r;
}

static void read_escaped(struct reader *reader, struct list *list)
{
	if (reader->at == reader->line.len)
		return;
	if (peek(reader, 0) != '\n')
		put_command_char(reader, list, peek(reader, 0));
	reader->at++;
}

static void read_comment(struct reader *reader)
{
	while (reader->at < reader->line.len && peek(reader, 0) != '\n')
		reader->at++;
}

/* Reads the delimiter after the operator <<. The body follows the next newline. */
static void read_heredoc(struct reader *reader)
{
	struct heredoc heredoc = {.strip_tabs = peek(reader, 0) == '-'};
	size_t start;
	char quote = '\0';

	if (heredoc.strip_tabs)
		reader->at++;
	while (peek(reader, 0) == ' ' || peek(reader, 0) == '\t')
		reader->at++;
	for (start = reader->at; reader->at < reader->line.len; reader->at++) {
		char c = peek(reader, 0);

		if (quote != '\0')
			quote = c == quote ? '\0' : quote;
		else if (c == '\'' || c == '"')
			quote = c;
		else if (c == '\\' && reader->at + 1 < reader->line.len)
			reader->at++;
		else if (c != '\0' && strchr(METACHARACTERS, c))
			break;
	}
	heredoc.delimiter = (struct text){reader->line.data + start, reader->at - start};
	if (heredoc.delimiter.len > 0 && heredoc.delimiter.len <= LIMIT_NAME_BYTES &&
		reader->heredoc_count < LIMIT_COMMAND_HEREDOCS)
		reader->heredocs[reader->heredoc_count++] = heredoc;
}

/* Whether @line equals @delimiter without its quotes. */
static bool is_delimiter(struct text delimiter, struct text line)
{
	size_t at = 0;

	for (size_t i = 0; i < delimiter.len; i++) {
		if (strchr("'\"\\", delimiter.data[i]))
			continue;
		if (at == line.len || line.data[at++] != delimiter.data[i])
			return false;
	}
	return at == line.len;
}

/* Skips the here-documents that begin after this newline. */
static void skip_heredocs(struct reader *reader)
{
	for (size_t i = 0; i < reader->heredoc_count && reader->at < reader->line.len;) {
		struct text rest = {reader->line.data + reader->at, reader->line.len - reader->at};
		const char *newline = memchr(rest.data, '\n', rest.len);
		struct text line = {rest.data, newline ? (size_t)(newline - rest.data) : rest.len};

		reader->at += line.len + (newline != NULL);
		while (reader->heredocs[i].strip_tabs && line.len > 0 && line.data[0] == '\t') {
			line.data++;
			line.len--;
		}
		if (is_delimiter(reader->heredocs[i].delimiter, line))
			i++;
	}
	reader->heredoc_count = 0;
}

/* Reads a redirection, or a process substitution, after its first character @c. */
static int read_redirection(struct reader *reader, struct list *list, char c)
{
	size_t digits = 0;

	if (list->in_word) {
		while (list->word + digits < reader->len &&
			strchr("0123456789", reader->words[list->word + digits]))
			digits++;
		if (list->word + digits == reader->len) { /* 2>file */
			reader->len = list->word;
			list->in_word = false;
		}
		end_word(reader, list);
	}
	if (peek(reader, 0) == '(') {
		reader->at++;
		return read_substitution(reader, list, END_PARENTHESIS);
	}
	if (c == '<' && peek(reader, 0) == '<' && peek(reader, 1) != '<') {
		reader->at++;
		read_heredoc(reader);
		return 0;
	}
	while (peek(reader, 0) != '\0' && strchr("<>&|", peek(reader, 0)))
		reader->at++;
	list->operand = true;
	return 0;
}

/* Reads one of METACHARACTERS, each of which ends the word before it. */
static int read_operator(struct reader *reader, struct list *list, char c, bool *ret_done)
{
	int r;

	if (c == ' ' || c == '\t') {
		end_word(reader, list);
		return 0;
	}
	if (c == '<' || c == '>')
		return read_redirection(reader, list, c);
	if (c == ')' && list->groups == 0 && list->end != END_PARENTHESIS) {
		/* No parenthesis is open: it ends a pattern of "case". */
		end_word(reader, list);
		list->expands = false;
		reader->len = list->start;
		return 0;
	}
	r = end_command(reader, list);
	if (c == '\n')
		skip_heredocs(reader);
	else if (c == '(')
		list->groups++;
	else if (c == ')' && list->groups > 0)
		list->groups--;
	else if (c == ')')
		*ret_done = true;
	return r;
}

/* Continues with the character @c. Sets @ret_done if it ends the list. */
static int read_character(struct reader *reader, struct list *list, char c, bool *ret_done)
{
	if (c != '\0' && strchr(METACHARACTERS, c))
		return read_operator(reader, list, c, ret_done);
	switch (c) {
	case '$':
		return read_dollar(reader, list);
	case '"':
		return read_double_quoted(reader, list);
	case '`':
		if (list->end != END_BACKTICK)
			return read_substitution(reader, list, END_BACKTICK);
		*ret_done = true;
		break;
	case '\'':
		read_single_quoted(reader, list);
		break;
	case '\\':
		read_escaped(reader, list);
		break;
	case '#':
		if (!list->in_word) {
			read_comment(reader);
			break;
		}
		__attribute__((fallthrough));
	default:
		list->expands |= c != '\0' && strchr("*?[{", c);
		put_command_char(reader, list, c);
	}
	return 0;
}

/* Reads commands up to and including the end of the list. */
static int read_list(struct reader *reader, enum end end)
{
	struct list list = {.end = end, .start = reader->len};
	bool done = false;
	int r = 0;

	while (r == 0 && !done && reader->at < reader->line.len)
		r = read_character(reader, &list, reader->line.data[reader->at++], &done);
	return r == 0 ? end_command(reader, &list) : r;
}

static int read_line(struct text line, int depth, bool plain, command_line_fn *fn, void *userdata)
{
	struct reader reader = {
		.line = line, .depth = depth, .plain = plain, .fn = fn, .userdata = userdata};
	int r;

	if (depth > LIMIT_COMMAND_NESTING)
		return -ELOOP;
	reader.words = malloc(words_size(line));
	if (!reader.words)
		return -ENOMEM;
	r = read_list(&reader, END_OF_LINE);
	free(reader.words);
	return r;
}

int command_line_each(struct text line, command_line_fn *fn, void *userdata)
{
	return read_line(line, 0, true, fn, userdata);
}
