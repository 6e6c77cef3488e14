/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests that cloisterd makes in the name of the self-test's tenant, and that must be refused.
 * Each returns the code of the refusal, or TOOL_OK if there was none.
 */

#include "common/errors.h"

struct service;
struct tenant;

/** Asks to open the directory @path. The tenant has no roots, so that nothing is looked up. */
enum tool_error selftest_open(
	const struct service *service, struct tenant *tenant, const char *path);

/** Asks for the managed workspace @name. The tenant has as many as it may. */
enum tool_error selftest_make(
	const struct service *service, struct tenant *tenant, const char *name);

/** Asks for a fork of the template @how; "*" stands for a name of another tenant. */
enum tool_error selftest_fork(
	const struct service *service, struct tenant *tenant, const char *how);
