// SPDX-License-Identifier: Apache-2.0
/* Runs in the worker: builds a clean environment for a command. environ(7). */
#include "worker/commands/command_env.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <stdio.h>

static const char *const base[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"USER=agent",
	"LOGNAME=agent",
	"SHELL=/bin/sh",
	"LANG=C.UTF-8",
	"TMPDIR=/tmp",
};

static const char *const root[] = {"USER=root", "LOGNAME=root"};

/* The command is not interactive: no pager, prompt or editor. */
static const char *const without_terminal[] = {
	"TERM=dumb",
	"PAGER=cat",
	"GIT_PAGER=cat",
	"GIT_TERMINAL_PROMPT=0",
	/* git gc in the background would end with the command. git-config(1), from git 2.31 on */
	"GIT_CONFIG_COUNT=2",
	"GIT_CONFIG_KEY_0=gc.autoDetach",
	"GIT_CONFIG_VALUE_0=false",
	"GIT_CONFIG_KEY_1=maintenance.autoDetach",
	"GIT_CONFIG_VALUE_1=false",
	"DEBIAN_FRONTEND=noninteractive",
};

/* What most emulators of terminals understand. */
static const char *const with_terminal[] = {"TERM=xterm-256color"};

/* Without a network a client that tries again only takes longer to fail. */
static const char *const without_network[] = {
	"npm_config_fetch_retries=0",
	"PIP_RETRIES=0",
	"CARGO_NET_RETRY=0",
};

#define HOME_BYTES 64

/* Replaces the entry of the same name by @entry, or appends it. */
static void set_entry(char **env, size_t *n, char *entry)
{
	size_t name_len = strcspn(entry, "=") + 1;

	for (size_t i = 0; i < *n; i++)
		if (strncmp(env[i], entry, name_len) == 0) {
			env[i] = entry;
			return;
		}
	env[(*n)++] = entry;
	env[*n] = NULL;
}

int command_env_build(const char *home, bool root_inside, bool no_network, bool has_terminal,
	struct text extra, char ***ret_env)
{
	/* One allocation holds the pointers and, after them, the text of HOME. */
	size_t slots = ARRAY_SIZE(base) + ARRAY_SIZE(without_terminal) +
		       ARRAY_SIZE(without_network) + 1 + LIMIT_COMMAND_ENV_COUNT + 1,
	       n = 0, extra_count = 0;
	_cleanup_free_ char **env = malloc(slots * sizeof(*env) + HOME_BYTES);
	char *home_entry;

	if (!env)
		return -ENOMEM;
	if (extra.len > 0 && extra.data[extra.len - 1] != '\0')
		return -EBADMSG;
	env[0] = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(base); i++)
		set_entry(env, &n, (char *)base[i]);
	for (size_t i = 0; root_inside && i < ARRAY_SIZE(root); i++)
		set_entry(env, &n, (char *)root[i]);
	for (size_t i = 0; has_terminal && i < ARRAY_SIZE(with_terminal); i++)
		set_entry(env, &n, (char *)with_terminal[i]);
	for (size_t i = 0; !has_terminal && i < ARRAY_SIZE(without_terminal); i++)
		set_entry(env, &n, (char *)without_terminal[i]);
	for (size_t i = 0; no_network && i < ARRAY_SIZE(without_network); i++)
		set_entry(env, &n, (char *)without_network[i]);
	home_entry = (char *)(env + slots);
	snprintf(home_entry, HOME_BYTES, "HOME=%s", home);
	set_entry(env, &n, home_entry);
	for (size_t at = 0; at < extra.len; at += strlen(extra.data + at) + 1) {
		char *entry = (char *)extra.data + at;

		if (*entry == '=' || !strchr(entry, '=') || ++extra_count > LIMIT_COMMAND_ENV_COUNT)
			return -EBADMSG;
		set_entry(env, &n, entry);
	}
	*ret_env = TAKE_PTR(env);
	return 0;
}
