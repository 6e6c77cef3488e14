/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Bounds of the trees that the spawner copies for a tenant. */

#include "common/text.h"
#include "supervisor/base/refusal.h"

#include <stddef.h>
#include <stdint.h>

struct tenant;

/** How much one copy may take on disk: as much as a workspace of the tenant. */
uint64_t copy_max_bytes(const struct tenant *tenant);
uint64_t copy_max_files(const struct tenant *tenant);

/** Whether one more request of the tenant may have trees copied. TOOL_OK or TOOL_BUSY. */
enum tool_error copy_check_room(const struct tenant *tenant, struct refusal *ret_refusal);

/**
 * Writes why a template is not in memory, from the spawner's -errno and step: a clause that may
 * follow "because".
 */
void template_load_why(int error, struct text step, char *ret, size_t size);

/** Fills in @ret with why a copy failed, from the spawner's -errno and step. */
void copy_failed(int error, struct text step, struct refusal *ret);
