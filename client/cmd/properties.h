/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Properties of a managed workspace, as options of create, update and fork. */

struct invocation;
struct json_object;

#define LABEL_OPTION                                              \
	{                                                         \
		"label", "NAME=VALUE", 'B', "a label; repeatable" \
	}
#define LEASE_OPTION                                                       \
	{                                                                  \
		"lease", "DURATION", 'd', "from now on; then it is closed" \
	}
#define AT_END_OPTION                                                             \
	{                                                                         \
		"at-end", "WHAT", 'z', "at the end of the lease: close or remove" \
	}
#define ENV_OPTION                                                                     \
	{                                                                              \
		"env", "NAME=VALUE", 'e', "a variable of all its commands; repeatable" \
	}
#define SHOWN_OPTION                                                                     \
	{                                                                                \
		"shown-at", "PATH", 'S', "where its commands see it; default /workspace" \
	}

/**
 * Takes an option's @word: 'B', 'd', 'z' or 'S' of those above, or 'K': what to take away. Returns
 * 0, or -EINVAL after a complaint.
 */
int properties_take(struct json_object *properties, int letter, const char *word);

/**
 * Adds what the command line has to the params of workspace.open, fork or update. Returns 0, or
 * -EINVAL after a complaint.
 */
int properties_put(const struct invocation *invocation, struct json_object *params);
