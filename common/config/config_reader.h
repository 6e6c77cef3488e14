/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading a configuration: config_files.c finds the files, config_file.c their lines. What the
 * lines mean is the handler's: cloisterd's (supervisor/config/config_parts.c) knows every key, the
 * spawner's (worker/spawner/policy.c) those that it enforces itself.
 */

#include "common/config/config_complaints.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct config_reader;

/* What a configuration consists of. The functions complain of what is wrong, and go on. */
struct config_handler {
	/* A file begins: no section is at hand. */
	void (*file)(struct config_reader *reader);
	/* A line [@name] begins a section. NULL: the line is no section's header, which has been
	 * complained of; no section is at hand. */
	void (*section)(struct config_reader *reader, const char *name);
	/* A line of the section at hand. */
	void (*setting)(struct config_reader *reader, const char *name, const char *value);
};

/* Where a setting, or a section, was last seen. */
struct config_place {
	const char *file; /* NULL: not at all */
	unsigned line;
};

struct config_reader {
	const struct config_complaints *complaints;
	const struct config_handler *handler;
	void *context; /* the handler's */
	uint64_t mistakes;
	const char *file; /* at hand; the string lives as long as the reader */
	unsigned line;
	uid_t root;     /* as whose host root's files are seen */
	bool not_roots; /* a file or a directory is not root's */
};

/** Complains about the line at hand. */
void config_wrong(struct config_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Complains about another place. */
void config_wrong_at(struct config_reader *reader, const struct config_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/** Reads @text, one file's content, setting by setting. Only a lack of memory is -errno. */
int config_file_read(struct config_reader *reader, struct text text);
