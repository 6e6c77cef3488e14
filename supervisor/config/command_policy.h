/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The blocked commands: a list of regular expressions that the simple commands of a shell line are
 * matched with before it is run. Runs in cloisterd; the patterns come from the configuration and
 * are trusted, the line does not and is not.
 *
 * This is early advice for a model, never a boundary. Whoever wants to get around it can (`x=sudo;
 * $x`); what then happens is decided by the workspace's namespaces, ids and limits, which hold
 * without it.
 */

#include "common/text.h"

#include <stddef.h>

struct command_policy;

/** The list of a configuration that does not name one. */
extern const char *const command_policy_default_patterns[];
extern const size_t command_policy_default_count;

/**
 * Compiles @count PCRE2 @patterns, which are copied. An empty list blocks nothing.
 *
 * Returns 0; -ENOMEM; or -EINVAL with a sentence in @ret_message that shows the pattern and what is
 * wrong with it (malloc'ed; NULL when out of memory). Free with command_policy_free.
 */
int command_policy_new(const char *const *patterns, size_t count,
	struct command_policy **ret_policy, char **ret_message);
void command_policy_free(struct command_policy *policy);

/**
 * The first pattern that matches a simple command of the shell line @command, or NULL if the
 * command may run. The string belongs to @policy.
 *
 * What is matched is the command as command_line_each() gives it: the program, then its words,
 * joined by single spaces. White space inside a word is shown as "_", so that \s only ever matches
 * between words. Of an rm that is both recursive and forced, however that is written, the options
 * are shown as "-rf", and operands that lie inside @visible_root (an absolute path without "..";
 * "/" for a whole root) are shown as relative paths, "./build". The root itself, or "*" in it, does
 * not count as inside.
 *
 * Fails closed: a line that is nested too deeply to be read, a pattern that takes too many steps
 * and a failed allocation count as matches. For the first and last of these the answer is a static
 * text in place of a pattern.
 */
const char *command_policy_match(
	const struct command_policy *policy, struct text command, struct text visible_root);
