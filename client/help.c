// SPDX-License-Identifier: Apache-2.0
/* Runs in the clients, on the caller's own command line. */
#include "client/help.h"

#include "client/complain.h"
#include "common/cleanup.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#define WORD_MAX    32  /* a longer word resembles no name */
#define OPTIONS_MAX 32  /* in one command line */
#define LONG_BASE   256 /* makes getopt_long(3) tell short and long options apart in optopt */

/*
 * Returns how many letters must be inserted, removed, replaced or swapped with their neighbour to
 * turn @a into @b: the optimal string alignment distance. Both have at most WORD_MAX letters.
 */
static size_t distance(const char *a, const char *b)
{
	size_t rows[WORD_MAX + 1][WORD_MAX + 1];
	size_t a_len = strlen(a), b_len = strlen(b);

	for (size_t j = 0; j <= b_len; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		rows[i][0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			best = MIN(best, MIN(rows[i - 1][j], rows[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MIN(best, rows[i - 2][j - 2] + 1);
			rows[i][j] = best;
		}
	}
	return rows[a_len][b_len];
}

struct nearest {
	const char *word, *name; /* the nearest name so far, or NULL */
	size_t distance;
};

/* Names count as near if at most one letter of three differs. */
static void consider(struct nearest *nearest, const char *name)
{
	size_t len = strlen(nearest->word), far;

	if (len > WORD_MAX || strlen(name) > WORD_MAX)
		return;
	far = distance(nearest->word, name);
	if (far > (len + 2) / 3 || far >= len || (nearest->name && far >= nearest->distance))
		return;
	nearest->name = name;
	nearest->distance = far;
}

static void complain_of_name(const char *kind, const struct nearest *nearest)
{
	if (nearest->name)
		complain_code("USAGE", "there is no %s '%s'; did you mean '%s'?", kind,
			nearest->word, nearest->name);
	else
		complain_code("USAGE", "there is no %s '%s'", kind, nearest->word);
}

void no_command_complain(const struct program *program, const char *name)
{
	struct nearest nearest = {.word = name};
	const struct command_help *command;

	for (size_t i = 0; (command = program->command(i)); i++)
		consider(&nearest, command->name);
	complain_of_name("command", &nearest);
}

void no_name_complain(const char *kind, const char *name, const char *(*name_at)(size_t index))
{
	struct nearest nearest = {.word = name};
	const char *known;

	for (size_t i = 0; (known = name_at(i)); i++)
		consider(&nearest, known);
	complain_of_name(kind, &nearest);
}

void help_refer(const struct program *program, const struct command_help *command)
{
	if (!complains_json())
		fprintf(stderr, "see `%s help%s%s`\n", program->name, command ? " " : "",
			command ? command->name : "");
}

void operands_complain(const struct program *program, const struct command_help *command)
{
	complain_code("USAGE", "%s takes %s%s", command->name,
		command->operands ? "these operands: " : "no operands",
		command->operands ? command->operands : "");
	help_refer(program, command);
}

static void print_options(const struct option_row *options)
{
	char word[64];

	for (; options && options->name; options++) {
		snprintf(word, sizeof(word), "--%s%s%s", options->name,
			options->argument ? "=" : "", options->argument ? options->argument : "");
		printf("  %-24s %s\n", word, options->text);
	}
}

static void print_program(const struct program *program)
{
	const struct command_help *command;

	printf("usage: %s [OPTION]... COMMAND ...\n\n%s\n\nCommands:\n", program->name,
		program->text);
	for (size_t i = 0; (command = program->command(i)); i++)
		printf("  %-11s %s\n", command->name, command->text);
	puts("\nOptions of every command:");
	print_options(program->options);
	printf("\n%s`%s help COMMAND` shows a command's own options and an example.\n",
		program->notes, program->name);
}

static void print_command(const struct program *program, const struct command_help *command)
{
	printf("usage: %s [OPTION]... %s%s%s\n\n%s\n\n", program->name, command->name,
		command->operands ? " " : "", command->operands ? command->operands : "",
		command->text);
	if (command->options)
		print_options(command->options);
	printf("%sExample: %s\nOptions of every command: %s help\n", command->options ? "\n" : "",
		command->example, program->name);
}

int help_print(const struct program *program, const char *name)
{
	const struct command_help *command;

	if (!name) {
		print_program(program);
		return 0;
	}
	for (size_t i = 0; (command = program->command(i)); i++) {
		if (strcmp(command->name, name) != 0)
			continue;
		print_command(program, command);
		return 0;
	}
	no_command_complain(program, name);
	help_refer(program, NULL);
	return -EINVAL;
}

/* Returns the name of the option that has @letter. */
static const char *option_name_of(const struct option *known, int letter)
{
	while (known->name && known->val != letter)
		known++;
	return known->name ? known->name : "";
}

/* Complains about the long option @word, which names no option or several. */
static void complain_of_long(const struct option *known, const char *word)
{
	char name[4 * WORD_MAX], found[OPTIONS_MAX * (WORD_MAX + 8)] = "";
	struct nearest nearest = {.word = name};
	size_t len;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (const struct option *option = known; option->name; option++) {
		consider(&nearest, option->name);
		len = strlen(found);
		if (strncmp(option->name, name, strlen(name)) == 0)
			snprintf(found + len, sizeof(found) - len, "%s'--%s'", len > 0 ? ", " : "",
				option->name);
	}
	if (*found)
		complain_code("USAGE", "the option '--%s' could be any of %s", name, found);
	else if (nearest.name)
		complain_code("USAGE", "there is no option '--%s'; did you mean '--%s'?", name,
			nearest.name);
	else
		complain_code("USAGE", "there is no option '--%s'", name);
}

/* Complains about an option for which getopt_long(3) returned '?' or ':'. @word is the last word it
 * read. */
static void complain_of_option(const struct option *known, int answer, const char *word)
{
	if (answer == ':')
		complain_code("USAGE", "the option '%s' needs an argument", word);
	else if (optopt >= LONG_BASE)
		complain_code("USAGE", "the option '--%s' takes no argument",
			option_name_of(known, optopt));
	else if (optopt != 0)
		complain_code("USAGE", "there is no option '-%c'", optopt);
	else
		complain_of_long(known, word);
}

static size_t add_options(struct option *known, size_t n, const struct option_row *row)
{
	for (; row && row->name && n < OPTIONS_MAX; row++)
		known[n++] =
			(struct option){row->name, row->argument ? required_argument : no_argument,
				NULL, row->letter + LONG_BASE};
	return n;
}

int options_read(const struct option_set *set, int argc, char **argv,
	int (*take)(int letter, void *context), void *context)
{
	struct option known[OPTIONS_MAX + 1] = {0};
	char short_options[WORD_MAX];
	size_t n = add_options(known, 0, set->program->options);
	int option, r;

	for (size_t i = 0; i < ARRAY_SIZE(set->more) && set->more[i]; i++)
		n = add_options(known, n, set->more[i]);
	snprintf(short_options, sizeof(short_options), "%s:h%s", set->stops_at_operand ? "+" : "",
		set->short_options ? set->short_options : "");
	optind = 0; /* glibc: reset the parser, also for other short options */
	opterr = 0;
	while ((option = getopt_long(argc, argv, short_options, known, NULL)) >= 0) {
		if (option == '?' || option == ':') {
			complain_of_option(known, option, argv[optind - 1]);
			r = -EINVAL;
		} else {
			r = take(option >= LONG_BASE ? option - LONG_BASE : option, context);
		}
		if (r == -EINVAL)
			help_refer(set->program, set->command);
		if (r < 0)
			return r;
	}
	return 0;
}
