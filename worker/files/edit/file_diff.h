/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire/wire_files.h"
#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

/**
 * Answers what has changed since a layer was frozen. Only what the layers above that one have is
 * looked at, and it is compared as the kernel shows it: then, and now.
 */
void file_diff(const struct root *root, const struct files_diff *request, struct reply *reply);
