/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of reading a configuration, for config_files.c (files), config_file.c (lines),
 * config_parts.c (sections and settings) and config_value.c (a setting to its field). */

#include "common/text.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_keys.h"

struct accounts;

/* Where a setting, or a section, was last seen. */
struct config_place {
	const char *file; /* NULL: not at all */
	unsigned line;
};

/* One section of all files together. */
struct config_part {
	void *object; /* struct config_host or struct tenant */
	enum config_section section;
	struct config_place header;
	struct config_place settings[CONFIG_KEYS_MAX]; /* by the key's index in config_keys */
};

struct config_reader {
	const struct config_complaints *complaints;
	struct accounts *accounts;
	uint64_t mistakes;
	const char *file; /* at hand; the string lives as long as the reader */
	unsigned line;
	uid_t root;               /* as whose host root's files are seen */
	bool not_roots;           /* a file or a directory is not root's */
	struct config_part *part; /* that the line belongs to; NULL: of none, or of a wrong one */
	bool in_wrong_section;    /* already complained about, and so not what is in it */
	struct config_part host;
	struct config_part **tenants; /* in the order of the files */
	size_t n_tenants;
};

/** Complains about the line at hand. */
void config_wrong(struct config_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Complains about another place. */
void config_wrong_at(struct config_reader *reader, const struct config_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/** Reads @text, one file's content, setting by setting. Only a lack of memory is -errno. */
int config_file_read(struct config_reader *reader, struct text text);

/** A line [@name] begins: sets reader->part, or complains. */
void config_section_begin(struct config_reader *reader, const char *name);

/** A line of the section at hand. */
void config_setting(struct config_reader *reader, const char *name, const char *value);

/** All files are read: checks what must hold between settings, and fills @config. 0 or -errno. */
int config_parts_finish(struct config_reader *reader, struct config *config);

/** Stores @value in @key's field of the part at hand, or complains. */
void config_value_set(
	struct config_reader *reader, const struct config_key *key, const char *value);

/** As much of @value as a message shows, in whole characters: a precision for "%.*s". */
int config_shown(const char *value);
