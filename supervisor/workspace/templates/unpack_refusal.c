// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/workspace/templates/unpack_refusal.h"

#include "common/cleanup.h"

#include <stdio.h>
#include <string.h>

#define NAME_SHOWN 200 /* bytes of a name in a sentence */

#define ENTRY_REFUSED "The entry \"%s\" of the archive "

/* Each sentence has one "%s", for the name, or none. */
static const struct {
	enum tool_error error;
	const char *sentence;
} faults[UNPACK_FAULT_END] = {
	[UNPACK_ABSOLUTE] = {TOOL_PATH_OUTSIDE_WORKSPACE,
		ENTRY_REFUSED "has, or is a hard link to, a path that begins with '/': make the "
			      "archive with relative paths (tar -C DIRECTORY -cf FILE .)"},
	[UNPACK_CLIMBS] = {TOOL_PATH_OUTSIDE_WORKSPACE, ENTRY_REFUSED
		"has, or is a hard link to, a path with '..' in it: make the archive without"},
	[UNPACK_THROUGH_LINK] = {TOOL_SYMLINK_OUTSIDE_WORKSPACE,
		ENTRY_REFUSED "lies behind a symbolic link that the archive, or a layer below, "
			      "has: give it the path that the link leads to"},
	[UNPACK_THROUGH_FILE] = {TOOL_NOT_A_DIRECTORY,
		ENTRY_REFUSED "lies below a file that the archive, or a layer below, has"},
	[UNPACK_SWAPPED] = {TOOL_FORBIDDEN,
		ENTRY_REFUSED "is there twice, once as a directory and once as something else: "
			      "make the archive anew"},
	[UNPACK_LINK_MISSING] = {TOOL_NOT_FOUND,
		ENTRY_REFUSED "is a hard link to a file that does not come before it"},
	[UNPACK_NAME] = {TOOL_NAME_TOO_LONG,
		ENTRY_REFUSED "has a name or a link's target that is empty, cannot be read or is "
			      "too long for a file"},
	[UNPACK_FILE_SIZE] = {TOOL_FILE_TOO_LARGE, ENTRY_REFUSED "is larger than any file may be"},
	[UNPACK_WHITEOUT] = {TOOL_INVALID_ARGUMENTS,
		ENTRY_REFUSED "is a whiteout that hides no name"},
	[UNPACK_BYTES] = {TOOL_QUOTA_EXCEEDED,
		"The files take more room than a workspace of the tenant may (disk_class)"},
	[UNPACK_FILES] = {TOOL_QUOTA_EXCEEDED,
		"There are more files than a workspace of the tenant may have (disk_class)"},
	[UNPACK_FORMAT] = {TOOL_INVALID_ARGUMENTS, "The file is no tar archive, plain or "
						   "compressed once with gzip, bzip2, xz or zstd"},
	[UNPACK_DAMAGED] = {TOOL_INVALID_ARGUMENTS,
		"The archive is damaged or incomplete, near \"%s\": make it anew"},
	[UNPACK_LAYOUT] = {TOOL_INVALID_ARGUMENTS,
		"\"%s\" of the image layout is not what the OCI Image Layout Specification says"},
	[UNPACK_MANIFESTS] = {TOOL_INVALID_ARGUMENTS,
		"\"%s\" names no image for this kind of processor, or several: keep one of them in "
		"it (skopeo copy --override-arch)"},
	[UNPACK_MEDIA_TYPE] = {TOOL_INVALID_ARGUMENTS,
		"A layer of the image is of the kind \"%s\", which is not known: use tar, tar+gzip "
		"or tar+zstd"},
	[UNPACK_BLOB] = {TOOL_NOT_FOUND,
		"\"%s\" is missing in the image layout: copy the image again"},
	[UNPACK_BLOB_SIZE] = {TOOL_INVALID_ARGUMENTS,
		"\"%s\" has not the size that it has to have: copy the image again"},
	[UNPACK_BLOB_DIGEST] = {TOOL_INVALID_ARGUMENTS,
		"\"%s\" does not have the SHA-256 that its name says: copy the image again"},
};

static void make_printable(struct text name, char ret[NAME_SHOWN + 1])
{
	size_t len = name.len < NAME_SHOWN ? name.len : NAME_SHOWN;

	for (size_t i = 0; i < len; i++)
		ret[i] = name.data[i] >= ' ' && name.data[i] <= '~' ? name.data[i] : '?';
	ret[len] = '\0';
}

/* The others have numbers in them. */
static void refuse_otherwise(
	const struct unpack_report *report, const char *name, struct refusal *ret)
{
	switch (report->fault) {
	case UNPACK_DEEP:
		refusal_format(ret, TOOL_NAME_TOO_LONG,
			ENTRY_REFUSED "is nested deeper than %d directories", name,
			LIMIT_CLEAR_DEPTH - 2);
		break;
	case UNPACK_RATIO:
		refusal_format(ret, TOOL_QUOTA_EXCEEDED,
			"The archive unpacks to more than %d times its size, as one that is to "
			"fill a disk does; unpack it yourself and import the directory",
			LIMIT_UNPACK_RATIO);
		break;
	case UNPACK_LAYERS:
		refusal_format(ret, TOOL_INVALID_ARGUMENTS,
			"The image has more than %d layers: squash it", LIMIT_UNPACK_LAYERS);
		break;
	default:
		refusal_format(ret, tool_error_from_errno((int)report->error),
			"The archive could not be unpacked (%s%s%s)", strerror((int)report->error),
			*name ? ": " : "", name);
	}
}

void unpack_refusal(const struct unpack_report *report, struct refusal *ret)
{
	const char *sentence = faults[report->fault].sentence, *gap;
	char name[NAME_SHOWN + 1];

	make_printable(report->name, name);
	if (!sentence) {
		refuse_otherwise(report, name, ret);
		return;
	}
	gap = strstr(sentence, "%s");
	if (gap)
		refusal_format(ret, faults[report->fault].error, "%.*s%s%s", (int)(gap - sentence),
			sentence, name, gap + strlen("%s"));
	else
		refusal_set(ret, faults[report->fault].error, sentence);
}
