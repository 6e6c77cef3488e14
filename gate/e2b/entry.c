// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate. Names and links are a workspace's, and hostile. */

#include "gate/e2b/entry.h"

#include "common/cleanup.h"
#include "gate/e2b/op.h"
#include "gate/e2b/target.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

static const struct entry_type {
	const char *name, *shown;
	char letter;
} types[] = {
	{"file", "FILE_TYPE_FILE", '-'},
	{"directory", "FILE_TYPE_DIRECTORY", 'd'},
	{"symlink", "FILE_TYPE_SYMLINK", 'L'},
};

static const struct entry_type *type_of(struct text name)
{
	static const struct entry_type other = {NULL, "FILE_TYPE_UNSPECIFIED", '?'};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (text_equal(name, text_from(types[i].name)))
			return &types[i];
	}
	return &other;
}

static struct text entry_name(struct text path)
{
	const char *slash = path.len > 0 ? memrchr(path.data, '/', path.len) : NULL;
	size_t before = slash ? (size_t)(slash + 1 - path.data) : 0;

	return (struct text){path.data + before, path.len - before};
}

/* Joins two paths and cleans them; the caller frees the result. NULL: no memory. */
static char *join(struct text directory, struct text path)
{
	size_t size = directory.len + path.len + 2;
	_cleanup_free_ char *joined = malloc(size);
	char *cleaned = malloc(size);

	if (joined == NULL || cleaned == NULL) {
		free(cleaned);
		return NULL;
	}
	snprintf(joined, size, "%.*s/%.*s", (int)directory.len, directory.data, (int)path.len,
		path.data);
	path_clean(joined, cleaned);
	return cleaned;
}

/* As Go prints a mode. */
static void put_mode(struct json_object *object, int mode, char letter)
{
	char text[11] = {letter};

	for (int i = 0; i < 9; i++)
		text[1 + i] = mode & (0400 >> i) ? "rwxrwxrwx"[i] : '-';
	json_object_object_add(object, "mode", json_object_new_int(mode));
	json_put_text(object, "permissions", text_from(text));
}

/* The user of commands is called "user" by the clients. */
static void put_owner(struct json_object *object, const char *name, struct text owner)
{
	if (text_equal(owner, TEXT_LITERAL("agent")))
		owner = TEXT_LITERAL("user");
	json_put_text(object, name, owner);
}

static void put_target(struct json_object *object, struct text path, struct text target)
{
	struct text directory = path;
	_cleanup_free_ char *resolved = NULL;

	if (target.len > 0 && target.data[0] == '/') {
		json_put_text(object, "symlinkTarget", target);
		return;
	}
	directory.len -= entry_name(path).len;
	resolved = join(directory, target);
	if (resolved)
		json_put_text(object, "symlinkTarget", text_from(resolved));
}

static struct json_object *metadata_of(struct json_object *node)
{
	struct json_object *attributes = json_member_of(node, "attributes");
	struct json_object *metadata = json_object_new_object();

	if (json_object_is_type(attributes, json_type_object)) {
		json_object_object_foreach (attributes, name, value) {
			if (strncmp(name, ENTRY_METADATA, strlen(ENTRY_METADATA)) == 0)
				json_object_object_add(metadata, name + strlen(ENTRY_METADATA),
					json_object_get(value));
		}
	}
	return metadata;
}

struct json_object *entry_show(struct json_object *node, const char *root)
{
	struct json_object *object = json_object_new_object();
	const struct entry_type *type = type_of(json_text_of(node, "type"));
	_cleanup_free_ char *path = join(text_from(root), json_text_of(node, "path"));
	struct text mode = json_text_of(node, "mode");

	if (path == NULL)
		return object;
	json_put_text(object, "name", entry_name(text_from(path)));
	json_put_text(object, "type", text_from(type->shown));
	json_put_text(object, "path", text_from(path));
	json_object_object_add(
		object, "size", json_object_new_int64(json_number_of(node, "size", 0)));
	put_mode(object, mode.len > 0 ? (int)strtol(mode.data, NULL, 8) & 0777 : 0, type->letter);
	put_owner(object, "owner", json_text_of(node, "owner"));
	put_owner(object, "group", json_text_of(node, "group"));
	json_put_text(object, "modifiedTime", json_text_of(node, "mtime"));
	if (type->letter == 'L')
		put_target(object, text_from(path), json_text_of(node, "target"));
	json_object_object_add(object, "metadata", metadata_of(node));
	return object;
}

struct json_object *entry_show_written(struct text path, struct json_object *metadata)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "name", entry_name(path));
	json_put_text(object, "path", path);
	json_put_text(object, "type", TEXT_LITERAL("file"));
	if (metadata)
		json_object_object_add(object, "metadata", json_object_get(metadata));
	return object;
}
