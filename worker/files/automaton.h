/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files, in a job only: Vectorscan, which looks for a pattern in linear time whatever the
 * pattern is. It says where matches end, not where they begin, and about some bytes it says nothing
 * that PCRE2 would agree with; so it is asked only about those it can be trusted with, and for
 * most purposes only where there is nothing. What it finds PCRE2 confirms.
 *
 * An automaton is constant and shared by threads; the scratch space belongs to one.
 */

#include "common/text.h"
#include "worker/files/pattern_traits.h"

struct automaton;
struct automaton_scratch;

/**
 * Compiles @pattern, whose traits are @traits and which cannot match an empty string. Returns 0,
 * -ENOTSUP if that is not possible (the processor, the traits or Vectorscan's limits), or -ENOMEM.
 */
int automaton_new(
	struct text pattern, struct pattern_traits traits, struct automaton **ret_automaton);
void automaton_free(struct automaton *automaton);

/** NULL: out of memory. */
struct automaton_scratch *automaton_scratch_new(const struct automaton *automaton);
void automaton_scratch_free(struct automaton_scratch *scratch);

/** Whether @bytes have no match that automaton_scan would not find. Costs a fast look at them. */
bool automaton_can_scan(const struct automaton *automaton, struct text bytes);

/** Whether each match that automaton_scan finds in @line, one line's text, is one for PCRE2. */
bool automaton_is_exact(const struct automaton *automaton, struct text line);

/** Called with the offset behind the last byte of a match. Anything but 0 ends the scan. */
typedef int (*automaton_visitor)(size_t end, void *context);

/**
 * Calls @visit for every end of a match in @bytes, as a rule in ascending order. Returns 0 (also
 * when @visit ended it) or -EIO.
 */
int automaton_scan(const struct automaton *automaton, struct automaton_scratch *scratch,
	struct text bytes, automaton_visitor visit, void *context);
