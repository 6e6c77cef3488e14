/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A configuration file in a scratch directory, its loading, and what was said against it. */

#include "supervisor/config/config.h"
#include "supervisor/config/config_load.h"
#include "supervisor/config/known_sets.h"
#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"

static char said[64 * 1024]; /* every complaint of the last loading, a line each */
static size_t said_len, n_said;

static inline void on_complaint(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	n_said++;
	/* Remove the scratch directory's path. */
	if (strncmp(file, scratch.path, strlen(scratch.path)) == 0)
		file += strlen(scratch.path);
	if (said_len < sizeof(said))
		said_len += (size_t)snprintf(said + said_len, sizeof(said) - said_len,
			"%s:%u: %s\n", file, line, message);
}

static char warned[1024]; /* the last warning of the last loading */

static inline void on_warning(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	if (strncmp(file, scratch.path, strlen(scratch.path)) == 0)
		file += strlen(scratch.path);
	snprintf(warned, sizeof(warned), "%s:%u: %s", file, line, message);
}

static inline struct config *load(void)
{
	static const struct config_complaints complaints = {on_complaint, NULL, on_warning};
	char path[512];
	struct config_source *source = NULL;
	struct config *config = NULL;
	int r;

	said[0] = warned[0] = '\0';
	said_len = n_said = 0;
	snprintf(path, sizeof(path), "%s/c.conf", scratch.path);
	known_sets_read();
	assert_int_equal(config_source_open(path, &source), 0);
	r = config_load(source, &complaints, &config);
	config_source_free(source);
	if (n_said > 0)
		assert_int_equal(r, -EINVAL);
	else if (r != 0)
		fail_msg("%d", r);
	assert_int_equal(r == 0, config != NULL);
	return config;
}

static inline struct config *load_text(const char *text)
{
	scratch_text(&scratch, "c.conf", text);
	return load();
}

static inline struct config *load_good(const char *text)
{
	struct config *config = load_text(text);

	if (!config)
		fail_msg("%s:\n%s", text, said);
	return config;
}

/* Checks that the complaints about @text are exactly @expected. */
static inline void refuses(const char *text, const char *expected)
{
	config_release(load_text(text));
	assert_string_equal(said, expected);
}
