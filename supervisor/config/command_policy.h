/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The blocked commands: a list of regular expressions that the simple commands of a shell line are
 * matched with before it is run. Used in cloisterd. The patterns come from the configuration and
 * are trusted; the line is not.
 *
 * The list advises a model early and is never a security boundary. A command can evade it (`x=sudo;
 * $x`); the workspace's namespaces, ids and limits hold all the same.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

struct command_policy;

/** The list of a configuration that does not set one. */
extern const char *const command_policy_default_patterns[];
extern const size_t command_policy_default_count;

/**
 * Stores the default patterns that hold for a tenant with or without a @network, at most
 * command_policy_default_count, and returns their number.
 */
size_t command_policy_defaults(bool network, const char **ret_patterns);

/**
 * Compiles @count PCRE2 @patterns, which are copied. An empty list blocks nothing.
 *
 * Returns 0, to be freed with command_policy_free(); -ENOMEM; or -EINVAL with a sentence in
 * @ret_message that shows the pattern and its mistake (malloc'ed; NULL if memory is out).
 */
int command_policy_new(const char *const *patterns, size_t count,
	struct command_policy **ret_policy, char **ret_message);

/** The same with command_policy_defaults(). */
int command_policy_new_default(bool network, struct command_policy **ret, char **ret_message);
void command_policy_free(struct command_policy *policy);

/**
 * Returns NULL if the shell line @command may run. Otherwise returns the sentence, without its end,
 * of the first pattern that matches one of its simple commands: why it may not run, and what to do
 * instead. The string belongs to @policy.
 *
 * A command is matched in the form that command_line_each() gives it: the program and its words,
 * joined by single spaces. White space inside a word appears as "_", so that \s matches only
 * between words. If an rm is both recursive and forced, its options appear as "-rf" however they
 * are written, and operands at or below @visible_root (an absolute path without "..") or /tmp
 * appear as relative paths, "./build". In a whole root, "/", the root itself and "*" in it do not.
 *
 * A default pattern permits a command of plain words that only asks a program for --help or
 * --version, and a request to the loopback (loopback_request.h). The administrator's patterns have
 * no such exception, unless they equal a default one.
 *
 * Fails closed: a line that is nested too deeply, a pattern that takes too many steps, a line that
 * takes more than LIMIT_BLOCKED_LINE_MS in all or goes on after LIMIT_BLOCKED_NEXT_MS, and a failed
 * allocation count as matches. Nobody else is served meanwhile.
 */
const char *command_policy_match(
	const struct command_policy *policy, struct text command, struct text visible_root);
