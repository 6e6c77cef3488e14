/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Vectorscan, which scans in linear time for any pattern. Used by jobs of the files process. It
 * reports where matches end, not where they begin, and differs from PCRE2 on some bytes. It is
 * therefore used only on bytes for which the two agree, and mostly to find out where no match is;
 * PCRE2 confirms the matches.
 *
 * An automaton is constant and shared by threads. Scratch space belongs to one thread.
 */

#include "common/text.h"
#include "worker/files/search/pattern_traits.h"

struct automaton;
struct automaton_scratch;

/**
 * Compiles @pattern, whose traits are @traits and which cannot match an empty string. Returns 0;
 * -ENOTSUP if the processor, the traits or Vectorscan's limits forbid it; or -ENOMEM.
 */
int automaton_new(
	struct text pattern, struct pattern_traits traits, struct automaton **ret_automaton);
void automaton_free(struct automaton *automaton);

/** Returns NULL if memory is out. */
struct automaton_scratch *automaton_scratch_new(const struct automaton *automaton);
void automaton_scratch_free(struct automaton_scratch *scratch);

/** Whether automaton_scan() would find every match in @bytes. Costs one fast pass over them. */
bool automaton_can_scan(const struct automaton *automaton, struct text bytes);

/**
 * Whether each match that automaton_scan() finds in @line, the text of one line, is a match for
 * PCRE2 too.
 */
bool automaton_is_exact(const struct automaton *automaton, struct text line);

/** Called with the offset behind the last byte of a match. Any result but 0 ends the scan. */
typedef int (*automaton_visitor)(size_t end, void *context);

/**
 * Calls @visit for every end of a match in @bytes, mostly in ascending order. Returns 0, also if
 * @visit ended the scan, or -EIO.
 */
int automaton_scan(const struct automaton *automaton, struct automaton_scratch *scratch,
	struct text bytes, automaton_visitor visit, void *context);
