/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts entries of files from cloisterd's form to E2B's. Pure functions. */

#include "common/text.h"

struct json_object;

#define ENTRY_METADATA "e2b." /* prefix of extended attributes that are metadata */

/** Returns the EntryInfo of @node, an entry of file.stat, in a workspace that is seen at @root. */
struct json_object *entry_show(struct json_object *node, const char *root);

/** Returns what an upload tells of the file at the absolute @path: name, path, type. */
struct json_object *entry_show_written(struct text path, struct json_object *metadata);
