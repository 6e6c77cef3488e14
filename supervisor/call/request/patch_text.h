/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the text of apply_patch: the grammar that models are trained on, and nothing that is only
 * like it. cloisterd reads it, and the files process gets the parts (common/wire/wire_files.h), so
 * no byte of it is read by two readers.
 *
 *   patch  = "*** Begin Patch" file+ "*** End Patch"
 *   file   = "*** Add File: " PATH ("+" LINE)*
 *          | "*** Delete File: " PATH
 *          | "*** Update File: " PATH ["*** Move to: " PATH] hunk*
 *   hunk   = ("@@" | ("@@ " LINE)+) line+ ["*** End of File"]
 *   line   = (" " | "-" | "+") LINE | ""
 *
 * The "@@" of a file's first hunk may be missing. An empty line in a hunk is an empty line of the
 * file. Lines end with "\n", and white space after the last one does not matter.
 */

#include "common/errors.h"
#include "common/text.h"

struct patch_text {
	char *parts; /* encoded, malloc'ed; the caller frees it */
	size_t len;
	char *first;   /* path of the first file, malloc'ed; the caller frees it */
	char *message; /* of a failure, malloc'ed; NULL: the code's own sentence */
};

/**
 * Reads @patch for a workspace that is seen at @visible_root. Returns TOOL_OK with the parts, or an
 * error with a message that names the line: INVALID_ARGUMENTS for a malformed patch, an error of a
 * path, or BUSY if memory is out.
 */
enum tool_error patch_text_read(
	struct text visible_root, struct text patch, struct patch_text *ret);
