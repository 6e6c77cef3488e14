/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The layers of a managed workspace that has checkpoints, from the lowest to the uppermost, which
 * takes changes. Layer 0 is the workspace's own directory, as it was at the first checkpoint. Each
 * other layer is a directory in ".layers-NAME" beside it, named after its number and that of the
 * layer below it: "3-1". It has "u", the upper directory of an overlay, and "w", its work
 * directory. Once another layer lies on it, a layer never changes.
 */

#include "common/limits.h"
#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct layer_stack {
	uint32_t count; /* 0: the workspace has no checkpoint */
	uint32_t numbers[LIMIT_LAYERS];
	/* The tree of a fork's template, which is below the empty layer 0. "": none. */
	char template[LIMIT_TEMPLATE_TREE_BYTES + 1];
};

/*
 * A files process gets one read-only directory. It has, for each layer, the layer itself as "u3",
 * without the template below layer 0, and for each layer but the uppermost, as "v3", an overlay of
 * that layer and those below it, as a rollback to it would show.
 */
#define LAYERS_UPPER "u"
#define LAYERS_VIEW  "v"

/* The directory, beside that of a managed workspace, in which its layers are. */
#define LAYERS_PREFIX ".layers-"
/* Prefix of the names of dropped layers. */
#define LAYERS_DROPPED ".dropped-"
/* Begins the name of a layer in the place of two, "folded-5-3-2": of "5-3", which lies on "3-2". */
#define LAYERS_FOLDED "folded-"
/* Begins the names of whole trees, of workspaces or templates, that are copied or cleared. */
#define TREE_UNFINISHED ".unfinished-"
/* The same, with the process id of the cloisterd that makes it: two may use the state. */
#define TREE_UNFINISHED_BY TREE_UNFINISHED "%d."
/* Begins the name of a workspace's own directory that is to be cleared: the workspace is removed.
 */
#define TREE_REMOVED ".removed-"
/* The directory, beside that of the managed workspaces, in which each tenant's templates are. */
#define TEMPLATES "templates"

/** Whether @name may be that of a managed workspace or template. */
static inline bool is_managed_name(struct text name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	if (name.len == 0 || name.len > LIMIT_TEMPLATE_NAME_BYTES || name.data[0] == '.')
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (name.data[i] == '\0' || !strchr(allowed, name.data[i]))
			return false;
	return true;
}

/* Between the name of a template and the number of its tree, from 2 on: "base~2" replaced "base".
 */
#define TEMPLATE_TREE_MARK '~'

/**
 * Whether @name may be that of a template's tree. A template that is replaced gets another tree,
 * because forks go on with theirs.
 */
static inline bool is_template_tree(struct text name)
{
	const char *mark = name.len > 0 ? memchr(name.data, TEMPLATE_TREE_MARK, name.len) : NULL;
	size_t before = mark ? (size_t)(mark - name.data) : name.len;

	if (!is_managed_name((struct text){name.data, before}) ||
		name.len > LIMIT_TEMPLATE_TREE_BYTES)
		return false;
	if (mark && (before + 1 == name.len || mark[1] == '0'))
		return false;
	for (size_t i = before + 1; i < name.len; i++)
		if (name.data[i] < '0' || name.data[i] > '9')
			return false;
	return true;
}

/** Takes the highest layer away. A stack with only layer 0 is empty. */
static inline void layer_stack_pop(struct layer_stack *stack)
{
	stack->count--;
	if (stack->count <= 1 && !stack->template[0])
		*stack = (struct layer_stack){0};
}

/** Takes the layer @number out of @stack, if it has it. */
static inline void layer_stack_take_out(struct layer_stack *stack, uint32_t number)
{
	for (size_t i = 1; i < stack->count; i++)
		if (stack->numbers[i] == number) {
			memmove(&stack->numbers[i], &stack->numbers[i + 1],
				(--stack->count - i) * sizeof(stack->numbers[0]));
			return;
		}
}

/** Whether @stack is empty, or has layer 0 at the bottom and higher numbers above lower ones. */
static inline bool layer_stack_is_valid(const struct layer_stack *stack)
{
	if (stack->template[0] &&
		(stack->count == 0 || !is_template_tree(text_from(stack->template))))
		return false;
	if (stack->count == 0)
		return true;
	if (stack->count == 1 || stack->count > LIMIT_LAYERS || stack->numbers[0] != 0)
		return false;
	for (size_t i = 1; i < stack->count; i++)
		if (stack->numbers[i] <= stack->numbers[i - 1] ||
			stack->numbers[i] > LIMIT_LAYER_NUMBER)
			return false;
	return true;
}
