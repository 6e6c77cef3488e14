// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-unpack. The layout is hostile. A blob is looked up by 64 hexadecimal digits and
 * through no link, and its bytes are hashed as they are used: one that turns out to be another ends
 * the import, whose result nobody sees then.
 */
#include "worker/unpack/unpack_image.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "worker/unpack/unpack_archive.h"
#include "json/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DIGEST_PREFIX "sha256:"
#define DIGEST_DIGITS (2UL * SHA256_DIGEST_SIZE)
#define BLOB_NAME     "blobs/sha256/" /* and the digits */
#define NESTED_MOST   2               /* an index may name one that names manifests */
#define VALUES_MOST   100000          /* in an index or a manifest */

#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "" /* as GOARCH would have it: no platform of an index is this one */
#endif

/* What an index or a manifest says of a blob. */
struct descriptor {
	char name[sizeof(BLOB_NAME) + DIGEST_DIGITS];
	uint8_t digest[SHA256_DIGEST_SIZE];
	uint64_t size;
	const char *media_type; /* borrowed */
};

struct image {
	struct unpack_tree *tree;
	int layout;
	struct unpack_source *source;
	struct descriptor manifest;
	size_t manifests; /* that can be meant */
};

static void put_image_json(struct json_object **value)
{
	json_object_put(*value);
}

#define _cleanup_json_ _cleanup_(put_image_json)

/* Files of the layout. */

static int open_layout_file(
	struct image *image, const char *name, enum unpack_fault fault, uint64_t *ret_size)
{
	struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV};
	int fd = (int)syscall(SYS_openat2, image->layout, name, &how, sizeof(how));
	struct stat stat_buf;

	if (fd < 0 && errno == EACCES)
		return -EACCES;
	if (fd < 0 || fstat(fd, &stat_buf) < 0 || !S_ISREG(stat_buf.st_mode)) {
		close_fd(&fd);
		return unpack_refuse(image->tree, fault, name);
	}
	*ret_size = (uint64_t)stat_buf.st_size;
	return fd;
}

/* Reads a whole file of JSON. @blob: what it has to be; NULL: any. */
static int read_json(struct image *image, const char *name, const struct descriptor *blob,
	struct json_object **ret)
{
	const struct json_bounds bounds = {VALUES_MOST, 8 * LIMIT_UNPACK_JSON_BYTES};
	_cleanup_free_ char *text = NULL;
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct json_report report;
	struct sha256_ctx sha256;
	uint64_t size = 0;
	ssize_t n;
	_cleanup_close_ int fd =
		open_layout_file(image, name, blob ? UNPACK_BLOB : UNPACK_LAYOUT, &size);

	if (fd < 0)
		return fd;
	if (blob && size != blob->size)
		return unpack_refuse(image->tree, UNPACK_BLOB_SIZE, name);
	if (size > LIMIT_UNPACK_JSON_BYTES)
		return unpack_refuse(image->tree, UNPACK_LAYOUT, name);
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	n = io_read(fd, text, size, 0);
	if (n < 0 || (uint64_t)n < size)
		return n < 0 ? (int)n : unpack_refuse(image->tree, UNPACK_LAYOUT, name);
	sha256_init(&sha256);
	sha256_update(&sha256, size, (const uint8_t *)text);
	sha256_digest(&sha256, sizeof(digest), digest);
	if (blob && memcmp(digest, blob->digest, sizeof(digest)) != 0)
		return unpack_refuse(image->tree, UNPACK_BLOB_DIGEST, name);
	return json_read((struct text){text, size}, &bounds, ret, &report) < 0 || !*ret
		       ? unpack_refuse(image->tree, UNPACK_LAYOUT, name)
		       : 0;
}

/* Returns the member @name of an object if it is of @type. */
static struct json_object *image_member(
	struct json_object *object, const char *name, enum json_type type)
{
	struct json_object *value = NULL;

	return json_object_is_type(object, json_type_object) &&
			       json_object_object_get_ex(object, name, &value) &&
			       json_object_is_type(value, type)
		       ? value
		       : NULL;
}

/* A string without a NUL, or NULL. */
static const char *string_member(struct json_object *object, const char *name)
{
	struct json_object *value = image_member(object, name, json_type_string);
	const char *string = value ? json_object_get_string(value) : NULL;

	return string && strlen(string) == (size_t)json_object_get_string_len(value) ? string
										     : NULL;
}

static int hex_value(char digit)
{
	return digit >= '0' && digit <= '9'   ? digit - '0'
	       : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
					      : -1;
}

static int read_descriptor(
	struct image *image, struct json_object *object, const char *where, struct descriptor *ret)
{
	const char *digest = string_member(object, "digest"), *digits;
	struct json_object *size = image_member(object, "size", json_type_int);

	ret->media_type = string_member(object, "mediaType");
	if (!digest || !size || !ret->media_type || json_object_get_int64(size) < 0 ||
		strncmp(digest, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) != 0 ||
		strlen(digest) != strlen(DIGEST_PREFIX) + DIGEST_DIGITS)
		return unpack_refuse(image->tree, UNPACK_LAYOUT, where);
	digits = digest + strlen(DIGEST_PREFIX);
	for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++) {
		int high = hex_value(digits[i + i]), low = hex_value(digits[i + i + 1]);

		if (high < 0 || low < 0)
			return unpack_refuse(image->tree, UNPACK_LAYOUT, where);
		ret->digest[i] = (uint8_t)(high * 16 + low);
	}
	ret->size = (uint64_t)json_object_get_int64(size);
	snprintf(ret->name, sizeof(ret->name), BLOB_NAME "%s", digits);
	return 0;
}

/* Which image. */

static bool is_any_of(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return false;
}

static bool is_index(const char *media_type)
{
	static const char *const types[] = {"application/vnd.oci.image.index.v1+json",
		"application/vnd.docker.distribution.manifest.list.v2+json"};

	return is_any_of(media_type, types, ARRAY_SIZE(types));
}

static bool is_manifest(const char *media_type)
{
	static const char *const types[] = {"application/vnd.oci.image.manifest.v1+json",
		"application/vnd.docker.distribution.manifest.v2+json"};

	return is_any_of(media_type, types, ARRAY_SIZE(types));
}

/* One that names no platform can be meant; those of signatures and the like name "unknown". */
static bool is_for_us(struct json_object *object)
{
	struct json_object *platform = image_member(object, "platform", json_type_object);
	const char *os = platform ? string_member(platform, "os") : NULL;
	const char *architecture = platform ? string_member(platform, "architecture") : NULL;

	return !platform || (os && architecture && strcmp(os, "linux") == 0 &&
				    strcmp(architecture, ARCHITECTURE) == 0);
}

static int find_manifest(
	struct image *image, const char *name, const struct descriptor *blob, unsigned nested)
{
	_cleanup_json_ struct json_object *index = NULL;
	int r = read_json(image, name, blob, &index);
	struct json_object *all = r < 0 ? NULL : image_member(index, "manifests", json_type_array);

	if (r < 0)
		return r;
	if (!all || json_object_array_length(all) > LIMIT_UNPACK_MANIFESTS)
		return unpack_refuse(image->tree, UNPACK_LAYOUT, name);
	for (size_t i = 0; r == 0 && i < json_object_array_length(all); i++) {
		struct json_object *object = json_object_array_get_idx(all, i);
		struct descriptor found;

		r = read_descriptor(image, object, name, &found);
		if (r < 0 || !is_for_us(object))
			continue;
		if (is_index(found.media_type) && nested < NESTED_MOST) {
			r = find_manifest(image, found.name, &found, nested + 1);
		} else if (is_manifest(found.media_type)) {
			/* An image of several names is there once for each. */
			if (image->manifests > 0 && memcmp(found.digest, image->manifest.digest,
							    sizeof(found.digest)) == 0)
				continue;
			found.media_type = NULL;
			image->manifest = found;
			image->manifests++;
		}
	}
	return r;
}

/* Layers. */

static bool is_layer(const char *media_type)
{
	static const char *const types[] = {"application/vnd.oci.image.layer.v1.tar",
		"application/vnd.oci.image.layer.v1.tar+gzip",
		"application/vnd.oci.image.layer.v1.tar+zstd",
		"application/vnd.oci.image.layer.nondistributable.v1.tar",
		"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
		"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
		"application/vnd.docker.image.rootfs.diff.tar",
		"application/vnd.docker.image.rootfs.diff.tar.gzip",
		"application/vnd.docker.image.rootfs.diff.tar.zstd"};

	return is_any_of(media_type, types, ARRAY_SIZE(types));
}

static int do_pass(
	struct image *image, int fd, const struct descriptor *layer, enum unpack_pass pass)
{
	uint8_t digest[SHA256_DIGEST_SIZE];
	uint64_t size = 0;
	int r;

	unpack_source_init(image->source, fd);
	r = unpack_archive(image->tree, image->source, pass);
	if (r == -UNPACK_REFUSAL && image->tree->report.name.len == 0)
		return unpack_refuse(
			image->tree, (enum unpack_fault)image->tree->report.fault, layer->name);
	if (r == 0)
		r = unpack_source_end(image->source, digest, &size);
	if (r < 0)
		return r;
	if (size != layer->size)
		return unpack_refuse(image->tree, UNPACK_BLOB_SIZE, layer->name);
	return memcmp(digest, layer->digest, sizeof(digest)) == 0
		       ? 0
		       : unpack_refuse(image->tree, UNPACK_BLOB_DIGEST, layer->name);
}

/* A layer hides only what those below it have, wherever in it that stands: it is read twice. */
static int unpack_layer(struct image *image, const struct descriptor *layer)
{
	uint64_t size = 0;
	_cleanup_close_ int fd = -1;
	int r;

	if (!is_layer(layer->media_type))
		return unpack_refuse(image->tree, UNPACK_MEDIA_TYPE, layer->media_type);
	fd = open_layout_file(image, layer->name, UNPACK_BLOB, &size);
	if (fd < 0)
		return fd;
	if (size != layer->size)
		return unpack_refuse(image->tree, UNPACK_BLOB_SIZE, layer->name);
	unpack_tree_next_layer(image->tree);
	r = do_pass(image, fd, layer, UNPACK_WHITEOUTS);
	return r < 0 ? r : do_pass(image, fd, layer, UNPACK_ENTRIES);
}

static int unpack_layers(struct image *image)
{
	_cleanup_json_ struct json_object *manifest = NULL;
	const char *name = image->manifest.name;
	int r = read_json(image, name, &image->manifest, &manifest);
	struct json_object *layers =
		r < 0 ? NULL : image_member(manifest, "layers", json_type_array);

	if (r < 0)
		return r;
	if (!layers)
		return unpack_refuse(image->tree, UNPACK_LAYOUT, name);
	if (json_object_array_length(layers) > LIMIT_UNPACK_LAYERS)
		return unpack_refuse(image->tree, UNPACK_LAYERS, NULL);
	for (size_t i = 0; r == 0 && i < json_object_array_length(layers); i++) {
		struct descriptor layer;

		r = read_descriptor(image, json_object_array_get_idx(layers, i), name, &layer);
		if (r == 0)
			r = unpack_layer(image, &layer);
	}
	return r;
}

/* The file that says that the directory is such a layout, and of which version. */
static int check_layout(struct image *image)
{
	_cleanup_json_ struct json_object *layout = NULL;
	int r = read_json(image, "oci-layout", NULL, &layout);
	const char *version = r < 0 ? NULL : string_member(layout, "imageLayoutVersion");

	if (r == 0 && (!version || strncmp(version, "1.", 2) != 0))
		r = unpack_refuse(image->tree, UNPACK_LAYOUT, "oci-layout");
	return r;
}

int unpack_image(struct unpack_tree *tree, int layout)
{
	_cleanup_free_ struct unpack_source *source = malloc(sizeof(*source));
	struct image image = {.tree = tree, .layout = layout, .source = source};
	int r = source ? check_layout(&image) : -ENOMEM;

	if (r == 0)
		r = find_manifest(&image, "index.json", NULL, 1);
	if (r == 0 && image.manifests != 1)
		r = unpack_refuse(tree, UNPACK_MANIFESTS, "index.json");
	return r < 0 ? r : unpack_layers(&image);
}
