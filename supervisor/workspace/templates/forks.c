// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Looks at nothing in a template or fork; the spawner's copier does, and is
 * bound in bytes, files and time.
 */
#include "supervisor/workspace/templates/forks.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/cell/copy_bounds.h"
#include "supervisor/cell/spawner_ask.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/id_range.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/layers.h"
#include "supervisor/workspace/managed/leases.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/managed/managed_quota.h"
#include "supervisor/workspace/managed/properties_store.h"
#include "supervisor/workspace/templates/forking_state.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>
#include <stdio.h>

bool forks_are_copied(const struct workspaces *all)
{
	const struct forking *forking;

	LIST_FOREACH (forking, &all->forking, entry)
		if (!forking->copies || forking->making ||
			(forking->copying && !unfinished_has_id(all, forking->tenant,
						     &forking->copies[forking->done])))
			return false;
	return true;
}

static void fail_forking(struct forking *forking, enum tool_error error, const char *why)
{
	forking->error = error;
	free(forking->why);
	forking->why = why ? strdup(why) : NULL;
}

/* The number after the highest that a workspace of the prefix has, so that no name comes again. */
static void note_number(void *context, const char *name)
{
	struct forking *forking = context;
	const uint32_t number = forking_number(forking, name);

	if (number >= forking->first)
		forking->first = number + 1;
}

/* Forks whose copies are being made have no names yet. */
static void pass_others(struct forking *forking)
{
	const struct forking *other;

	LIST_FOREACH (other, &forking->all->forking, entry)
		if (other != forking && strcmp(other->tenant->name, forking->tenant->name) == 0 &&
			strcmp(other->prefix, forking->prefix) == 0 &&
			other->first + other->count > forking->first)
			forking->first = other->first + other->count;
}

static int choose_names(struct forking *forking)
{
	/* The tenant may have an imported template, and no workspace yet. */
	int r = managed_directory_make(forking->all->managed_fd, forking->tenant);

	if (r == 0)
		r = managed_each(forking->all->managed_fd, forking->tenant, note_number, forking);
	pass_others(forking);
	return r == 0 && forking->first + forking->count > 1000000000 ? -EOVERFLOW : r;
}

static void tell_dropped(void *context, const char *tenant, const char *name)
{
	const struct forking *forking = context;

	spawner_link_dropped(forking->all->spawner, false, tenant, name);
}

static struct layers_place place_of(struct forking *forking, const char *name)
{
	return (struct layers_place){.managed_fd = forking->all->managed_fd,
		.tenant = forking->tenant,
		.name = name,
		.dropped = tell_dropped,
		.context = forking};
}

/* Those that are still to be made count as workspaces. */
static void reserve(struct forking *forking, size_t n)
{
	size_t *awaited = &forking->tenant->usage->forks_awaited;

	*awaited = *awaited - forking->reserved + n;
	forking->reserved = n;
}

/* Takes back the last one that is there: nobody has been told of it, or could open it. */
static void undo_one(struct forking *forking)
{
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];

	forking_name(forking, --forking->done, name);
	const struct layers_place place = place_of(forking, name);

	if (managed_remove(forking->all->managed_fd, forking->tenant, name) < 0)
		return;
	(void)layers_remove(&place);
	(void)properties_forget(forking->all->managed_fd, forking->tenant, name);
}

/* Makes the next one: a few directories. */
static int make_one(struct forking *forking)
{
	const int managed_fd = forking->all->managed_fd;
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];
	int r;

	forking_name(forking, forking->done, name);
	const struct layers_place place = place_of(forking, name);

	/* First: one that somebody has made in the state directory meanwhile keeps its layers. */
	r = managed_set_root(managed_fd, forking->tenant, name, forking->as_root);
	if (r < 0)
		return r;
	r = layers_fork(&place, forking->tree);
	if (r == 0)
		r = properties_save(managed_fd, forking->tenant, name, &forking->with);
	if (r == 0)
		r = managed_add(managed_fd, forking->tenant, name);
	if (r < 0) {
		(void)layers_remove(&place);
		(void)properties_forget(managed_fd, forking->tenant, name);
		(void)managed_set_root(managed_fd, forking->tenant, name, false);
		return r;
	}
	forking->done++;
	reserve(forking, forking->count - forking->done);
	return 0;
}

static void make_some(struct forking *forking)
{
	const struct layers_place place = place_of(forking, "");
	int r = layers_may_fork(&place);

	for (int i = 0; r == 0 && i < LIMIT_FORKS_A_TURN && forking->done < forking->count; i++)
		r = make_one(forking);
	if (r == 0)
		return;
	reserve(forking, 0);
	forking->undoing = true;
	fail_forking(forking, tool_error_from_errno(-r), NULL);
}

/* Makes or takes back the next ones. The others follow in slices of their own. */
static void make_layers(void *context)
{
	struct forking *forking = context;

	if (forking->undoing)
		for (int i = 0; i < LIMIT_FORKS_A_TURN && forking->done > 0; i++)
			undo_one(forking);
	else
		make_some(forking);
	forking->making = forking->done != (forking->undoing ? 0 : forking->count);
	if (forking->making)
		loop_share_wait(&forking->slice, &forking->tenant->usage->share);
	else
		loop_turn_defer(&forking->tell);
}

static void begin_layers(struct forking *forking)
{
	reserve(forking, forking->count);
	make_layers(forking);
}

/* Takes back what is made of those that are not complete. */
static void stop_making(struct forking *forking)
{
	loop_share_cancel(&forking->slice);
	reserve(forking, 0);
	while (forking->making && forking->done > 0)
		undo_one(forking);
	forking->making = false;
}

void forks_stop(struct workspaces *all)
{
	struct forking *forking;

	LIST_FOREACH (forking, &all->forking, entry)
		stop_making(forking);
}

static void tell_end(void *context)
{
	struct forking *forking = context;
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];

	if (forking->error == TOOL_OK)
		forking->tenant->usage->forks += forking->count;
	for (uint32_t i = 0; forking->error == TOOL_OK && i < forking->count; i++) {
		forking_name(forking, i, name);
		leases_set(forking->all->leases, forking->tenant, name, &forking->with.lease);
	}
	forking->made(forking->context, forking->error, forking->why);
}

/* Gives all copies their names. Should one fail, those before it stay: they are whole. */
static void name_copies(struct forking *forking)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];
	int r = 0;

	/* Others have made workspaces meanwhile. */
	if (managed_quota_check_many(forking->all->managed_fd, forking->tenant, forking->count,
		    &refusal) != TOOL_OK) {
		fail_forking(forking, refusal.error, refusal_text(&refusal));
		return;
	}

	for (uint32_t i = 0; r == 0 && i < forking->count; i++) {
		forking_name(forking, i, name);
		r = managed_set_root(
			forking->all->managed_fd, forking->tenant, name, forking->as_root);
		if (r == 0)
			r = properties_save(
				forking->all->managed_fd, forking->tenant, name, &forking->with);
		if (r < 0)
			break;
		r = unfinished_name(
			forking->all, forking->tenant, false, &forking->copies[i], name);
		if (r == 0)
			managed_count_added(forking->tenant);
		if (r == 0)
			forking->copies[i].name[0] = '\0';
	}
	if (r == -EEXIST)
		fail_forking(forking, TOOL_BUSY,
			"A workspace of the name of a fork was made meanwhile: fork again, or with "
			"another prefix");
	else if (r < 0)
		fail_forking(forking, tool_error_from_errno(-r), NULL);
}

static const char taken_over[] =
	"Another generation of the service takes over, and not all forks were made: connect again, "
	"and repeat the request there";

static void copy_next(struct forking *forking);

static void on_copied(void *context, int error, struct text step)
{
	struct forking *forking = context;
	_cleanup_(refusal_done) struct refusal refusal = {0};

	forking->copying = false;
	forking->done++;
	if (error < 0) {
		copy_failed(error, step, &refusal);
		fail_forking(forking, refusal.error, refusal_text(&refusal));
	} else if (forking->done < forking->count && forking->all->retiring) {
		/* The other generation may give the id of the next one to a workspace, too. */
		fail_forking(forking, TOOL_BUSY, taken_over);
	} else if (forking->done < forking->count) {
		copy_next(forking);
		return;
	} else {
		name_copies(forking);
	}
	loop_turn_defer(&forking->tell);
}

static void copy_next(struct forking *forking)
{
	struct unfinished *target = &forking->copies[forking->done];
	struct spawner_copy request = {.tenant = text_from(tenant_directory(forking->tenant)),
		.template = text_from(forking->tree),
		.max_bytes = copy_max_bytes(forking->tenant),
		.max_files = copy_max_files(forking->tenant)};
	int r = unfinished_make(forking->all, forking->tenant, false, target);

	if (r < 0)
		target->name[0] = '\0';
	request.target = text_from(target->name);
	if (r == 0)
		r = spawner_link_copy(forking->all->spawner, SPAWNER_FORK, &request, NULL,
			on_copied, forking, &forking->asked);
	if (r == 0) {
		forking->copying = true;
		return;
	}
	forking->done++;
	fail_forking(forking, tool_error_from_errno(-r), NULL);
	loop_turn_defer(&forking->tell);
}

/* Forks of a template that is in memory are made as in user mode. The others are copied. */
static void on_loaded(void *context, int error, struct text step)
{
	struct forking *forking = context;
	char why[LIMIT_TEMPLATE_WHY_BYTES];

	forking->loading = false;
	if (forking->all->retiring) {
		fail_forking(forking, TOOL_BUSY, taken_over);
	} else if (error == 0) {
		forking->in_memory = true;
		begin_layers(forking);
		return;
	} else {
		if (error != -EOPNOTSUPP) {
			template_load_why(error, step, why, sizeof(why));
			forking->why_copied = strdup(why);
		}
		copy_next(forking);
		return;
	}
	loop_turn_defer(&forking->tell);
}

/* Where there is no memory for templates, the spawner says so at once. */
static void load(struct forking *forking)
{
	if (spawner_link_load(forking->all->spawner, tenant_directory(forking->tenant),
		    forking->tree, on_loaded, forking, &forking->asked) == 0)
		forking->loading = true;
	else
		copy_next(forking);
}

static enum tool_error check_forking(
	struct workspaces *all, struct forking *forking, struct refusal *ret_refusal)
{
	struct tenant *tenant = forking->tenant;
	enum tool_error error;
	int r = template_newest(all, tenant, text_from(forking->template), forking->tree);

	if (r < 0)
		return refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	if (r == 0)
		return refusal_set(ret_refusal, TOOL_NOT_FOUND,
			"The tenant has no such template: make one with workspace.freeze");
	error = managed_quota_check_many(all->managed_fd, tenant, forking->count, ret_refusal);
	if (error == TOOL_OK && id_range())
		error = copy_check_room(tenant, ret_refusal);
	if (error == TOOL_OK && choose_names(forking) < 0)
		error = refusal_set(ret_refusal, TOOL_BUSY, NULL);
	return error;
}

/* Whether @prefix, with a number of any length, is a workspace's name. */
static bool is_prefix(struct text prefix)
{
	return is_managed_name(prefix) && prefix.len + 1 + DIGITS <= LIMIT_TEMPLATE_NAME_BYTES;
}

static void copy_text(struct text text, char ret[LIMIT_TEMPLATE_NAME_BYTES + 1])
{
	snprintf(ret, LIMIT_TEMPLATE_NAME_BYTES + 1, "%.*s", (int)text.len, text.data);
}

enum tool_error forks_begin(struct workspaces *all, struct tenant *tenant,
	const struct forks_wanted *wanted, forks_made made, void *context, struct forking **ret,
	struct refusal *ret_refusal)
{
	struct text template = wanted->template, prefix = wanted->prefix;
	struct forking *forking;
	enum tool_error error;

	if (!is_managed_name(template))
		return refusal_set(
			ret_refusal, TOOL_INVALID_ARGUMENTS, "from must be the name of a template");
	if (!is_prefix(prefix.data ? prefix : template))
		return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"prefix must have 1 to %d letters, digits, '.', '_' or '-' and not begin "
			"with '.'; without it, the template's name must be that short",
			LIMIT_TEMPLATE_NAME_BYTES - DIGITS - 1);
	forking = calloc(1, sizeof(*forking));
	if (!forking)
		return refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
	*forking = (struct forking){.all = all,
		.tenant = tenant_hold(tenant),
		.as_root = wanted->as_root,
		.with = properties_copy(wanted->with),
		.first = 1,
		.count = wanted->count,
		.made = made,
		.context = context,
		.tell = {.act = tell_end, .context = forking},
		.slice = {.act = make_layers, .context = forking},
		.copies = id_range() ? calloc(wanted->count, sizeof(*forking->copies)) : NULL};
	copy_text(template, forking->template);
	copy_text(prefix.data ? prefix : template, forking->prefix);
	LIST_INSERT_HEAD(&all->forking, forking, entry);
	error = id_range() && !forking->copies
			? refusal_set(ret_refusal, TOOL_BUSY, "Out of memory")
			: check_forking(all, forking, ret_refusal);
	if (error != TOOL_OK) {
		free(TAKE_PTR(forking->copies));
		forking_free(forking);
		return error;
	}
	*ret = forking;
	if (forking->copies) {
		tenant->usage->copies++;
		load(forking);
	} else {
		begin_layers(forking);
	}
	return TOOL_OK;
}

void forking_free(struct forking *forking)
{
	if (!forking)
		return;
	if (forking->copying || forking->loading)
		spawner_link_forget(forking->all->spawner, forking->asked);
	for (uint32_t i = 0; forking->copies && i < forking->count; i++)
		if (forking->copies[i].name[0])
			unfinished_drop(forking->all, forking->tenant, false, &forking->copies[i]);
	if (forking->copies)
		forking->tenant->usage->copies--;
	stop_making(forking);
	loop_turn_cancel(&forking->tell);
	LIST_REMOVE(forking, entry);
	template_let_go(forking->all, forking->tenant, forking->tree);
	tenant_release(forking->tenant);
	properties_done(&forking->with);
	free(forking->copies);
	free(forking->why);
	free(forking->why_copied);
	free(forking);
}
