/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* Which files are read, in what order, who may write them, and files of another kind. */
#include "common/cleanup.h"
#include "common/limits.h"
#include "tests/lib/config_loading.h"
#include "tests/lib/rounds.h"

FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_drop_ins)
{
	struct config *config;

	scratch_text(
		&scratch, "c.conf.d/20-b.conf", "[tenant b]\nusers = 3\n[tenant a]\nweight = 3\n");
	scratch_text(&scratch, "c.conf.d/10-a.conf",
		"[tenant a]\nweight = 2\nusers = 5\n 6\n[tenant c]\n");
	scratch_text(&scratch, "c.conf.d/.hidden.conf", "nonsense\n");
	scratch_text(&scratch, "c.conf.d/30.conf.bak", "nonsense\n");
	config = load_good("[tenant a]\nusers = 1 2\nweight = 1\ncalls = 4\n");
	assert_int_equal(config->n_tenants, 3);
	assert_string_equal(config->tenants[0]->name, "a");
	assert_string_equal(config->tenants[1]->name, "c");
	assert_string_equal(config->tenants[2]->name, "b");
	assert_int_equal(config->tenants[0]->weight, 3);
	assert_int_equal(config->tenants[0]->limits.calls, 4);
	/* A list is replaced like everything else. */
	assert_int_equal(config->tenants[0]->users.count, 2);
	assert_int_equal(config->tenants[0]->users.ids[0], 5);
	config_release(config);
	scratch_text(&scratch, "c.conf.d/30.conf", "[tenant a]\nweight = x\nbad\n");
	assert_int_equal(mkdirat(scratch.fd, "c.conf.d/40.conf", 0755), 0);
	refuses("[cloister]\nnope = 1\n",
		"/c.conf:2: unknown key \"nope\" in this section\n"
		"/c.conf.d/30.conf:2: weight: \"x\" is not a whole number\n"
		"/c.conf.d/30.conf:3: not a setting: write name = value\n"
		"/c.conf.d/40.conf:0: not a regular file\n");
}

TEST(test_who_may_write)
{
	char path[512];

	scratch_text(&scratch, "c.conf", "");
	scratch_text(&scratch, "c.conf.d/1.conf", "");
	snprintf(path, sizeof(path), "%s/c.conf", scratch.path);
	assert_int_equal(chmod(path, 0664), 0);
	snprintf(path, sizeof(path), "%s/c.conf.d/1.conf", scratch.path);
	assert_int_equal(chmod(path, 0646), 0);
	snprintf(path, sizeof(path), "%s/c.conf.d", scratch.path);
	assert_int_equal(chmod(path, 01777), 0);
	assert_int_equal(chmod(scratch.path, 0770), 0);
	assert_null(load());
	assert_string_equal(said,
		"/c.conf:0: users other than its owner can write it: chmod go-w\n"
		":0: users other than the owner of this directory can write it: chmod go-w\n"
		"/c.conf.d:0: users other than the owner of this directory can write it: chmod "
		"go-w\n"
		"/c.conf.d/1.conf:0: users other than its owner can write it: chmod go-w\n");
	/* Mode 1777 as /tmp has: other users cannot replace the file there. */
	assert_int_equal(chmod(scratch.path, 01777), 0);
	assert_null(load());
	assert_int_equal(n_said, 3);
}

TEST(test_files_that_cannot_be_read)
{
	_cleanup_free_ char *large = malloc(LIMIT_CONFIG_FILE_BYTES + 1);

	assert_null(load());
	assert_string_equal(said, "/c.conf:0: No such file or directory\n");
	assert_int_equal(mkfifoat(scratch.fd, "c.conf", 0600), 0);
	assert_null(load()); /* must not wait for a writer */
	assert_string_equal(said, "/c.conf:0: not a regular file\n");
	assert_int_equal(unlinkat(scratch.fd, "c.conf", 0), 0);
	memset(large, '\n', LIMIT_CONFIG_FILE_BYTES + 1);
	scratch_write(&scratch, "c.conf", large, LIMIT_CONFIG_FILE_BYTES + 1);
	assert_null(load());
	assert_string_equal(said, "/c.conf:0: larger than 1048576 bytes\n");
	scratch_write(&scratch, "c.conf", large, LIMIT_CONFIG_FILE_BYTES);
	assert_null(load());
	assert_int_equal(n_said, 1); /* the file was read: it has no tenant */
}

TEST(test_lines_that_are_no_text)
{
	static const char text[] = "\xef\xbb\xbf[tenant t]\r\n"
				   "weight = 5\0weight = 6\r\n"
				   "calls = 5\x1b[31m\n"
				   "environment = A=\xff\xfe\n"
				   "environment = A=\xc3\xa4\tb\n"
				   "weight = 7";
	struct config *config;

	scratch_write(&scratch, "c.conf", text, sizeof(text) - 1);
	assert_null(load());
	assert_string_equal(said,
		"/c.conf:2: the line contains control characters, or bytes that are not UTF-8\n"
		"/c.conf:3: the line contains control characters, or bytes that are not UTF-8\n"
		"/c.conf:4: the line contains control characters, or bytes that are not UTF-8\n");
	config = load_good("\xef\xbb\xbf[tenant t]\r\nenvironment = A=\xc3\xa4\tb\r\nweight = 7");
	assert_string_equal(config->tenants[0]->environment.strings[0], "A=\xc3\xa4\tb");
	assert_int_equal(config->tenants[0]->weight, 7);
	config_release(config);
}

/* Far beyond the 200 bytes that inih holds. */
TEST(test_long_lines)
{
	_cleanup_free_ char *text = malloc(3 * LIMIT_CONFIG_LINE_BYTES);
	static const char start[] = "[tenant t]\nenvironment = A=";
	size_t line = LIMIT_CONFIG_LINE_BYTES - strlen("environment = A=");
	struct config *config;

	memset(text, 'x', 3 * LIMIT_CONFIG_LINE_BYTES);
	memcpy(text, start, strlen(start));
	text[strlen(start) + line] = '\0';
	config = load_good(text);
	assert_int_equal(strlen(config->tenants[0]->environment.strings[0]), line + 2);
	config_release(config);
	memcpy(text + strlen(start) + line, "x\nnope\n", 8);
	refuses(text, "/c.conf:2: the line is longer than 4096 bytes\n"
		      "/c.conf:3: not a setting: write name = value\n");
	/* A name longer than inih's buffer; and a line without a name. */
	memset(text, 'n', 400);
	memcpy(text, "[tenant t]\n", 11);
	strcpy(text + 300, "= 1\n");
	memset(text + 304, 'm', 60);
	strcpy(text + 364, " = 1\n[tenant ");
	memset(text + 377, 'a', 60);
	strcpy(text + 437, "]\n");
	assert_null(load_text(text));
	assert_int_equal(n_said, 3);
	assert_non_null(strstr(said, "/c.conf:2: not a setting"));
	assert_non_null(strstr(said, "/c.conf:3: unknown key \"mmm"));
	assert_non_null(strstr(said, "/c.conf:4: \"aaa"));
}

TEST(test_ten_thousand_mistakes)
{
	_cleanup_free_ char *text = malloc(10000 * 20 + 20);
	size_t len = (size_t)sprintf(text, "[tenant t]\n");

	for (int i = 0; i < 10000; i++)
		len += (size_t)sprintf(text + len, i % 2 ? "weight = x\n" : "nothing here\n");
	assert_null(load_text(text));
	/* The first weight is not a number; the others are duplicates. */
	assert_int_equal(n_said, 10000);
}

TEST(test_too_many)
{
	_cleanup_free_ char *text = malloc(64 * 1024);
	size_t len = 0;

	for (int i = 0; i <= LIMIT_CONFIG_TENANTS; i++)
		len += (size_t)sprintf(text + len, "[tenant t%d]\n", i);
	refuses(text, "/c.conf:1025: more than 1024 tenants\n");
	len = (size_t)sprintf(text, "[tenant t]\nusers =");
	for (int i = 0; i <= LIMIT_CONFIG_LIST; i++)
		len += (size_t)sprintf(text + len, " %d", i);
	refuses(text, "/c.conf:2: users: more than 256 values\n");
	len = (size_t)sprintf(text, "[tenant t]\n");
	for (int i = 0; i <= LIMIT_TENANT_ENV_COUNT; i++)
		len += (size_t)sprintf(text + len, "environment = V%d=x\n", i);
	refuses(text, "/c.conf:66: environment: more than 64 variables or 8192 bytes\n");
}

/* Files damaged by an editor or a disk: each is refused or read, and nothing worse happens. */
TEST(test_damaged_files)
{
	static const char good[] = "[cloister]\nagent_socket_mode = 0666\nrequire = passrights\n"
				   "[tenant a]\nusers = root 5\n  6\nroots = /\nweight = 5\n"
				   "environment = A=1\n  B=2\nblocked_commands = default\n  ^x$\n"
				   "[tenant b]\ncommand_memory = 5G\ncpu_max = 50%\n";
	unsigned seed = 1;

	for (size_t round = 0, n = rounds(500, 3000); round < n; round++) {
		char text[sizeof(good)];
		size_t len = sizeof(good) - 1;

		memcpy(text, good, sizeof(good));
		for (size_t i = 0; i < 1 + round % 8; i++) {
			seed = seed * 1103515245 + 12345;
			if ((seed >> 24) % 3 == 0)
				text[(seed >> 8) % len] = (char)(seed >> 4);
			else
				text[(seed >> 8) % len] = "\n[]=:# \t;0"[(seed >> 16) % 10];
		}
		seed = seed * 1103515245 + 12345;
		if (round % 5 == 0)
			len = (seed >> 8) % len;
		scratch_write(&scratch, "c.conf", text, len);
		config_release(load());
	}
}
