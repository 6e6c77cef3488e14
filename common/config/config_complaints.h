/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Receives each mistake in a configuration: the file, the line (0: the whole file) and one
 * sentence, all borrowed. warn() receives settings that are correct but have no effect; NULL:
 * nobody does.
 */
struct config_complaints {
	void (*complain)(void *context, const char *file, unsigned line, const char *message);
	void *context;
	void (*warn)(void *context, const char *file, unsigned line, const char *message);
};
