/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire/wire_files.h"
#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

/**
 * Answers which files have changed since a layer was frozen. Only entries of the layers above that
 * one are looked at. Each is compared in two views of the kernel: the frozen one and the present
 * one.
 */
void file_diff(const struct root *root, const struct files_diff *request, struct reply *reply);
