/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why cloister-unpack made no template of an archive, in words. */

#include "common/unpack_report.h"
#include "supervisor/base/refusal.h"

/** Fills in @ret. The report's name is hostile; its unprintable characters become '?'.
 */
void unpack_refusal(const struct unpack_report *report, struct refusal *ret);
