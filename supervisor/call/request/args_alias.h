/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Other names for the arguments of the tools. Models use them because the tools of other programs
 * have them. Runs in cloisterd.
 */

#include "common/tools.h"

/**
 * Returns the parameter of @tool that @name can only mean, or NULL. Letter case, "_" and "-" do not
 * matter: "filePath" means "path".
 */
const struct tool_param *args_alias(const struct tool *tool, const char *name);

/** Whether @name is what other tools call the directory that a command begins in. */
bool args_is_directory(const char *name);

/**
 * Returns the parameter whose name is nearest to @name, or that @name probably means, for a
 * message; NULL if none is near.
 */
const struct tool_param *args_nearest(const struct tool *tool, const char *name);
