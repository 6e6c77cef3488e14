// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, which makes no system call below the directory and reads no byte of an
 * archive. The report of cloister-unpack is hostile.
 */
#include "supervisor/workspace/templates/template_import.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/cell/copy_bounds.h"
#include "supervisor/cell/spawner_ask.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/templates/unpack_refusal.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>
#include <fcntl.h>

struct template_import {
	struct workspaces *all;
	struct tenant *tenant; /* held */
	char template[LIMIT_TEMPLATE_NAME_BYTES + 1];
	bool replace, replaced; /* a template of the name */
	struct unfinished target;
	int report;     /* the pipe from cloister-unpack; -1: a directory is copied */
	uint64_t asked; /* its number with the spawner */
	template_imported imported;
	void *context;
};

static void import_free(struct template_import *import)
{
	close_fd(&import->report);
	tenant_release(import->tenant);
	free(import);
}

static void finish_import(struct template_import *import, enum tool_error error, const char *why,
	const struct unpack_report *left_out)
{
	import->tenant->usage->copies--;
	import->imported(
		import->context, error, why, &(struct template_made){import->replaced, left_out});
	import_free(import);
}

/* Its writer is gone: all of it is in the pipe, or nothing. Returns whether there is one. */
static bool read_report(
	struct template_import *import, char *buffer, size_t size, struct unpack_report *ret)
{
	ssize_t n = import->report < 0 ? -1 : read(import->report, buffer, size);

	return n > 0 && unpack_report_get((struct text){buffer, (size_t)n}, ret) == 0;
}

/* @report: of cloister-unpack, if it has @unpacked and told; otherwise NULL. */
static void tell_failed(int error, struct text step, bool unpacked,
	const struct unpack_report *report, struct refusal *ret)
{
	if (error == -EACCES ||
		(report && report->fault == UNPACK_FAILED && report->error == EACCES))
		refusal_set(ret, TOOL_PERMISSION_DENIED,
			"A file of it cannot be read by cloister's own user: make it readable "
			"(chmod -R go+rX), or leave it out");
	else if (report && report->fault != UNPACK_NONE && error == -EBADMSG)
		unpack_refusal(report, ret);
	else if (unpacked && (error == -EBADMSG || error == -EIO))
		refusal_set(ret, TOOL_EXECUTION_ERROR,
			"The process that reads archives ended and did not say why, as one may "
			"that an archive was made to harm: find out who made it");
	else
		copy_failed(error, step, ret);
}

static void on_copied(void *context, int error, struct text step)
{
	struct template_import *import = context;
	_cleanup_(refusal_done) struct refusal refusal = {0};
	char buffer[UNPACK_REPORT_BYTES];
	struct unpack_report report;
	bool reported = read_report(import, buffer, sizeof(buffer), &report);

	if (error < 0) {
		tell_failed(error, step, import->report >= 0, reported ? &report : NULL, &refusal);
	} else {
		error = template_name(import->all, import->tenant, &import->target,
			import->template, import->replace, &refusal);
	}
	if (error < 0) {
		unfinished_drop(import->all, import->tenant, true, &import->target);
		finish_import(import, refusal.error, refusal_text(&refusal), NULL);
		return;
	}
	import->replaced = error > 0;
	import->tenant->usage->imports++;
	finish_import(import, TOOL_OK, NULL, reported ? &report : NULL);
}

/* Has @source copied or, if it is no directory to be shown as it is, unpacked. */
static int copy_template(struct template_import *import, int source, bool unpack)
{
	_cleanup_close_ int report = -1;

	struct spawner_copy request = {.tenant = text_from(tenant_directory(import->tenant)),
		.template = text_from(import->template),
		.max_bytes = copy_max_bytes(import->tenant),
		.max_files = copy_max_files(import->tenant)};
	int r, ends[2];

	if (unpack) {
		if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
			return -errno;
		import->report = ends[0];
		report = ends[1];
	}
	r = unfinished_make(import->all, import->tenant, true, &import->target);
	if (r < 0)
		return r;
	request.target = text_from(import->target.name);
	r = spawner_link_copy(import->all->spawner, unpack ? SPAWNER_UNPACK : SPAWNER_IMPORT,
		&request,
		(const int[SPAWNER_UNPACK_FDS]){
			[SPAWNER_UNPACK_SOURCE] = source, [SPAWNER_UNPACK_REPORT] = report},
		on_copied, import, &import->asked);
	if (r < 0)
		unfinished_drop(import->all, import->tenant, true, &import->target);
	return r;
}

/* What an administrator can do; the sentences of tools speak of a workspace. */
static const char *why_not_found(int error)
{
	switch (error) {
	case -ENOENT:
		return "There is nothing at this path: give that of a directory, an archive or an "
		       "image layout";
	case -ENOTDIR:
		return "The path leads through a file, or to what is neither a directory nor a "
		       "regular file: give that of a directory, an archive or an image layout";
	case -EACCES:
		return "Cloister's own user may not enter a directory of the path: let it "
		       "(chmod go+x), or move what is to be imported";
	default:
		return tool_errno_sentence(-error);
	}
}

static void on_looked_up(void *context, int error, int fd, const struct spawner_looked_up *where)
{
	struct template_import *import = context;
	_cleanup_close_ int source = fd;

	if (error == 0)
		error = copy_template(import, source, where->kind != LOOKED_UP_DIRECTORY);
	if (error < 0)
		finish_import(import, tool_error_from_errno(-error), why_not_found(error), NULL);
}

static int look_up(struct template_import *import, struct text path)
{
	static int everything = -1;
	struct spawner_look_up request = {.file = true, .path = {path.data + 1, path.len - 1}};

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
	struct text path, bool replace, template_imported imported, void *context,
	struct refusal *ret_refusal)
{
	struct template_import *import;
	enum tool_error error;
	int r;

	if (path.len == 0 || path.len >= LIMIT_PATH_BYTES || path.data[0] != '/' ||
		text_has_nul(path))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"path must be the absolute path of a directory, an archive or an image "
			"layout");
	error = template_check_new(all, tenant, name, replace, ret_refusal);
	if (error == TOOL_OK)
		error = copy_check_room(tenant, ret_refusal);
	if (error != TOOL_OK)
		return error;
	import = calloc(1, sizeof(*import));
	if (!import)
		return refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
	*import = (struct template_import){.all = all,
		.tenant = tenant_hold(tenant),
		.replace = replace,
		.report = -1,
		.imported = imported,
		.context = context};
	memcpy(import->template, name.data, name.len);
	r = look_up(import, path);
	if (r < 0) {
		import_free(import);
		return refusal_set(ret_refusal, TOOL_BUSY, NULL);
	}
	tenant->usage->copies++;
	return TOOL_OK;
}
