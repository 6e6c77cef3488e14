// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-quota, as root. It reads the files through common/config, as cloisterd does,
 * which checks the keys that are ignored here.
 */
#include "quota/quota_config.h"

#include "common/cleanup.h"
#include "common/config/config_files.h"
#include "common/config/config_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
	struct quota_config *config;
	bool in_host; /* in the section [cloister] */
};

static void begin_quota_config_file(struct config_reader *reader)
{
	((struct reading *)reader->context)->in_host = false;
}

static void begin_quota_config_section(struct config_reader *reader, const char *name)
{
	((struct reading *)reader->context)->in_host = name && strcmp(name, "cloister") == 0;
}

static void take_string(struct config_reader *reader, char **field, const char *value)
{
	free(*field);
	*field = strdup(value);
	if (!*field)
		config_wrong(reader, "out of memory");
}

static void take_classes(
	struct config_reader *reader, struct quota_config *config, const char *value)
{
	const char *why;

	/* A key in a later file replaces the values from earlier files. */
	if (config->classes_file != reader->file)
		config->classes.count = 0;
	config->classes_file = reader->file;
	why = disk_classes_add_line(&config->classes, value);
	if (why)
		config_wrong(reader, "disk_classes: %s", why);
}

static void take_quota_config_setting(
	struct config_reader *reader, const char *name, const char *value)
{
	const struct reading *reading = reader->context;

	if (!reading->in_host)
		return;
	if (strcmp(name, "disk_classes") == 0)
		take_classes(reader, reading->config, value);
	if (strcmp(name, "user") == 0)
		take_string(reader, &reading->config->user, value);
	if (strcmp(name, "state_dir") == 0)
		take_string(reader, &reading->config->state_dir, value);
}

static void print_mistake(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	fprintf(stderr, "cloister-quota: %s:%u: %s\n", file, line, message);
}

static void release_quota_config(struct config_files *files)
{
	config_files_done(files);
}

int quota_config_read(const char *path, uid_t root, struct quota_config *ret)
{
	static const struct config_complaints complaints = {print_mistake, NULL, NULL};
	static const struct config_handler handler = {
		begin_quota_config_file, begin_quota_config_section, take_quota_config_setting};
	_cleanup_(release_quota_config) struct config_files files = {.directory_fd = -1};
	_cleanup_(config_file_names_done) struct config_file_names names = {0};
	struct reading reading = {.config = ret};
	struct config_reader reader = {
		.complaints = &complaints, .handler = &handler, .context = &reading, .root = root};
	int r;

	*ret = (struct quota_config){.user = NULL};
	r = config_files_open(path, &files);
	if (r == 0)
		r = config_files_read(&files, &reader, &names);
	ret->classes_file = NULL;
	if (r == 0 && reader.not_roots)
		r = -EPERM;
	if (r == 0 && reader.mistakes > 0)
		r = -EINVAL;
	if (r < 0)
		quota_config_done(ret);
	return r;
}

void quota_config_done(struct quota_config *config)
{
	free(config->user);
	free(config->state_dir);
	*config = (struct quota_config){.user = NULL};
}
