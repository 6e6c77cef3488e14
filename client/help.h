/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of a program with commands. One table of options serves getopt_long(3) and the
 * help, one function prints the help, and errors of use have two lines, with the nearest name in
 * the first.
 */

#include <stdbool.h>
#include <stddef.h>

/** A long option. The last row of a table has no name. */
struct option_row {
	const char *name;
	const char *argument; /* its name in the help; NULL: the option has none */
	int letter;           /* passed to take(); not 'h', which is --help */
	const char *text;     /* its line of the help */
};

/** A command, for its help. */
struct command_help {
	const char *name;
	const char *operands; /* NULL: none */
	const char *text;     /* begins with a capital letter and ends with a full stop */
	const char *example;
	const struct option_row *options; /* the command's own options; NULL: none */
};

struct program {
	const char *name;
	const char *text;
	const char *notes; /* after the options; whole lines */
	/* options of every command */
	const struct option_row *options;
	/* the command of this index, or NULL after the last one */
	const struct command_help *(*command)(size_t index);
};

#define HELP_LETTER 'h'
#define HELP_OPTION                                                                           \
	{                                                                                     \
		"help", NULL, HELP_LETTER, "print this help, or that of the command; also -h" \
	}

/** The options that a command line may have, and how its words are read. */
struct option_set {
	const struct program *program;
	const struct command_help *command; /* NULL: the command has not been read yet */
	/* further tables besides the program's, ended by NULL */
	const struct option_row *more[12];
	const char *short_options; /* letters of those that have no argument; NULL: "h" alone */
	bool stops_at_operand;
};

/**
 * Reads the options of @argv with getopt_long(3), also "-h", and gives each to @take with its
 * letter; its argument is in optarg. The first operand is then argv[optind]. Returns 0, the first
 * negative result of @take, or -EINVAL after a complaint.
 */
int options_read(const struct option_set *set, int argc, char **argv,
	int (*take)(int letter, void *context), void *context);

/** Prints the help of @program, or of its command @name. Returns 0, or -EINVAL after a complaint.
 */
int help_print(const struct program *program, const char *name);

/** Complains that there is no command @name, and names the nearest one. */
void no_command_complain(const struct program *program, const char *name);

/** Complains that there is no @kind @name, and names the nearest one. @name_at: as in struct
 * program. */
void no_name_complain(const char *kind, const char *name, const char *(*name_at)(size_t index));

/** Complains, in both lines, that @command has other operands than it takes. */
void operands_complain(const struct program *program, const struct command_help *command);

/**
 * Prints the second line of an error of use, which names the help; nothing with --json. @command
 * may be NULL.
 */
void help_refer(const struct program *program, const struct command_help *command);
