/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Hears of each mistake: the file, the line (0: the file as a whole) and one sentence, all
 * borrowed. */
struct config_complaints {
	void (*complain)(void *context, const char *file, unsigned line, const char *message);
	void *context;
};
