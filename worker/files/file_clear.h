/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

/**
 * Removes everything in a managed workspace that is about to be removed. Answers with reply_end():
 * the number of removed entries in count, or the error that stopped it.
 */
void file_clear(const struct root *root, struct reply *reply);
