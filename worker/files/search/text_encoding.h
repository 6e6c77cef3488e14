/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text that is not UTF-8, by its first bytes. Runs in the files process, on hostile bytes. */

#include "common/text.h"

/**
 * Returns the name that iconv(1) has for the encoding of a file that begins with @bytes, if that is
 * UTF-16: by its byte order mark, or because nearly all characters are of ASCII. Otherwise NULL.
 */
const char *text_encoding_utf16(struct text bytes);
