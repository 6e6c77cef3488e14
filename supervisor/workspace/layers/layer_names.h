/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The names of the directories in ".layers-NAME", beside a workspace's own directory. All that is
 * recorded of the layers is in these names, because cloisterd may make and rename directories in
 * its state and nothing else:
 *
 *   3-1         layer 3, whose lower one is layer 1
 *   at-3        empty: layer 3 takes changes now. One rename puts another stack in force.
 *   c1=LABEL    empty: the checkpoint that froze layer 1, made when this directory was
 *   from=NAME   empty: the template that lies below layer 0; the workspace is a fork of it, and its
 *               checkpoint of layer 0 is called after it
 *   preview-3   empty: nobody has decided yet whether what layer 3 has is kept
 *   folded-5-3-2  a layer in the place of 5-3 and 3-2; as 5-2 it is in force
 *   .dropped-X  a layer that the spawner clears
 */

#include "common/layer_stack.h"
#include "common/text.h"

#include <limits.h>
#include <stdint.h>

#define LAYERS_FROM "from="

struct layer {
	uint32_t number, below;
};

/* The meaning of a name. */
struct layer_name {
	enum {
		LAYER_NAME_OTHER,
		LAYER_NAME_LAYER,
		LAYER_NAME_AT,
		LAYER_NAME_PREVIEW,
		LAYER_NAME_FOLDED,
		LAYER_NAME_LABEL,
		LAYER_NAME_FROM
	} kind;
	uint32_t number, below;
	uint32_t low;         /* of a folded layer: the layer between */
	const char *label;    /* encoded: layer_name_read_label() */
	const char *template; /* a part of the name, as the label is */
};

/** Reads a name. Every other form is LAYER_NAME_OTHER. */
struct layer_name layer_name_read(const char *name);

/** Decodes a label into @ret. Returns it; it is borrowed from @ret. */
struct text layer_name_read_label(const char *encoded, char ret[NAME_MAX + 1]);

/* These write a name. */
void layer_name_put(const struct layer *layer, char ret[NAME_MAX + 1]);
void layer_name_put_at(uint32_t number, char ret[NAME_MAX + 1]);
void layer_name_put_preview(uint32_t number, char ret[NAME_MAX + 1]);
void layer_name_put_label(uint32_t number, struct text label, char ret[NAME_MAX + 1]);
