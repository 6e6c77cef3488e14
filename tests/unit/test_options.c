/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* cloisterd's command line: what each option means, and which value applies without it. */
#include "supervisor/config/options.h"

#include "supervisor/config/config.h"
#include "tests/lib/unit.h"

#include <getopt.h>

#define ARGS    8
#define GOES_ON 99

static void read_options(const char *const args[ARGS], struct options *ret)
{
	char *argv[ARGS + 2] = {(char *)"cloisterd"};
	int argc = 1;

	for (int i = 0; i < ARGS && args[i]; i++)
		argv[argc++] = (char *)args[i];
	optind = 0;
	options_read(argc, argv, ret);
}

/* Returns the status with which a program that reads @args exits; -1: it goes on. */
static int status_after(const char *const args[ARGS])
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct options options;
		int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		read_options(args, &options);
		_exit(GOES_ON);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == GOES_ON ? -1 : WEXITSTATUS(status);
}

TEST(test_what_ends_it)
{
	static const struct {
		const char *args[ARGS];
		int status;
	} rows[] = {
		{{"--help"}, 0},
		{{"--version"}, 0},
		{{"word"}, 2},
		{{"--wings"}, 2},
		{{"--check"}, 2}, /* there is no file to check */
		{{"--connection-fd=4"}, 2},
		{{"--connection-fd=3", "--config", "x"}, 2},
		{{"--connection-fd=3", "--agent-socket", "x"}, 2},
		{{"--connection-fd=3", "--control-socket", "x"}, 2},
		{{"--spare-cells=65"}, 2},
		{{"--spare-cells=1x"}, 2},
		{{"--spare-cells=-1"}, 2},
		{{"--spare-cells=1", "--config", "x"}, 2},
		{{"--spare-cells=64"}, -1},
		{{"--only-root", "1:2:3"}, 2}, /* only for a private instance */
		{{"--connection-fd=3", "--only-root", "1:2"}, 2},
		{{"--connection-fd=3", "--only-root", "1:2:3:4"}, 2},
		{{"--connection-fd=3", "--only-root", "1:2:x"}, 2},
		{{"--config", "x", "--readonly-path", "/x"}, 2},
		{{NULL}, -1},
		{{"--connection-fd=3", "--readonly-path", "/x", "--readonly-path=/y"}, -1},
		{{"--config", "x", "--check"}, -1},
		{{"--connection-fd=3", "--only-root", "1:2:3"}, -1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int status = status_after(rows[i].args);

		if (status != rows[i].status)
			fail_msg("row %zu: %d", i, status);
	}
}

TEST(test_readonly_paths_are_joined)
{
	static const char *const none[ARGS] = {NULL};
	static const char *const two[ARGS] = {"--readonly-path", "/x", "--readonly-path=/y z"};
	char joined[LIMIT_READONLY_BYTES];
	struct options options;

	read_options(none, &options);
	options_join_readonly_paths(&options, joined);
	assert_string_equal(joined, "");
	read_options(two, &options);
	options_join_readonly_paths(&options, joined);
	assert_string_equal(joined, "/x\n/y z");
}

TEST(test_what_is_read)
{
	static const char *const all[ARGS] = {"--config=c", "--agent-socket=first",
		"--agent-socket=a", "--control-socket=s", "--state-dir=d", "--user=u"};
	static const char *const private[ARGS] = {
		"--connection-fd=3", "--only-root=11:22:33", "--state-dir=first", "--state-dir=d"};
	static const char *const none[ARGS] = {NULL};
	struct options options;

	read_options(all, &options);
	assert_string_equal(options.config, "c");
	assert_string_equal(options.agent_socket, "a"); /* the last one counts */
	assert_string_equal(options.control_socket, "s");
	assert_string_equal(options.state_dir, "d");
	assert_string_equal(options.user, "u");
	assert_int_equal(options.connection_fd, -1);
	assert_false(options.check);
	assert_false(options.only_root.set);
	options_done(&options);
	read_options(private, &options);
	assert_int_equal(options.connection_fd, 3);
	assert_true(options.only_root.set);
	assert_int_equal(options.only_root.dev, 11);
	assert_int_equal(options.only_root.ino, 22);
	assert_int_equal(options.only_root.uid, 33);
	assert_string_equal(options.state_dir, "d");
	options_done(&options);
	read_options(none, &options);
	assert_null(options.config);
	assert_null(options.agent_socket);
	assert_int_equal(options.agent_fd, -1);
	assert_int_equal(options.control_fd, -1);
}

/* A value comes from the command line, then the configuration, then the environment. */
TEST(test_what_holds_otherwise)
{
	static const struct {
		const char *args[ARGS];
		const char *agent, *control, *state; /* from the configuration */
		const char *runtime, *state_home, *home;
		bool passed; /* an agent socket was passed */
		int result;
		const char *agent_is, *control_is, *state_is;
	} rows[] = {
		{{NULL}, NULL, NULL, NULL, "/run/u", "/s", "/h", false, 0,
			"/run/u/cloister/agent.sock", "/run/u/cloister/control.sock",
			"/s/cloister"},
		{{NULL}, NULL, NULL, NULL, "/run/u", NULL, "/h", false, 0,
			"/run/u/cloister/agent.sock", "/run/u/cloister/control.sock",
			"/h/.local/state/cloister"},
		{{NULL}, NULL, NULL, NULL, "/run/u", "relative", "/h", false, 0,
			"/run/u/cloister/agent.sock", "/run/u/cloister/control.sock",
			"/h/.local/state/cloister"},
		{{NULL}, NULL, NULL, NULL, "/run/u", NULL, "relative", false, -EINVAL, NULL, NULL,
			NULL},
		{{NULL}, NULL, NULL, NULL, "/run/u", NULL, NULL, false, -EINVAL, NULL, NULL, NULL},
		{{NULL}, "/ca", "/cc", "/cs", "/run/u", "/s", NULL, false, 0, "/ca", "/cc", "/cs"},
		{{"--agent-socket=/a"}, "/ca", "/cc", "/cs", NULL, NULL, NULL, false, 0, "/a",
			"/cc", "/cs"},
		/* The control socket stands beside an agent socket that is named. */
		{{"--agent-socket=/a"}, NULL, NULL, NULL, "/run/u", "/s", NULL, false, 0, "/a",
			"/a.control", "/s/cloister"},
		{{"--agent-socket=/d/agent.sock"}, NULL, NULL, NULL, "/run/u", "/s", NULL, false, 0,
			"/d/agent.sock", "/d/control.sock", "/s/cloister"},
		{{NULL}, "/ca", NULL, "/cs", "/run/u", NULL, NULL, false, 0, "/ca", NULL, "/cs"},
		{{"--control-socket=/c"}, NULL, NULL, NULL, "/run/u", "/s", NULL, false, 0,
			"/run/u/cloister/agent.sock", "/c", "/s/cloister"},
		{{"--state-dir=/d"}, NULL, NULL, NULL, NULL, NULL, NULL, true, 0, NULL, NULL, "/d"},
		{{"--connection-fd=3"}, "/ca", "/cc", "/cs", "/run/u", "/s", NULL, false, 0, NULL,
			NULL, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *const names[] = {"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"};
		const char *const values[] = {rows[i].runtime, rows[i].state_home, rows[i].home};
		struct config_host host = {.agent_socket = (char *)rows[i].agent,
			.control_socket = (char *)rows[i].control,
			.state_dir = (char *)rows[i].state};
		const char *message = NULL;
		struct options options;
		int r;

		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			if (values[j])
				setenv(names[j], values[j], 1);
			else
				unsetenv(names[j]);
		read_options(rows[i].args, &options);
		options.agent_fd = rows[i].passed ? 3 : -1;
		r = options_complete(&options, &host, &message);
		if (r != rows[i].result)
			fail_msg("row %zu: %d", i, r);
		assert_int_equal(message != NULL, r < 0);
		if (r == 0) {
			const char *const is[] = {
				options.agent_socket, options.control_socket, options.state_dir};
			const char *const expected[] = {
				rows[i].agent_is, rows[i].control_is, rows[i].state_is};

			for (size_t j = 0; j < ARRAY_SIZE(is); j++)
				if (!is[j] != !expected[j] ||
					(is[j] && strcmp(is[j], expected[j]) != 0))
					fail_msg("row %zu: %s", i, is[j] ? is[j] : "(none)");
		}
		options_done(&options);
	}
}
