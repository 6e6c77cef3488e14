// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. Names are looked up in cloister's own state directory only, in directories
 * that no workspace can write.
 */
#include "worker/spawner/cell/cell_layers.h"

#include "common/cleanup.h"
#include "common/selftest_tenants.h"
#include "worker/mounts.h"
#include "worker/spawner/cell/cell.h"
#include "worker/spawner/cell/place.h"
#include "worker/spawner/job/template_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct live_layers {
	LIST_ENTRY(live_layers) entry;
	struct giver mounter;
	struct template_memory *memory;
	struct memory_template *template; /* that it uses there; NULL: none */
	pid_t pids[2];                    /* 0 once reaped */
};

void cell_layers_init(struct cell_layers *layers)
{
	LIST_INIT(&layers->live);
}

/* Opens the directory that has the layers of the workspace at @path. */
static int open_stack_layers(const char *path)
{
	const char *name = strrchr(path, '/');
	_cleanup_close_ int fd = -1;
	char layers[PATH_MAX];
	struct stat stat_buf;

	if (!name || snprintf(layers, sizeof(layers), "%.*s/" LAYERS_PREFIX "%s",
			     (int)(name - path), path, name + 1) >= (int)sizeof(layers))
		return -ENAMETOOLONG;
	fd = mount_open_point(layers, O_DIRECTORY);
	if (fd < 0 || fstat(fd, &stat_buf) < 0)
		return -errno;
	/* It is cloister's own: a workspace's id could exchange its layers. */
	if (stat_buf.st_uid != geteuid())
		return -EPERM;
	/* cloisterd's umask may be any. */
	return fchmodat(AT_FDCWD, layers, 0711, 0) < 0 ? -errno : TAKE_FD(fd);
}

static int open_layer(int layers, const uint32_t *number)
{
	char name[sizeof("4294967295-4294967295")];
	int fd;

	snprintf(name, sizeof(name), "%u-%u", number[0], number[-1]);
	fd = openat(layers, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The overlay mounter, with the workspace's id, goes through it. */
	if (fchmodat(layers, name, 0711, 0) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

static int check_owner(struct cell *cell, int layer, const char *name, struct stat *ret)
{
	if (fstatat(layer, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(ret->st_mode) && ret->st_uid == cell->id.uid)
		return 0;
	cell->reason = "a layer of the workspace does not belong to the workspace's id";
	return -SPAWNER_REFUSAL;
}

/*
 * The root of the workspace is that of the layer below, until something is changed. "u" comes last:
 * where it is, the layer is made.
 */
static int make_top(struct cell *cell, int layer, const struct stat *below)
{
	const struct timespec times[] = {below->st_atim, below->st_mtim};

	if ((mkdirat(layer, "w", 0700) < 0 && errno != EEXIST) ||
		fchownat(layer, "w", cell->id.uid, cell->id.gid, AT_SYMLINK_NOFOLLOW) < 0 ||
		mkdirat(layer, "u", 0700) < 0 ||
		fchownat(layer, "u", cell->id.uid, cell->id.gid, AT_SYMLINK_NOFOLLOW) < 0 ||
		fchmodat(layer, "u", below->st_mode & 07777, 0) < 0 ||
		utimensat(layer, "u", times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/*
 * Whether the highest layer has yet to be made. A directory "u" that belongs to cloister was not
 * given to the workspace, for want of room in its quota, and is made once more.
 */
static bool is_unmade(const struct cell *cell, int layer)
{
	struct stat stat_buf;

	if (fstatat(layer, "u", &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	return stat_buf.st_uid != cell->id.uid && stat_buf.st_uid == geteuid() &&
	       unlinkat(layer, "u", AT_REMOVEDIR) == 0;
}

/* Checks the layers, and makes the highest if it is new. */
static int prepare_layer(struct cell *cell, int layers, const struct stat *base)
{
	const struct layer_stack *stack = &cell->request->layers;
	struct stat stat_buf = *base;
	int r = 0;

	for (size_t i = 1; r == 0 && i < stack->count; i++) {
		_cleanup_close_ int layer = open_layer(layers, &stack->numbers[i]);

		if (layer < 0)
			return layer;
		if (i + 1 == stack->count && is_unmade(cell, layer))
			r = make_top(cell, layer, &stat_buf);
		if (r == 0)
			r = check_owner(cell, layer, "u", &stat_buf);
		/* A command may have removed the owner's permissions from its root. */
		if (r == 0 && i + 1 == stack->count && (stat_buf.st_mode & S_IRWXU) != S_IRWXU &&
			fchmodat(layer, "u", (stat_buf.st_mode & 07777) | S_IRWXU, 0) < 0)
			r = -errno;
	}
	return r;
}

/* The fork's own directory, layer 0, is empty and shows the template's root: with its mode. */
static int shape_own(const struct cell *cell, const struct stat *template)
{
	mode_t mode = (template->st_mode & 07777) | S_IRWXU;
	char link[64];

	if ((cell->place->stat.st_mode & 07777) == mode)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", cell->root);
	return chmod(link, mode) < 0 ? -errno : 0;
}

/* In system mode templates are cloister's own, and only in memory can their ids be mapped. */
static bool is_in_memory(const struct cell *cell)
{
	return cell->request->layers.template[0] && cell->maker->ids->count > 0;
}

/* Clones the mount of the template whose directory is @template. */
static int clone_base(struct cell *cell, int template, const char *tenant,
	const struct stat *on_disk, int *ret_tree, struct memory_template **ret)
{
	const struct cell_maker *maker = cell->maker;
	int r;

	if (!is_in_memory(cell))
		return mount_clone(template, "", 0, ret_tree);
	r = template_memory_take(
		maker->templates, tenant, cell->request->layers.template, on_disk, ret_tree, ret);
	if (r == -SPAWNER_NOT_LOADED)
		cell->failed = "find the workspace's template in memory, which had to make room: "
			       "try again";
	return r;
}

/*
 * Opens the template below the layers, and clones its mount. It is one of the tenant's whose
 * directory has the workspace, and belongs to the workspace's id; or, in system mode, where it is
 * used from memory, to cloister's own.
 */
static int open_base(
	struct cell *cell, int *ret_tree, struct stat *ret_stat, struct memory_template **ret)
{
	uid_t owner = is_in_memory(cell) ? cell->maker->ids->own.uid : cell->id.uid;
	const char *path = cell->place->path, *end = strrchr(path, '/');
	const char *begin = end ? memrchr(path, '/', (size_t)(end - path)) : NULL;
	_cleanup_close_ int template = -1;
	char tenant[NAME_MAX + 1];
	int r;

	if (!begin)
		return -ENOENT;
	snprintf(tenant, sizeof(tenant), "%.*s", (int)(end - begin - 1), begin + 1);
	/* Without tenants, workspaces lie in the directory of all, but for the self-test's. */
	if (!cell->maker->policy && strcmp(tenant, SELFTEST_TENANT) != 0)
		strcpy(tenant, ".");
	template = place_open(
		cell->maker->ids->managed, TEMPLATES, tenant, cell->request->layers.template);
	if (template <0)
		return template;
	if (fstat(template, ret_stat) < 0)
		return -errno;
	if (ret_stat->st_uid != owner) {
		cell->reason = "the workspace's template does not belong to the workspace's id";
		return -SPAWNER_REFUSAL;
	}
	r = shape_own(cell, ret_stat);
	return r < 0 ? r : clone_base(cell, template, tenant, ret_stat, ret_tree, ret);
}

/* An overlay mounter that waits for its ids, and the template in memory that it is to show; -1:
 * none. */
struct mapping {
	const struct cell *cell;
	int template;
};

/* The overlay mounter's user namespace says as whose the template's files are seen: the workspace's
 * id. */
static int map_ids(void *context, pid_t pid)
{
	const struct mapping *mapping = context;
	_cleanup_close_ int namespace = -1;
	char path[64];
	int r = cell_id_write_maps(mapping->cell->id, pid);

	if (r < 0 || mapping->template <0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	namespace = open(path, O_RDONLY | O_CLOEXEC);
	return namespace < 0 ? -errno : mount_map_ids(mapping->template, namespace);
}

static int start_mounter(struct cell *cell, int layers, int template, struct giver *ret)
{
	static char step[GIVER_STEP_BYTES];
	struct mapping mapping = {cell, is_in_memory(cell) ? template : -1};
	struct overlay_mounter_start start = {.stack = &cell->request->layers,
		.base = cell->trees[0],
		.template = template,
		.layers = -1,
		.drops_groups = cell->maker->ids->count > 0,
		.map = map_ids,
		.context = &mapping};
	int r = mount_clone(layers, "", 0, &start.layers);

	if (r == 0)
		r = overlay_mounter_start(&start, ret, step);
	close_fd(&start.layers);
	if (r < 0 && step[0])
		cell->failed = step;
	return r;
}

static int take_clones(struct cell *cell, const struct giver *mounter)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cell->trees); i++) {
		close_fd(&cell->trees[i]);
		r = overlay_mounter_clone(mounter, &cell->trees[i]);
	}
	return r < 0 ? r : overlay_mounter_views(mounter, &cell->layers);
}

int cell_layers_mount(struct cell *cell)
{
	_cleanup_close_ int layers = -1, template = -1;
	struct stat base = cell->place->stat;
	struct memory_template *used = NULL;
	struct live_layers *live;
	int r;

	if (cell->request->layers.count == 0)
		return 0;
	layers = open_stack_layers(cell->place->path);
	r = layers < 0 ? layers : 0;
	if (r == 0 && cell->request->layers.template[0])
		r = open_base(cell, &template, &base, &used);
	if (r == 0)
		r = prepare_layer(cell, layers, &base);
	live = calloc(1, sizeof(*live));
	if (r == 0)
		r = live ? start_mounter(cell, layers, template, &live->mounter) : -ENOMEM;
	if (r < 0 || !live) {
		template_memory_leave(cell->maker->templates, used);
		free(live);
		return r;
	}
	live->memory = cell->maker->templates;
	live->template = used;
	LIST_INSERT_HEAD(&cell->maker->layers->live, live, entry);
	cell->live_layers = live;
	return take_clones(cell, &live->mounter);
}

static struct live_layers *find_live_layers(const struct cell_layers *layers, pid_t worker)
{
	struct live_layers *live;

	LIST_FOREACH (live, &layers->live, entry)
		if (live->pids[SPAWNER_OPENED_WORKER] == worker)
			return live;
	return NULL;
}

int cell_layers_of(const struct cell_layers *layers, pid_t worker, int *ret_tree)
{
	const struct live_layers *live = find_live_layers(layers, worker);

	return live ? overlay_mounter_clone(&live->mounter, ret_tree) : -ENOENT;
}

int cell_layers_mount_again(struct cell *cell)
{
	struct live_layers *live =
		find_live_layers(cell->maker->layers, cell->pids[SPAWNER_OPENED_WORKER]);

	cell->reason = "the layers are not those of the workspace's worker";
	if (!live != (cell->request->layers.count == 0))
		return -SPAWNER_REFUSAL;
	cell->live_layers = live;
	return live ? take_clones(cell, &live->mounter) : 0;
}

static void forget_if_gone(struct live_layers *live)
{
	if (live->pids[0] != 0 || live->pids[1] != 0)
		return;
	giver_end(&live->mounter);
	template_memory_leave(live->memory, live->template);
	LIST_REMOVE(live, entry);
	free(live);
}

void cell_layers_holds(struct live_layers *live, const pid_t pids[2])
{
	if (!live)
		return;
	live->pids[0] = pids[0];
	live->pids[1] = pids[1];
	forget_if_gone(live);
}

void cell_layers_replace(struct cell_layers *layers, pid_t pid, pid_t by)
{
	struct live_layers *live;

	LIST_FOREACH (live, &layers->live, entry)
		for (int i = 0; i < 2; i++)
			if (live->pids[i] == pid)
				live->pids[i] = by;
}

void cell_layers_reaped(struct cell_layers *layers, pid_t pid)
{
	struct live_layers *live;

	LIST_FOREACH (live, &layers->live, entry) {
		if (live->mounter.pid == pid)
			giver_end(&live->mounter);
		if (live->pids[0] != pid && live->pids[1] != pid)
			continue;
		live->pids[live->pids[0] == pid ? 0 : 1] = 0;
		forget_if_gone(live);
		return;
	}
}
