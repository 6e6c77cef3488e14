/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading a configuration: config_files.c finds the files and config_file.c splits them into lines.
 * A handler interprets the lines. cloisterd's (supervisor/config/config_parts.c) knows every key;
 * the handlers of the spawner (worker/spawner/policy.c) and of cloister-egress (egress/policy.c)
 * know only the keys that these programs enforce.
 */

#include "common/config/config_complaints.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct config_reader;

/*
 * The parts of a configuration. Each function complains about a mistake and returns, so that the
 * reader finds all mistakes.
 */
struct config_handler {
	/* A file begins; no section has begun in it. */
	void (*file)(struct config_reader *reader);
	/*
	 * A line [@name] begins a section. @name is NULL if the header was malformed, which has
	 * been complained about; the lines after it belong to no section.
	 */
	void (*section)(struct config_reader *reader, const char *name);
	/* A line of the current section. */
	void (*setting)(struct config_reader *reader, const char *name, const char *value);
};

/* The place where a setting, or a section, was last seen. */
struct config_place {
	const char *file; /* NULL: nowhere */
	unsigned line;
};

struct config_reader {
	const struct config_complaints *complaints;
	const struct config_handler *handler;
	void *context; /* the handler's own data */
	uint64_t mistakes;
	const char *file; /* the current file; the string lives as long as the reader */
	unsigned line;
	uid_t root;     /* the id by which this process sees the host's root */
	bool not_roots; /* a file or a directory does not belong to root */
};

/** Complains about the current line. */
void config_wrong(struct config_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Warns of a setting that has no effect. */
void config_warn_at(struct config_reader *reader, const struct config_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/** Complains about another place. */
void config_wrong_at(struct config_reader *reader, const struct config_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/**
 * Reads @text, the content of one file, setting by setting. Returns 0, or -errno for a lack of
 * memory.
 */
int config_file_read(struct config_reader *reader, struct text text);
