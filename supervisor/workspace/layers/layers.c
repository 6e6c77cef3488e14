// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Looks only at names in the state directory that no workspace can write, never
 * into a layer. mkdir(2), rename(2).
 */
#include "supervisor/workspace/layers/layers.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/layers/layer_names.h"
#include "supervisor/workspace/managed/managed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define MODE 0711 /* the workspace's id goes through them to its layers */

/* All that is known of a workspace's layers. */
struct known {
	uint32_t at; /* 0: none takes changes */
	size_t n;
	struct layer layers[2 * LIMIT_LAYERS];
	char template[LIMIT_TEMPLATE_TREE_BYTES + 1];
};

/* Directories. */

static int open_in(int parent, const char *name)
{
	int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_layers(const struct layers_place *place, bool make)
{
	_cleanup_close_ int directory = managed_directory(place->managed_fd, place->tenant);
	char name[NAME_MAX + 1];

	if (directory < 0)
		return directory;
	snprintf(name, sizeof(name), LAYERS_PREFIX "%s", place->name);
	if (make && mkdirat(directory, name, MODE) < 0 && errno != EEXIST)
		return -errno;
	return open_in(directory, name);
}

/* Gives each name in the directory to @each, until that returns something else than 0. */
static int each_name(int directory_fd, int (*each)(void *context, int directory, const char *name),
	void *context)
{
	DIR *directory = directory_read(directory_fd, ".");
	const struct dirent *entry;
	int r = 0;

	if (!directory)
		return -errno;
	while (r == 0 && (errno = 0, entry = readdir(directory)))
		r = each(context, directory_fd, entry->d_name);
	if (r == 0)
		r = -errno;
	closedir(directory);
	return r;
}

/* Gives what is dropped a name that nothing else has, and tells the spawner. */
static int drop_layer(
	const struct layers_place *place, int directory, const char *name, bool inside)
{
	static unsigned long last;
	char dropped[96], path[NAME_MAX + sizeof(dropped)];
	struct timespec now;
	int r;

	do {
		clock_gettime(CLOCK_REALTIME, &now);
		snprintf(dropped, sizeof(dropped), LAYERS_DROPPED "%lld.%09ld.%lu",
			(long long)now.tv_sec, now.tv_nsec, last++);
		r = renameat2(directory, name, directory, dropped, RENAME_NOREPLACE);
	} while (r < 0 && errno == EEXIST);
	if (r < 0)
		return -errno;
	if (inside)
		snprintf(path, sizeof(path), LAYERS_PREFIX "%s/%s", place->name, dropped);
	else
		snprintf(path, sizeof(path), "%s", dropped);
	place->dropped(place->context, place->tenant->any_root ? "." : place->tenant->name, path);
	return 0;
}

/* The stack. */

/* Of those of one number the one that lies on the lowest layer has what the others have. */
static const struct layer *find(const struct known *known, uint32_t number)
{
	const struct layer *found = NULL;

	for (size_t i = 0; i < known->n; i++)
		if (known->layers[i].number == number &&
			(!found || known->layers[i].below < found->below))
			found = &known->layers[i];
	return found;
}

/* Whether the layers from @number down lie on @low. */
static bool lead_to(const struct known *known, uint32_t number, uint32_t low)
{
	while (number > low) {
		uint32_t below = number;

		for (size_t i = 0; i < known->n; i++)
			if (known->layers[i].number == number && known->layers[i].below >= low &&
				known->layers[i].below < below)
				below = known->layers[i].below;
		if (below == number)
			return false;
		number = below;
	}
	return number == low;
}

/*
 * Whether each other layer of the number of @layer was made one with those that lay below it, which
 * are dropped after it. Otherwise it cannot be told which of the two is meant. The layer that takes
 * changes has never been made one with others.
 */
static bool is_clear(const struct known *known, const struct layer *layer)
{
	for (size_t i = 0; i < known->n; i++)
		if (known->layers[i].number == layer->number && &known->layers[i] != layer &&
			(layer->number == known->at ||
				!lead_to(known, known->layers[i].below, layer->below)))
			return false;
	return true;
}

static int learn(void *context, int layers, const char *name)
{
	const struct layer_name read = layer_name_read(name);
	struct known *known = context;

	(void)layers;
	if (read.kind == LAYER_NAME_AT && known->at != 0)
		return -EBADMSG;
	if (read.kind == LAYER_NAME_AT)
		known->at = read.number;
	/* Two, or one that is no name, make the stack invalid. */
	if (read.kind == LAYER_NAME_FROM)
		snprintf(known->template, sizeof(known->template), "%s",
			known->template[0] || !read.template[0] ? "/" : read.template);
	if (read.kind != LAYER_NAME_LAYER)
		return 0;
	if (known->n == ARRAY_SIZE(known->layers))
		return -EBADMSG;
	known->layers[known->n++] = (struct layer){read.number, read.below};
	return 0;
}

/* Follows the layers from the one that takes changes down to layer 0. */
static int follow(const struct known *known, struct layer_stack *ret)
{
	struct layer_stack stack = {.count = 1};

	memcpy(stack.template, known->template, sizeof(stack.template));
	for (uint32_t number = known->at; number != 0; stack.count++) {
		const struct layer *layer = find(known, number);

		if (!layer || !is_clear(known, layer) || stack.count == LIMIT_LAYERS)
			return -EBADMSG;
		memmove(&stack.numbers[2], &stack.numbers[1],
			(stack.count - 1) * sizeof(stack.numbers[0]));
		stack.numbers[1] = number;
		number = layer->below;
	}
	if (!layer_stack_is_valid(&stack))
		return -EBADMSG;
	*ret = stack;
	return 0;
}

static bool is_preview(int layers, uint32_t number)
{
	char name[NAME_MAX + 1];
	struct stat stat_buf;

	layer_name_put_preview(number, name);
	return fstatat(layers, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Nobody has kept what the highest layer has. */
static int undo_preview(const struct layers_place *place, struct layer_stack *stack)
{
	layer_stack_pop(stack);
	return layers_commit(place, stack);
}

int layers_read(const struct layers_place *place, struct layer_stack *ret)
{
	_cleanup_close_ int layers = open_layers(place, false);
	struct layer_stack stack = {0};
	struct known known = {0};
	int r = layers == -ENOENT ? 0 : layers;

	if (layers >= 0)
		r = each_name(layers, learn, &known);
	if (r == 0 && known.at != 0)
		r = follow(&known, &stack);
	if (r == 0 && stack.count > 0 && is_preview(layers, known.at))
		r = undo_preview(place, &stack);
	if (r == 0)
		*ret = stack;
	return r;
}

static struct layer top_of(const struct layer_stack *stack)
{
	return (struct layer){stack->numbers[stack->count - 1], stack->numbers[stack->count - 2]};
}

/* Drops what was made for a change that did not come about, on whatever layer that was. */
struct giving_up {
	const struct layers_place *place;
	uint32_t number;
};

static int give_up_layer(void *context, int layers, const char *name)
{
	const struct giving_up *giving_up = context;
	const struct layer_name read = layer_name_read(name);
	int r = 0;

	if (read.number != giving_up->number)
		return 0;
	if (read.kind == LAYER_NAME_LAYER || read.kind == LAYER_NAME_FOLDED)
		r = drop_layer(giving_up->place, layers, name, true);
	else if (read.kind == LAYER_NAME_PREVIEW && unlinkat(layers, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r == -ENOENT ? 0 : r;
}

static int count_dropped(void *context, int directory, const char *name)
{
	size_t *left = context;

	(void)directory;
	*left -= strncmp(name, LAYERS_DROPPED, strlen(LAYERS_DROPPED)) == 0;
	return *left == 0 ? -EBUSY : 0;
}

/*
 * What was dropped takes disk until it is cleared. Whoever drops faster than that waits: of a
 * workspace's layers; or of those of removed workspaces, before another one gets layers.
 */
static int check_dropped(const struct layers_place *place)
{
	_cleanup_close_ int layers = open_layers(place, false), tenant = -1;
	size_t left = layers == -ENOENT ? LIMIT_LAYERS_REMOVED : LIMIT_LAYERS_DROPPED;

	if (layers != -ENOENT)
		return layers < 0 ? layers : each_name(layers, count_dropped, &left);
	tenant = managed_directory(place->managed_fd, place->tenant);
	return tenant < 0 ? tenant : each_name(tenant, count_dropped, &left);
}

int layers_make(const struct layers_place *place, const struct layer_stack *stack)
{
	const struct layer top = top_of(stack);
	_cleanup_close_ int layers = -1;
	char name[NAME_MAX + 1];
	int r = check_dropped(place);

	if (r == 0)
		r = layers = open_layers(place, true);
	if (r < 0)
		return r;
	r = each_name(layers, give_up_layer, &(struct giving_up){place, top.number});
	if (r < 0)
		return r;
	layer_name_put(&top, name);
	return mkdirat(layers, name, MODE) < 0 ? -errno : 0;
}

int layers_make_foreign(const struct layers_place *place, const struct layer_stack *stack)
{
	static const char *const names[] = {"w", "u", "u/foreign"};
	const struct layer top = top_of(stack);
	_cleanup_close_ int layers = open_layers(place, false), layer = -1;
	char name[NAME_MAX + 1];

	layer_name_put(&top, name);
	layer = layers < 0 ? layers : open_in(layers, name);
	if (layer < 0)
		return layer;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (mkdirat(layer, names[i], 0755) < 0)
			return -errno;
	return 0;
}

static int forget_label(void *context, int layers, const char *name)
{
	const struct layer_name read = layer_name_read(name);
	const uint32_t *number = context;

	if (read.kind == LAYER_NAME_LABEL && read.number == *number)
		(void)!unlinkat(layers, name, AT_REMOVEDIR);
	return 0;
}

int layers_label(const struct layers_place *place, uint32_t number, struct text label)
{
	_cleanup_close_ int layers = open_layers(place, true);
	char name[NAME_MAX + 1];
	int r;

	if (layers < 0)
		return layers;
	r = each_name(layers, forget_label, &number);
	if (r < 0)
		return r;
	layer_name_put_label(number, label, name);
	return mkdirat(layers, name, MODE) < 0 ? -errno : 0;
}

static int mark_preview(const struct layers_place *place, uint32_t number, bool is_one)
{
	_cleanup_close_ int layers = open_layers(place, false);
	char name[NAME_MAX + 1];
	int r;

	if (layers < 0)
		return layers;
	layer_name_put_preview(number, name);
	r = is_one ? mkdirat(layers, name, MODE) : unlinkat(layers, name, AT_REMOVEDIR);
	return r < 0 ? -errno : 0;
}

int layers_preview(const struct layers_place *place, uint32_t number)
{
	return mark_preview(place, number, true);
}

int layers_keep(const struct layers_place *place, uint32_t number)
{
	return mark_preview(place, number, false);
}

int layers_commit(const struct layers_place *place, const struct layer_stack *stack)
{
	_cleanup_close_ int layers = open_layers(place, false);
	char old[NAME_MAX + 1], new[NAME_MAX + 1];
	struct known known = {0};
	int r = layers < 0 ? layers : each_name(layers, learn, &known);

	if (r < 0)
		return r;
	layer_name_put_at(known.at, old);
	if (stack->count == 0)
		return unlinkat(layers, old, AT_REMOVEDIR) < 0 ? -errno : 0;
	layer_name_put_at(stack->numbers[stack->count - 1], new);
	if (known.at == 0)
		return mkdirat(layers, new, MODE) < 0 ? -errno : 0;
	return renameat2(layers, old, layers, new, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

struct tidying {
	const struct layers_place *place;
	const struct layer_stack *stack;
};

enum place {
	PLACE_NONE,
	PLACE_TAKEN, /* the stack has another layer of this number */
	PLACE_OWN,
};

static enum place place_in(const struct layer_stack *stack, const struct layer_name *layer)
{
	for (size_t i = 1; i < stack->count; i++)
		if (stack->numbers[i] == layer->number)
			return stack->numbers[i - 1] == layer->below ? PLACE_OWN : PLACE_TAKEN;
	return PLACE_NONE;
}

/* Whether the stack has the layer @number under another one. */
static bool has_frozen(const struct layer_stack *stack, uint32_t number)
{
	for (size_t i = 0; i + 1 < stack->count; i++)
		if (stack->numbers[i] == number)
			return true;
	return false;
}

/* Whether @folded is in the place of two layers of @stack, which has many. */
static bool takes_place(const struct layer_stack *stack, const struct layer_name *folded)
{
	/* The highest layer takes changes. */
	for (size_t i = 2; stack->count > LIMIT_LAYERS_FOLD && i + 1 < stack->count; i++)
		if (stack->numbers[i] == folded->number && stack->numbers[i - 1] == folded->low &&
			stack->numbers[i - 2] == folded->below)
			return true;
	return false;
}

static bool is_top(const struct layer_stack *stack, uint32_t number)
{
	return stack->count > 0 && stack->numbers[stack->count - 1] == number;
}

/* A layer in whose place another one is goes first: those below it say that it may. */
static int tidy_taken(void *context, int layers, const char *name)
{
	const struct tidying *tidying = context;
	const struct layer_name read = layer_name_read(name);

	if (read.kind != LAYER_NAME_LAYER || place_in(tidying->stack, &read) != PLACE_TAKEN)
		return 0;
	return drop_layer(tidying->place, layers, name, true);
}

static int tidy(void *context, int layers, const char *name)
{
	const struct tidying *tidying = context;
	const struct layer_name read = layer_name_read(name);

	if ((read.kind == LAYER_NAME_LAYER && place_in(tidying->stack, &read) == PLACE_NONE) ||
		(read.kind == LAYER_NAME_FOLDED && !takes_place(tidying->stack, &read)))
		(void)drop_layer(tidying->place, layers, name, true);
	if ((read.kind == LAYER_NAME_LABEL && !has_frozen(tidying->stack, read.number)) ||
		(read.kind == LAYER_NAME_PREVIEW && !is_top(tidying->stack, read.number)))
		(void)!unlinkat(layers, name, AT_REMOVEDIR);
	return 0;
}

void layers_tidy(const struct layers_place *place, const struct layer_stack *stack)
{
	_cleanup_close_ int layers = open_layers(place, false);
	struct tidying tidying = {place, stack};

	if (layers >= 0 && each_name(layers, tidy_taken, &tidying) == 0)
		(void)each_name(layers, tidy, &tidying);
}

struct folding {
	struct layer_stack *stack;
	uint32_t taken_out;
};

static int fold(void *context, int layers, const char *name)
{
	const struct layer_name read = layer_name_read(name);
	struct folding *folding = context;
	char new[NAME_MAX + 1];

	if (read.kind != LAYER_NAME_FOLDED || folding->taken_out != 0 ||
		!takes_place(folding->stack, &read))
		return 0;
	layer_name_put(&(struct layer){read.number, read.below}, new);
	if (renameat2(layers, name, layers, new, RENAME_NOREPLACE) < 0)
		return -errno;
	layer_stack_take_out(folding->stack, read.low);
	folding->taken_out = read.low;
	return 0;
}

int layers_fold(
	const struct layers_place *place, struct layer_stack *stack, uint32_t *ret_taken_out)
{
	_cleanup_close_ int layers =
		stack->count > LIMIT_LAYERS_FOLD ? open_layers(place, false) : -ENOENT;
	struct folding folding = {.stack = stack};
	int r = layers == -ENOENT ? 0 : layers;

	if (layers >= 0)
		r = each_name(layers, fold, &folding);
	if (r == 0)
		*ret_taken_out = folding.taken_out;
	return r;
}

struct search {
	const struct layer_stack *stack;
	size_t at, high;
	uint32_t span; /* of the pair found: how many changes it stands for */
};

/* Folding those that stand for the fewest changes has each change folded a few times only. */
static void look_at_checkpoint(void *context, const struct checkpoint_info *checkpoint)
{
	struct search *search = context;
	const uint32_t *numbers = search->stack->numbers;
	size_t low = search->at++;
	uint32_t span;

	/* The highest layer has no checkpoint yet. */
	if (low == 0 || checkpoint->label.len > 0 ||
		low + 1 + LIMIT_LAYERS_NEWEST >= search->stack->count)
		return;
	span = numbers[low + 1] - numbers[low - 1];
	if (search->high > 0 && span >= search->span)
		return;
	search->high = low + 1;
	search->span = span;
}

int layers_to_fold(
	const struct layers_place *place, const struct layer_stack *stack, size_t *ret_high)
{
	struct search search = {.stack = stack};
	int r = stack->count > LIMIT_LAYERS_FOLD
			? layers_each(place, stack, look_at_checkpoint, &search)
			: 0;

	if (r == 0)
		*ret_high = search.high;
	return r;
}

int layers_may_fork(const struct layers_place *place)
{
	size_t left = LIMIT_LAYERS_REMOVED;
	_cleanup_close_ int tenant = managed_directory(place->managed_fd, place->tenant);

	return tenant < 0 ? tenant : each_name(tenant, count_dropped, &left);
}

int layers_fork(const struct layers_place *place, const char *tree)
{
	static const struct layer first = {1, 0};
	char from[NAME_MAX + 1], name[NAME_MAX + 1];
	_cleanup_close_ int layers = -1;
	/* Of a workspace that an administrator has removed. */
	int r = layers_remove(place);

	layers = r < 0 ? r : open_layers(place, true);
	if (layers < 0)
		return layers;
	snprintf(from, sizeof(from), LAYERS_FROM "%s", tree);
	layer_name_put(&first, name);
	if (mkdirat(layers, from, MODE) < 0 || mkdirat(layers, name, MODE) < 0)
		return -errno;
	layer_name_put_at(first.number, name);
	return mkdirat(layers, name, MODE) < 0 ? -errno : 0;
}

static int find_template_of(void *context, int layers, const char *name)
{
	const struct layer_name read = layer_name_read(name);

	(void)layers;
	if (read.kind != LAYER_NAME_FROM)
		return 0;
	snprintf(context, LIMIT_TEMPLATE_TREE_BYTES + 1, "%s", read.template);
	return 1;
}

void layers_template(const struct layers_place *place, char ret[LIMIT_TEMPLATE_TREE_BYTES + 1])
{
	_cleanup_close_ int layers = open_layers(place, false);

	ret[0] = '\0';
	if (layers >= 0)
		(void)each_name(layers, find_template_of, ret);
}

int layers_remove(const struct layers_place *place)
{
	_cleanup_close_ int directory = managed_directory(place->managed_fd, place->tenant);
	char name[NAME_MAX + 1];
	int r;

	if (directory < 0)
		return directory;
	snprintf(name, sizeof(name), LAYERS_PREFIX "%s", place->name);
	r = drop_layer(place, directory, name, false);
	return r == -ENOENT ? 0 : r;
}

/* The list of checkpoints. */

struct listing {
	const struct layer_stack *stack;
	struct label {
		char name[NAME_MAX + 1];
		int64_t made_ms;
		bool known;
	} * labels; /* of the layer at the same place of the stack */
};

static int list(void *context, int layers, const char *name)
{
	const struct listing *listing = context;
	const struct layer_name read = layer_name_read(name);
	/* A fork's first checkpoint has its template's name, and no directory of its own. */
	bool is_template = read.kind == LAYER_NAME_FROM;
	struct stat stat_buf;

	if (read.kind != LAYER_NAME_LABEL && !is_template)
		return 0;
	for (size_t i = 0; i + 1 < listing->stack->count; i++) {
		struct label *label = &listing->labels[i];

		if (listing->stack->numbers[i] != read.number || (is_template && label->known))
			continue;
		label->known = true;
		if (is_template)
			snprintf(label->name, sizeof(label->name), "%.*s",
				(int)(strchrnul(read.template, TEMPLATE_TREE_MARK) - read.template),
				read.template);
		else
			snprintf(label->name, sizeof(label->name), "%s", read.label);
		if (fstatat(layers, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0)
			label->made_ms = (int64_t)stat_buf.st_mtim.tv_sec * 1000 +
					 stat_buf.st_mtim.tv_nsec / 1000000;
	}
	return 0;
}

int layers_each(const struct layers_place *place, const struct layer_stack *stack,
	void (*each)(void *context, const struct checkpoint_info *checkpoint), void *context)
{
	_cleanup_close_ int layers = open_layers(place, false);
	_cleanup_free_ struct label *labels = calloc(LIMIT_LAYERS, sizeof(*labels));
	struct listing listing = {stack, labels};
	int r = stack->count == 0 ? 0 : !labels ? -ENOMEM : layers;

	if (r >= 0 && stack->count > 0)
		r = each_name(layers, list, &listing);
	for (size_t i = 0; r >= 0 && i + 1 < stack->count; i++) {
		char label[NAME_MAX + 1];

		each(context, &(struct checkpoint_info){.number = stack->numbers[i] + 1,
				      .label = layer_name_read_label(labels[i].name, label),
				      .made_ms = labels[i].made_ms});
	}
	return r < 0 ? r : 0;
}
