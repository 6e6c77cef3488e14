// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, which makes no system call below the directory. */
#include "supervisor/workspace/template_import.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/copy_bounds.h"
#include "supervisor/workspace/spawner_link.h"
#include "supervisor/workspace/templates.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>
#include <fcntl.h>

struct template_import {
	struct workspaces *all;
	struct tenant *tenant; /* held */
	char template[LIMIT_TEMPLATE_NAME_BYTES + 1];
	struct unfinished target;
	uint64_t asked; /* its number with the spawner */
	template_imported imported;
	void *context;
};

static void finish(struct template_import *import, enum tool_error error, const char *why)
{
	import->tenant->usage->copies--;
	import->imported(import->context, error, why);
	tenant_release(import->tenant);
	free(import);
}

static void on_copied(void *context, int error, struct text step)
{
	struct template_import *import = context;
	_cleanup_(refusal_done) struct refusal refusal = {0};

	if (error == -EACCES) {
		refusal_set(&refusal, TOOL_PERMISSION_DENIED,
			"A file of the directory cannot be read by cloister's own user: make it "
			"readable (chmod -R go+rX), or leave it out");
	} else if (error < 0) {
		copy_failed(error, step, &refusal);
	} else {
		error = unfinished_name(
			import->all, import->tenant, true, &import->target, import->template);
		if (error < 0)
			refusal_set(&refusal, tool_error_from_errno(-error), NULL);
	}
	if (error < 0) {
		unfinished_drop(import->all, import->tenant, true, &import->target);
		finish(import, refusal.error, refusal_text(&refusal));
		return;
	}
	import->tenant->usage->templates++;
	import->tenant->usage->imports++;
	finish(import, TOOL_OK, NULL);
}

static int copy(struct template_import *import, int directory)
{
	struct spawner_copy request = {.tenant = text_from(tenant_directory(import->tenant)),
		.template = text_from(import->template),
		.max_bytes = copy_max_bytes(import->tenant),
		.max_files = copy_max_files(import->tenant)};
	int r = unfinished_make(import->all, import->tenant, true, &import->target);

	if (r < 0)
		return r;
	request.target = text_from(import->target.name);
	r = spawner_link_copy(import->all->spawner, SPAWNER_IMPORT, &request, &directory, on_copied,
		import, &import->asked);
	if (r < 0)
		unfinished_drop(import->all, import->tenant, true, &import->target);
	return r;
}

static void on_looked_up(void *context, int error, int fd, const struct spawner_looked_up *where)
{
	struct template_import *import = context;
	_cleanup_close_ int directory = fd;

	(void)where;
	if (error == 0)
		error = copy(import, directory);
	if (error < 0)
		finish(import, tool_error_from_errno(-error), tool_errno_sentence(-error));
}

static int look_up(struct template_import *import, struct text path)
{
	static int everything = -1;
	struct spawner_look_up request = {.path = {path.data + 1, path.len - 1}};

	/* The tenant of user mode may have a longer name; it is the only one. */
	if (strlen(import->tenant->name) <= LIMIT_CONFIG_NAME_BYTES)
		request.tenant = text_from(import->tenant->name);
	if (everything < 0)
		everything = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (everything < 0)
		return -errno;
	return spawner_link_look_up(
		import->all->spawner, &request, everything, on_looked_up, import, &import->asked);
}

enum tool_error template_import(struct workspaces *all, struct tenant *tenant, struct text name,
	struct text path, template_imported imported, void *context, struct refusal *ret_refusal)
{
	struct template_import *import;
	enum tool_error error;
	int r;

	if (path.len == 0 || path.len >= LIMIT_PATH_BYTES || path.data[0] != '/' ||
		text_has_nul(path))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"path must be the absolute path of a directory");
	error = template_check_new(all, tenant, name, ret_refusal);
	if (error == TOOL_OK)
		error = copy_check_room(tenant, ret_refusal);
	if (error != TOOL_OK)
		return error;
	import = calloc(1, sizeof(*import));
	if (!import)
		return refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
	*import = (struct template_import){.all = all,
		.tenant = tenant_hold(tenant),
		.imported = imported,
		.context = context};
	memcpy(import->template, name.data, name.len);
	r = look_up(import, path);
	if (r < 0) {
		tenant_release(import->tenant);
		free(import);
		return refusal_set(ret_refusal, TOOL_BUSY, NULL);
	}
	tenant->usage->copies++;
	return TOOL_OK;
}
