/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloisterctl key: the file of keys that cloister-gate reads. No service is asked. */

#include <stdbool.h>

struct key_wish {
	const char *file; /* NULL: the default one */
	const char *tenant, *workspace, *expires, *name;
	bool json;
};

/** Runs "key new", "key list" or "key revoke KEY". @words are behind "key". Returns a status. */
int key_run(int n_words, char **words, const struct key_wish *wish);
