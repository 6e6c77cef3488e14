/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of a result its reader is shown. A program gets all that there is, within the tenant's
 * limits. A model's context is small: it gets the beginning and the end of output, whole lines of a
 * file, the first entries of a directory, and a sentence that says how to get the rest. A program
 * gets the same with options.max_output. Runs in cloisterd.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call_options;
struct observation;
struct tenant_limits;

/* Who reads the answer. */
enum reader {
	READER_PROGRAM,
	READER_MODEL,        /* text only: a message of its conversation */
	READER_MODEL_IMAGES, /* also images: MCP */
};

struct shown {
	uint64_t bytes;   /* of each stream, a listing, a search; 0: all, and the rest is unused */
	uint64_t read;    /* bytes of a file */
	uint64_t lines;   /* of a file */
	uint64_t line;    /* bytes of one line of a file */
	uint64_t entries; /* of a directory */
	bool numbered;    /* lines of a file have numbers */
	bool images;      /* small images are shown as such */
};

/** Returns what @reader is shown of a call with @options. */
struct shown shown_to(
	enum reader reader, const struct call_options *options, const struct tenant_limits *limits);

/** Writes @number with a comma between thousands into @buffer, and returns it. */
#define SHOWN_NUMBER_SIZE sizeof("18,446,744,073,709,551,615")
const char *shown_number(uint64_t number, char buffer[static SHOWN_NUMBER_SIZE]);

#define SHOWN_NOTE_SIZE 512
/**
 * Writes the sentence about what is not shown of the result of a file tool, and how to get it, into
 * @buffer of SHOWN_NOTE_SIZE bytes, and returns it. Empty if all is shown.
 */
const char *shown_note(const struct observation *observation, char *buffer, size_t size);
