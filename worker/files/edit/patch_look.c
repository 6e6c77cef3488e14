// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process; patch_look.h explains it. */
#include "worker/files/edit/patch_look.h"

#include "common/cleanup.h"
#include "worker/files/edit/file_version.h"
#include "worker/files/file_write.h"
#include "worker/files/walk/file_source.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static void look_at_patch_path(const struct root *root, struct text path, int flags, size_t *budget,
	char version[FILES_VERSION_BYTES + 1])
{
	struct file_source source = FILE_SOURCE_NONE;
	enum tool_error error = root_open(root, path, O_RDONLY | flags, &source.fd, NULL);
	struct stat st;

	version[0] = '\0';
	if (error == TOOL_NOT_FOUND)
		memcpy(version, FILE_WRITE_ABSENT, sizeof(FILE_WRITE_ABSENT));
	if (error != TOOL_OK)
		return;
	if (fstat(source.fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= *budget &&
		file_source_read(&source) == 0) {
		*budget -= source.len < *budget ? source.len : *budget;
		file_version_of(file_source_text(&source), version);
	}
	file_source_done(&source);
}

void patch_look(const struct root *root, const struct patch_file *file, size_t *budget,
	char found[FILES_FOUND_BYTES + 1])
{
	const bool removes = file->operation == FILES_DELETE || file->operation == FILES_MOVE;
	char to[FILES_VERSION_BYTES + 1];
	size_t len;

	/* The file itself is moved or deleted, never what a link leads to. */
	look_at_patch_path(root, file->path, removes ? O_NOFOLLOW : 0, budget, found);
	if (file->operation != FILES_MOVE)
		return;
	look_at_patch_path(root, file->to, 0, budget, to);
	len = strlen(found);
	snprintf(found + len, FILES_FOUND_BYTES + 1 - len, "/%s", to);
}
