/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs in the files process. An earlier call whose end was lost may have made its change without
 * writing it to disk. The change is therefore written to disk before a later call finds it made and
 * answers with success.
 */

#include "worker/files/walk/root_open.h"

/**
 * Writes the file at @path, if there is one, and its directory to disk. Returns 0, also if there is
 * no such directory, or -errno.
 */
int file_settle(const struct root *root, struct text path);

/** Writes the names of a directory to disk. A directory that cannot be read is left out. */
int file_settle_directory(int parent);
