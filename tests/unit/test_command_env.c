/* links: cloister-worker-core */
// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/unit.h"
#include "worker/commands/command_env.h"

static const char *find(char **env, const char *name)
{
	const char *found = NULL;
	size_t len = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=') {
			assert_null(found); /* no name stands there twice */
			found = *env + len + 1;
		}
	return found;
}

TEST(test_base)
{
	_cleanup_free_ char **env = NULL;

	setenv("CLOISTER_TEST_SECRET", "of the host", 1);
	assert_int_equal(
		command_env_build("/home/agent", false, false, false, (struct text){NULL, 0}, &env),
		0);
	assert_string_equal(find(env, "HOME"), "/home/agent");
	assert_string_equal(find(env, "USER"), "agent");
	assert_string_equal(find(env, "LANG"), "C.UTF-8");
	assert_string_equal(find(env, "TERM"), "dumb");
	assert_string_equal(find(env, "PAGER"), "cat");
	assert_string_equal(find(env, "GIT_TERMINAL_PROMPT"), "0");
	assert_string_equal(find(env, "GIT_CONFIG_KEY_0"), "gc.autoDetach");
	assert_string_equal(find(env, "DEBIAN_FRONTEND"), "noninteractive");
	assert_non_null(find(env, "PATH"));
	assert_null(find(env, "CLOISTER_TEST_SECRET"));
}

TEST(test_root_inside)
{
	static const char extra[] = "USER=other";
	_cleanup_free_ char **env = NULL, **other = NULL;

	assert_int_equal(
		command_env_build("/run", true, false, false, (struct text){NULL, 0}, &env), 0);
	assert_string_equal(find(env, "USER"), "root");
	assert_string_equal(find(env, "LOGNAME"), "root");
	assert_string_equal(find(env, "HOME"), "/run");
	assert_int_equal(command_env_build("/run", true, false, false,
				 (struct text){extra, sizeof(extra)}, &other),
		0);
	assert_string_equal(find(other, "USER"), "other");
}

/* Somebody is there who turns pages and answers prompts. */
TEST(test_terminal)
{
	static const char extra[] = "TERM=vt100";
	_cleanup_free_ char **env = NULL, **other = NULL;

	assert_int_equal(
		command_env_build("/", false, false, true, (struct text){NULL, 0}, &env), 0);
	assert_string_equal(find(env, "TERM"), "xterm-256color");
	assert_null(find(env, "PAGER"));
	assert_null(find(env, "GIT_TERMINAL_PROMPT"));
	assert_null(find(env, "DEBIAN_FRONTEND"));
	assert_non_null(find(env, "PATH"));
	assert_int_equal(command_env_build("/", false, false, true,
				 (struct text){extra, sizeof(extra)}, &other),
		0);
	assert_string_equal(find(other, "TERM"), "vt100");
}

TEST(test_extra_replaces_and_adds)
{
	static const char extra[] = "HOME=/elsewhere\0NEW=a=b\0EMPTY=\0NEW=last";
	_cleanup_free_ char **env = NULL;

	assert_int_equal(command_env_build("/home/agent", false, false, false,
				 (struct text){extra, sizeof(extra)}, &env),
		0);
	assert_string_equal(find(env, "HOME"), "/elsewhere");
	assert_string_equal(find(env, "NEW"), "last");
	assert_string_equal(find(env, "EMPTY"), "");
}

TEST(test_malformed_extra)
{
	static const struct text malformed[] = {
		{"A=1", 3},  /* no NUL */
		{"A\0", 2},  /* no = */
		{"=1\0", 3}, /* no name */
		{"A=1\0B\0", 6},
		{"\0", 1},
	};
	char **env = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(malformed); i++) {
		assert_int_equal(
			command_env_build("/", false, false, false, malformed[i], &env), -EBADMSG);
		assert_null(env);
	}
}

TEST(test_count_is_bounded)
{
	static char extra[(LIMIT_COMMAND_ENV_COUNT + 1) * 8];
	_cleanup_free_ char **env = NULL;
	char **none = NULL;
	size_t at = 0;

	for (unsigned i = 0; i < LIMIT_COMMAND_ENV_COUNT; i++)
		at += (size_t)snprintf(extra + at, sizeof(extra) - at, "V%u=1", i) + 1;
	assert_int_equal(
		command_env_build("/", false, false, false, (struct text){extra, at}, &env), 0);
	at += (size_t)snprintf(extra + at, sizeof(extra) - at, "X=1") + 1;
	assert_int_equal(
		command_env_build("/", false, false, false, (struct text){extra, at}, &none),
		-EBADMSG);
}
