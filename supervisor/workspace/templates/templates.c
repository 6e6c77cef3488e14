// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. mkdir(2), rename(2). */
#include "supervisor/workspace/templates/templates.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/layer_names.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/templates/forking.h"
#include "supervisor/workspace/templates/template_size.h"
#include "supervisor/workspace/workspace_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *tenant_directory(const struct tenant *tenant)
{
	return tenant->any_root ? "." : tenant->name;
}

/* Opens the directory of the tenant's templates, or of its managed workspaces. */
static int open_templates_directory(
	int managed_fd, const struct tenant *tenant, bool template, bool make)
{
	_cleanup_close_ int all = -1;
	const char *name = tenant_directory(tenant);
	int fd;

	if (managed_fd < 0)
		return -ENOENT;
	if (!template)
		return managed_directory(managed_fd, tenant);
	all = openat(managed_fd, "../" TEMPLATES, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (all < 0)
		return -errno;
	if (make && mkdirat(all, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(all, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* A template's tree: the name of its directory is @name, and from the second on "~" and @number. */
struct tree {
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];
	uint32_t number;
};

static bool tree_read(struct text entry, struct tree *ret)
{
	const char *mark;
	size_t len;

	if (!is_template_tree(entry))
		return false;
	mark = memchr(entry.data, TEMPLATE_TREE_MARK, entry.len);
	len = mark ? (size_t)(mark - entry.data) : entry.len;
	memcpy(ret->name, entry.data, len);
	ret->name[len] = '\0';
	ret->number = mark ? 0 : 1;
	for (size_t i = len + 1; i < entry.len; i++)
		ret->number = ret->number * 10 + (uint32_t)(entry.data[i] - '0');
	return true;
}

static void tree_put(const struct tree *tree, char ret[LIMIT_TEMPLATE_TREE_BYTES + 1])
{
	if (tree->number == 1)
		snprintf(ret, LIMIT_TEMPLATE_TREE_BYTES + 1, "%s", tree->name);
	else
		snprintf(ret, LIMIT_TEMPLATE_TREE_BYTES + 1, "%s%c%u", tree->name,
			TEMPLATE_TREE_MARK, tree->number);
}

/* A tenant's trees, in the order of their names and numbers. */
struct trees {
	size_t n, size;
	struct tree *list;
};

static int compare_trees(const void *a, const void *b)
{
	const struct tree *one = a, *other = b;
	int order = strcmp(one->name, other->name);

	return order != 0 ? order : (one->number > other->number) - (one->number < other->number);
}

static int add_tree(struct trees *trees, const struct tree *tree)
{
	if (trees->n == trees->size) {
		size_t size = trees->size > 0 ? 2 * trees->size : 64;
		void *list = reallocarray(trees->list, size, sizeof(*trees->list));

		if (!list)
			return -ENOMEM;
		trees->list = list;
		trees->size = size;
	}
	trees->list[trees->n++] = *tree;
	return 0;
}

/* @directory: of the tenant's templates, or -errno. */
static int read_trees(int directory, struct trees *ret)
{
	DIR *stream = directory < 0 ? NULL : directory_read(directory, ".");
	const struct dirent *entry;
	struct tree tree;
	int r = directory < 0 ? directory : stream ? 0 : -errno;

	if (r == -ENOENT) /* the tenant has none yet */
		return 0;
	while (r == 0 && (entry = readdir(stream)))
		if (tree_read(text_from(entry->d_name), &tree))
			r = add_tree(ret, &tree);
	if (stream)
		closedir(stream);
	if (ret->n > 0)
		qsort(ret->list, ret->n, sizeof(*ret->list), compare_trees);
	return r;
}

static bool tree_is_replaced(const struct trees *trees, size_t i)
{
	return i + 1 < trees->n && strcmp(trees->list[i].name, trees->list[i + 1].name) == 0;
}

/* Returns the number of the newest tree of @name; 0: there is none. */
static uint32_t newest_tree(const struct trees *trees, struct text name)
{
	uint32_t number = 0;

	for (size_t i = 0; i < trees->n; i++)
		if (text_equal(text_from(trees->list[i].name), name))
			number = trees->list[i].number;
	return number;
}

int template_newest(const struct workspaces *all, const struct tenant *tenant, struct text name,
	char ret[LIMIT_TEMPLATE_TREE_BYTES + 1])
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, true, false);
	struct trees trees = {0};
	struct tree tree;
	int r;

	if (!is_managed_name(name) || !tree_read(name, &tree))
		return 0;
	r = read_trees(directory, &trees);
	tree.number = newest_tree(&trees, name);
	free(trees.list);
	if (r < 0)
		return r;
	tree_put(&tree, ret);
	return tree.number > 0;
}

/* The trees that forks are mounted above, one for each fork. */
struct uses {
	size_t n, size;
	char (*names)[LIMIT_TEMPLATE_TREE_BYTES + 1];
};

static int add_use(void *context, const char *tree)
{
	struct uses *uses = context;

	if (uses->n == uses->size) {
		size_t size = uses->size > 0 ? 2 * uses->size : 64;
		void *names = reallocarray(uses->names, size, sizeof(*uses->names));

		if (!names)
			return -ENOMEM;
		uses->names = names;
		uses->size = size;
	}
	snprintf(uses->names[uses->n++], sizeof(*uses->names), "%s", tree);
	return 0;
}

/* What is done with the tree of a fork. A result other than 0 ends the search. */
typedef int (*use_found)(void *context, const char *tree);

static int find_use(int tenant_fd, const char *name, use_found found, void *context)
{
	DIR *layers = directory_read(tenant_fd, name);
	const struct dirent *entry;
	int r = layers || errno == ENOENT || errno == ENOTDIR ? 0 : -errno;

	while (layers && r == 0 && (entry = readdir(layers)))
		if (strncmp(entry->d_name, LAYERS_FROM, strlen(LAYERS_FROM)) == 0)
			r = found(context, entry->d_name + strlen(LAYERS_FROM));
	if (layers)
		closedir(layers);
	return r;
}

/* Returns 0, what @found has returned, or -errno. */
static int each_use(int managed_fd, const struct tenant *tenant, use_found found, void *context)
{
	_cleanup_close_ int fd = managed_directory(managed_fd, tenant);
	DIR *directory = fd < 0 ? NULL : directory_read(fd, ".");
	const struct dirent *entry;
	int r = 0;

	if (!directory)
		return fd == -ENOENT ? 0 : fd < 0 ? fd : -errno;
	while (r == 0 && (entry = readdir(directory)))
		if (strncmp(entry->d_name, LAYERS_PREFIX, strlen(LAYERS_PREFIX)) == 0)
			r = find_use(fd, entry->d_name, found, context);
	closedir(directory);
	return r;
}

static int read_uses(int managed_fd, const struct tenant *tenant, struct uses *ret)
{
	return each_use(managed_fd, tenant, add_use, ret);
}

static size_t count_uses(const struct uses *uses, const char *template)
{
	size_t n = 0;

	for (size_t i = 0; i < uses->n; i++)
		n += strcmp(uses->names[i], template) == 0;
	return n;
}

static int64_t made_ms(int directory, const char *name)
{
	struct statx status;

	if (statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &status) < 0 ||
		!(status.stx_mask & STATX_BTIME))
		return 0;
	return status.stx_btime.tv_sec * 1000 + status.stx_btime.tv_nsec / 1000000;
}

static int is_use(void *context, const char *tree)
{
	const char **wanted = context;

	return strcmp(*wanted, tree) == 0;
}

/* Whether a fork shows the tree, or is being made of it. If that is not known, it is. */
static bool tree_is_used(
	const struct workspaces *all, const struct tenant *tenant, const char *tree)
{
	return forks_copy(all, tenant, tree) ||
	       each_use(all->managed_fd, tenant, is_use, &tree) != 0;
}

int templates_each(const struct workspaces *all, const struct tenant *tenant,
	void (*each)(void *context, const struct template_info *info), void *context)
{
	_cleanup_close_ int fd = open_templates_directory(all->managed_fd, tenant, true, false);
	struct uses uses = {0};
	struct trees trees = {0};
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = read_uses(all->managed_fd, tenant, &uses);
	if (r == 0)
		r = read_trees(fd, &trees);
	for (size_t i = 0; r == 0 && i < trees.n; i++) {
		char tree[LIMIT_TEMPLATE_TREE_BYTES + 1];

		tree_put(&trees.list[i], tree);
		each(context, &(struct template_info){.name = trees.list[i].name,
				      .made_ms = made_ms(fd, tree),
				      .forks = count_uses(&uses, tree),
				      .replaced = tree_is_replaced(&trees, i),
				      .bytes = template_size(fd, tree)});
	}
	free(trees.list);
	free(uses.names);
	return r;
}

/* Moves the tree to a name that only a tree to be cleared has. */
static int put_aside(const struct workspaces *all, const struct tenant *tenant, const char *tree)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, true, false);
	struct unfinished aside;
	int r = unfinished_make(all, tenant, true, &aside);

	if (r < 0 || directory < 0)
		return r < 0 ? r : directory;
	/* The new directory is empty, so that this takes its place. */
	if (renameat(directory, tree, directory, aside.name) < 0)
		return -errno;
	unfinished_drop(all, tenant, true, &aside);
	template_size_forget(directory, tree);
	return 0;
}

/* Another generation may be copying a tree that this one does not use. */
static bool may_drop(const struct workspaces *all)
{
	return !all->retiring && !all->elsewhere;
}

static bool one_is_replaced(const struct trees *trees)
{
	for (size_t i = 0; i < trees->n; i++)
		if (tree_is_replaced(trees, i))
			return true;
	return false;
}

/* Drops trees that are replaced and unused. */
static void drop_replaced(const struct workspaces *all, const struct tenant *tenant, int directory)
{
	char tree[LIMIT_TEMPLATE_TREE_BYTES + 1];
	struct trees trees = {0};
	struct uses uses = {0};

	/* The uses once for all: each reads a directory of every workspace. */
	if (may_drop(all) && read_trees(directory, &trees) == 0 && one_is_replaced(&trees) &&
		read_uses(all->managed_fd, tenant, &uses) == 0)
		for (size_t i = 0; i < trees.n; i++) {
			tree_put(&trees.list[i], tree);
			if (tree_is_replaced(&trees, i) && count_uses(&uses, tree) == 0 &&
				!forks_copy(all, tenant, tree))
				(void)put_aside(all, tenant, tree);
		}
	free(trees.list);
	free(uses.names);
}

void template_let_go(const struct workspaces *all, const struct tenant *tenant, const char *tree)
{
	struct tree read;
	char now[LIMIT_TEMPLATE_TREE_BYTES + 1];

	if (tree_read(text_from(tree), &read) &&
		template_newest(all, tenant, text_from(read.name), now) > 0 &&
		strcmp(tree, now) != 0 && may_drop(all) && !tree_is_used(all, tenant, tree))
		templates_measure(all, tenant);
}

void templates_measure(const struct workspaces *all, const struct tenant *tenant)
{
	_cleanup_close_ int fd = open_templates_directory(all->managed_fd, tenant, true, false);
	const struct dirent *entry;
	uint64_t sum = 0;
	DIR *directory;

	if (fd >= 0)
		drop_replaced(all, tenant, fd);
	directory = fd < 0 ? NULL : directory_read(fd, ".");
	while (directory && (entry = readdir(directory))) {
		int64_t bytes = -1;

		if (!is_template_tree(text_from(entry->d_name)))
			continue;
		bytes = template_size(fd, entry->d_name);
		if (bytes < 0)
			spawner_link_measure(all->spawner, tenant_directory(tenant), entry->d_name);
		else
			sum += (uint64_t)bytes;
	}
	if (directory)
		closedir(directory);
	tenant->usage->template_bytes = sum;
	tenant->usage->templates = templates_count(all->managed_fd, tenant);
}

void template_measured(
	const struct workspaces *all, const struct tenant *tenant, struct text name, uint64_t bytes)
{
	_cleanup_close_ int fd = open_templates_directory(all->managed_fd, tenant, true, false);
	char string[LIMIT_TEMPLATE_TREE_BYTES + 1];
	struct stat stat_buf;
	struct tree tree;

	if (fd < 0 || !tree_read(name, &tree))
		return;
	tree_put(&tree, string);
	/* It may have been removed meanwhile, and another one made. */
	if (fstatat(fd, string, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0 ||
		template_size(fd, string) >= 0)
		return;
	if (template_size_note(fd, string, bytes) == 0)
		tenant->usage->template_bytes += bytes;
}

size_t templates_count(int managed_fd, const struct tenant *tenant)
{
	_cleanup_close_ int fd = open_templates_directory(managed_fd, tenant, true, false);
	DIR *directory = fd < 0 ? NULL : directory_read(fd, ".");
	const struct dirent *entry;
	size_t n = 0;

	while (directory && (entry = readdir(directory)))
		n += is_template_tree(text_from(entry->d_name));
	if (directory)
		closedir(directory);
	return n;
}

static enum tool_error refuse_too_many(
	const struct tenant *tenant, size_t n, struct refusal *ret_refusal)
{
	return n < tenant->limits.templates
		       ? TOOL_OK
		       : refusal_format(ret_refusal, TOOL_QUOTA_EXCEEDED,
				 "The tenant has %zu templates, which is its limit, with replaced "
				 "ones that forks use: remove some with template.remove",
				 n);
}

/* Whether one more than @trees may be called @name. *ret_newest: the tree that it replaces, or 0.
 */
static enum tool_error check_trees(const struct workspaces *all, const struct tenant *tenant,
	const struct trees *trees, struct text name, bool replace, uint32_t *ret_newest,
	struct refusal *ret_refusal)
{
	char string[LIMIT_TEMPLATE_TREE_BYTES + 1];
	struct tree tree;

	*ret_newest = newest_tree(trees, name);
	tenant->usage->templates = trees->n;
	if (*ret_newest == 0)
		return refuse_too_many(tenant, trees->n, ret_refusal);
	if (!replace)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"There is a template of this name: choose another one, replace it "
			"(\"replace\": true, --replace), or remove it (template.remove)");
	if (*ret_newest == LIMIT_TEMPLATE_TREES)
		return refusal_set(ret_refusal, TOOL_BUSY,
			"The template was replaced too often: remove it with template.remove");
	/* Of one that is replaced both exist for a moment, and longer if forks show it. */
	(void)tree_read(name, &tree);
	tree.number = *ret_newest;
	tree_put(&tree, string);
	if (trees->n == tenant->limits.templates && !tree_is_used(all, tenant, string))
		return TOOL_OK;
	return refuse_too_many(tenant, trees->n, ret_refusal);
}

static enum tool_error check_new(const struct workspaces *all, const struct tenant *tenant,
	struct text name, bool replace, uint32_t *ret_newest, struct refusal *ret_refusal)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, true, false);
	struct trees trees = {0};
	enum tool_error error;
	int r;

	if (!is_managed_name(name))
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"template must be a name of 1 to 64 letters, digits, '.', '_' or '-' that "
			"does not begin with '.'");
	if (all->managed_fd < 0 || !tenant->managed)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"This tenant may not have managed workspaces, and so no templates");
	r = read_trees(directory, &trees);
	error = r < 0 ? refusal_set(ret_refusal, tool_error_from_errno(-r), NULL)
		      : check_trees(all, tenant, &trees, name, replace, ret_newest, ret_refusal);
	free(trees.list);
	return error;
}

enum tool_error template_check_new(const struct workspaces *all, const struct tenant *tenant,
	struct text name, bool replace, struct refusal *ret_refusal)
{
	uint32_t newest;

	return check_new(all, tenant, name, replace, &newest, ret_refusal);
}

int unfinished_make(const struct workspaces *all, const struct tenant *tenant, bool template,
	struct unfinished *ret)
{
	static unsigned long last;
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, template, true);
	struct timespec now;
	int r;

	if (directory < 0)
		return directory;
	do {
		clock_gettime(CLOCK_REALTIME, &now);
		snprintf(ret->name, sizeof(ret->name), TREE_UNFINISHED_BY "%lld.%09ld.%lu",
			(int)getpid(), (long long)now.tv_sec, now.tv_nsec, last++);
		r = mkdirat(directory, ret->name, 0700) < 0 ? -errno : 0;
	} while (r == -EEXIST);
	return r;
}

int unfinished_name(const struct workspaces *all, const struct tenant *tenant, bool template,
	const struct unfinished *unfinished, const char *name)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, template, false);

	if (directory < 0)
		return directory;
	return renameat2(directory, unfinished->name, directory, name, RENAME_NOREPLACE) < 0
		       ? -errno
		       : 0;
}

int template_name(const struct workspaces *all, const struct tenant *tenant,
	const struct unfinished *unfinished, const char *name, bool replace,
	struct refusal *ret_refusal)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, true, false);
	char string[LIMIT_TEMPLATE_TREE_BYTES + 1];
	struct tree tree;
	uint32_t newest = 0;
	int r;

	if (check_new(all, tenant, text_from(name), replace, &newest, ret_refusal) != TOOL_OK)
		return -EPERM;
	(void)tree_read(text_from(name), &tree);
	tree.number = newest + 1;
	tree_put(&tree, string);
	if (directory >= 0) /* a death may have left that of another */
		template_size_forget(directory, string);
	r = unfinished_name(all, tenant, true, unfinished, string);
	if (r < 0) {
		refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
		return r;
	}
	templates_measure(all, tenant);
	return tree.number > 1;
}

bool unfinished_has_id(const struct workspaces *all, const struct tenant *tenant,
	const struct unfinished *unfinished)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, false, false);
	struct stat stat_buf;

	return directory >= 0 &&
	       fstatat(directory, unfinished->name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0 &&
	       stat_buf.st_uid != geteuid();
}

void unfinished_drop(const struct workspaces *all, const struct tenant *tenant, bool template,
	const struct unfinished *unfinished)
{
	spawner_link_dropped(all->spawner, template, tenant_directory(tenant), unfinished->name);
}

/* The trees of the template that template_remove() removes. */
struct removed {
	struct trees trees;
	size_t forks; /* that show one of them */
	bool copied;  /* forks are being made of one */
};

static int read_removed(const struct workspaces *all, const struct tenant *tenant, int directory,
	struct text name, struct removed *ret)
{
	char tree[LIMIT_TEMPLATE_TREE_BYTES + 1];
	struct trees trees = {0};
	struct uses uses = {0};
	int r = read_trees(directory, &trees);

	if (r == 0)
		r = read_uses(all->managed_fd, tenant, &uses);
	for (size_t i = 0; r == 0 && i < trees.n; i++) {
		if (!text_equal(text_from(trees.list[i].name), name))
			continue;
		tree_put(&trees.list[i], tree);
		ret->forks += count_uses(&uses, tree);
		ret->copied |= forks_copy(all, tenant, tree);
		r = add_tree(&ret->trees, &trees.list[i]);
	}
	free(trees.list);
	free(uses.names);
	return r;
}

enum tool_error template_remove(const struct workspaces *all, const struct tenant *tenant,
	struct text name, struct refusal *ret_refusal)
{
	_cleanup_close_ int directory =
		open_templates_directory(all->managed_fd, tenant, true, false);
	char tree[LIMIT_TEMPLATE_TREE_BYTES + 1];
	enum tool_error error = TOOL_OK;
	struct removed removed = {0};
	int r = 0;

	if (is_managed_name(name))
		r = read_removed(all, tenant, directory, name, &removed);
	if (r == 0 && removed.trees.n == 0)
		error = refusal_set(ret_refusal, TOOL_NOT_FOUND,
			"The tenant has no such template: cloisterctl templates lists them");
	else if (removed.copied)
		error = refusal_set(ret_refusal, TOOL_BUSY,
			"Forks are being made of the template: try again later");
	else if (removed.forks > 0)
		error = refusal_format(ret_refusal, TOOL_BUSY,
			removed.forks == 1 ? "%zu fork uses it: remove that workspace first"
					   : "%zu forks use it: remove those workspaces first",
			removed.forks);
	/* The oldest first: a death on the way leaves a template that is whole. */
	for (size_t i = 0; r == 0 && error == TOOL_OK && i < removed.trees.n; i++) {
		tree_put(&removed.trees.list[i], tree);
		r = put_aside(all, tenant, tree);
	}
	free(removed.trees.list);
	if (r < 0)
		error = refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	if (error == TOOL_OK)
		templates_measure(all, tenant);
	return error;
}
