// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. What a workspace is and who uses it; workspace_life.c has its cell. */
#include "supervisor/workspace/workspace.h"

#include "common/cleanup.h"
#include "common/shown_at.h"
#include "supervisor/base/clock.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/network/network_use.h"
#include "supervisor/workspace/workspace_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void workspace_set_removing(struct workspace *workspace, bool removing)
{
	workspace->removing = removing;
}

struct shared_fd_sum *workspace_fd_sum(const struct workspace *workspace)
{
	return workspace->fd_sum;
}

void workspace_set_moved(struct workspace *workspace, uint64_t move)
{
	workspace->moved = move;
}

uint64_t workspace_moved(const struct workspace *workspace)
{
	return workspace->moved;
}

void workspace_set_lingers(struct workspace *workspace, bool lingers)
{
	workspace->lingers = lingers;
}

bool workspace_lingers(const struct workspace *workspace)
{
	return workspace->lingers;
}

bool workspace_let_go(struct workspace *workspace)
{
	/* Its client has yet to decide, and can do so here alone; or another generation would
	 * change what is copied. */
	if (workspace->preview || workspace->freeze)
		return false;
	if (TAILQ_EMPTY(&workspace->entries) && !workspace->swap)
		cell_rest(workspace->cell);
	return TAILQ_EMPTY(&workspace->entries) &&
	       cell_status(workspace->cell) == CELL_STATUS_CLOSED;
}

void workspace_where(
	const struct workspace *workspace, dev_t *ret_dev, ino_t *ret_ino, uid_t *ret_owner)
{
	struct directory_known known;

	*ret_dev = workspace->root.dev;
	*ret_ino = workspace->root.ino;
	*ret_owner = directory_known(workspace->root.fd, &known) == 0 ? known.uid : (uid_t)-1;
}

struct tenant *workspace_tenant(const struct workspace *workspace)
{
	return workspace->tenant;
}

void workspace_attend(struct workspace *workspace, bool open)
{
	assert(open || workspace->attended > 0);
	workspace->attended += open ? 1 : -1UL;
	if (workspace->attended == 0)
		workspace->unattended_since = clock_now();
}

int64_t workspace_unattended_since(const struct workspace *workspace)
{
	return workspace->attended > 0 ? 0 : workspace->unattended_since;
}

struct workspace *workspace_hold(struct workspace *workspace)
{
	workspace->users++;
	return workspace;
}

void workspace_release(struct workspace *workspace)
{
	if (!workspace)
		return;
	assert(workspace->users > 0);
	workspace->users--;
	cell_settle(workspace->cell);
}

const char *workspace_name(const struct workspace *workspace)
{
	return workspace->name;
}

enum workspace_kind workspace_kind(const struct workspace *workspace)
{
	return workspace->kind;
}

struct text workspace_visible(const struct workspace *workspace)
{
	if (workspace_is_root(workspace))
		return TEXT_LITERAL("/");
	if (workspace->kind != WORKSPACE_MANAGED)
		return text_from(workspace->root.path);
	return text_from(workspace->properties.shown_at[0] ? workspace->properties.shown_at
							   : SHOWN_AT_DEFAULT);
}

const char *workspace_host_path(const struct workspace *workspace)
{
	return workspace->root.path;
}

bool workspace_is_root(const struct workspace *workspace)
{
	return workspace->as_root || workspace->kind == WORKSPACE_ROOTFS;
}

bool workspace_root_inside(const struct workspace *workspace)
{
	return workspace->as_root && workspace->tenant->root_inside;
}

size_t workspace_users(const struct workspace *workspace)
{
	return workspace->users;
}

bool workspace_is_open(const struct workspace *workspace)
{
	return cell_serves(workspace->cell, CELL_FILES);
}

bool workspace_narrow(struct workspace *workspace, const char *allow)
{
	bool same = workspace->allow && strcmp(workspace->allow, allow) == 0;
	char *wanted;

	if (same)
		return true;
	if (workspace->users > 1 || cell_status(workspace->cell) != CELL_STATUS_CLOSED)
		return false;
	/* Without memory it stays as narrow as it was. */
	wanted = strdup(allow);
	if (!wanted)
		return false;
	free(workspace->allow);
	workspace->allow = wanted;
	return true;
}

bool workspace_has_network(const struct workspace *workspace)
{
	return workspace->network;
}

const char *workspace_narrowed(const struct workspace *workspace)
{
	return workspace->allow;
}

void workspace_begin_use(struct workspace *workspace, struct network_use *use, uint64_t call)
{
	if (workspace->network)
		egress_use_begin(workspace->network, use, call);
}

void workspace_send_files(
	struct workspace *workspace, uint8_t type, uint64_t call, struct text payload)
{
	cell_send(workspace->cell, CELL_FILES, type, call, payload, NULL, 0);
}

void workspace_send_worker(struct workspace *workspace, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds)
{
	cell_send(workspace->cell, CELL_WORKER, type, call, payload, fds, n_fds);
}

void workspace_add_cpu(struct workspace *workspace, uint64_t us)
{
	workspace->ended_cpu_us += us;
}
