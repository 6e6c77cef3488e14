/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The types of images that models take. The files process sends the bytes of such a file, and
 * cloisterd, which does not trust it, checks the type once more.
 */

#include "common/cleanup.h"
#include "common/text.h"

static inline bool image_type_is_shown(struct text type)
{
	static const struct text types[] = {
		TEXT_LITERAL("image/png"),
		TEXT_LITERAL("image/jpeg"),
		TEXT_LITERAL("image/gif"),
		TEXT_LITERAL("image/webp"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (text_equal(type, types[i]))
			return true;
	return false;
}
