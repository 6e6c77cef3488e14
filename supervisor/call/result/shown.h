/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of a result the reader of the answer is shown. A program gets everything, within the
 * tenant's limits. A model's context is small, so it gets the beginning and the end of output,
 * whole lines of a file, the first entries of a directory, and a sentence that says how to get the
 * rest. With options.max_output, a program also gets such a part. Runs in cloisterd.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call_options;
struct notes;
struct tenant_limits;

/* The reader of the answer. */
enum reader {
	READER_PROGRAM,
	READER_MODEL,        /* text only: a message of a conversation */
	READER_MODEL_IMAGES, /* text and images: MCP without structured content */
	READER_MODEL_BOTH,   /* and the observation as JSON besides: MCP */
};

struct shown {
	/*
	 * Bytes that are kept of each stream and shown of a file, a listing or a search. 0: all;
	 * then the next 4 are 0
	 */
	uint64_t bytes;
	/*
	 * Bytes of the answer that the result may take as it is sent: escaped, and in each form.
	 * UINT64_MAX: only bytes counts
	 */
	uint64_t sent;
	uint64_t lines;   /* of a file, or of both streams */
	uint64_t line;    /* bytes of one line of a file */
	uint64_t entries; /* of a directory */
	bool numbered;    /* the lines of a file have numbers */
	bool both;        /* the answer has the result twice, as text and in the observation */
	bool images;      /* small images are sent as images */
	bool text;        /* the result is made as text too (observation.text) */
};

/**
 * Returns how much of a call with @options is shown to @reader, and in which forms. No other
 * function decides that: call_request_read() stores it in the request, where all others read it.
 */
struct shown shown_to(
	enum reader reader, const struct call_options *options, const struct tenant_limits *limits);

/** Returns how many bytes @text takes of an answer in which it stands in each form. */
uint64_t shown_cost(const struct shown *shown, struct text text);

/** Returns what the result may take of an answer with @notes (NULL: none). */
uint64_t shown_left(const struct shown *shown, const struct notes *notes);

/** Writes @number with a comma between thousands into @buffer, and returns it. */
#define SHOWN_NUMBER_SIZE sizeof("18,446,744,073,709,551,615")
const char *shown_number(uint64_t number, char buffer[static SHOWN_NUMBER_SIZE]);
