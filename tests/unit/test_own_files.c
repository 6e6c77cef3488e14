/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* The directories and files that cloisterd makes at its start, what keeps a second one away from
 * them, and the sentence with which a start ends that cannot have them. The test stands in for the
 * lock-down, which would hold for itself too. */
#include "supervisor/daemon/own_files.h"

#include "common/landlock.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/log.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_load.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/old_daemon.h"
#include "supervisor/host/lockdown.h"
#include "supervisor/journal/journal.h"
#include "tests/lib/scratch.h"

#include "tests/lib/exits.h"
#include "tests/lib/unit.h"

static struct scratch scratch;
static struct config config;
static struct daemon house;

/* lockdown.h */

static struct {
	size_t n;
	char path[16][320]; /* "": none */
	uint64_t access[16];
	int result;
} locked;

int lockdown(const struct lockdown_place *places, size_t n, const char **ret_step)
{
	locked.n = n;
	for (size_t i = 0; i < n; i++) {
		snprintf(locked.path[i], sizeof(locked.path[i]), "%s",
			places[i].path ? places[i].path : "");
		locked.access[i] = places[i].access;
	}
	*ret_step = "the third step";
	return locked.result;
}

int lockdown_ruleset(const struct lockdown_place *places, size_t n)
{
	(void)places;
	(void)n;
	return -ENOSYS;
}

int lockdown_filter(void)
{
	return -ENOSYS;
}

/* Returns @name in the scratch directory, malloc'ed. */
static char *in_scratch(const char *name)
{
	char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", scratch.path, name) > 0);
	return path;
}

static int set_up(void **state)
{
	char *real;

	(void)state;
	log_init(true);
	scratch = scratch_new();
	/* /tmp may be a link, and own paths are canonical. */
	real = realpath(scratch.path, NULL);
	assert_true(real && strlen(real) < sizeof(scratch.path));
	strcpy(scratch.path, real);
	free(real);
	config = (struct config){.host = {.audit = AUDIT_OFF, .journal = JOURNAL_OFF}};
	house = (struct daemon){.state_lock = -1, .managed_fd = -1};
	house.service.config = &config;
	house.options.connection_fd = -1;
	house.options.state_dir = in_scratch("state");
	house.cgroup.root = -1;
	locked.n = 0;
	locked.result = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	old_daemon_free(house.old_daemon);
	keys_free(house.service.keys);
	audit_free(house.service.audit);
	config_source_free(house.config_source);
	close_fd(&house.state_lock);
	close_fd(&house.managed_fd);
	for (size_t i = 0; i < ARRAY_SIZE(house.own_paths); i++)
		free((char *)house.own_paths[i]);
	free(house.options.state_dir);
	free((char *)house.options.config);
	free(house.options.agent_socket);
	free(house.options.control_socket);
	free(config.host.audit_file);
	scratch_done(&scratch);
	return 0;
}

FIXTURE(set_up, tear_down)

static bool is_there(const char *name)
{
	return faccessat(scratch.fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static mode_t mode_of(const char *name)
{
	struct stat status;

	assert_int_equal(fstatat(scratch.fd, name, &status, AT_SYMLINK_NOFOLLOW), 0);
	return status.st_mode;
}

/* Each own path, without the scratch directory, and a space. */
static const char *own_paths(void)
{
	static char text[2048];
	size_t len = strlen(scratch.path);

	text[0] = '\0';
	for (size_t i = 0; house.own_paths[i]; i++) {
		assert_memory_equal(house.own_paths[i], scratch.path, len);
		strcat(strcat(text, house.own_paths[i] + len + 1), " ");
	}
	return text;
}

static void make_state(void)
{
	own_files_state(&house);
}

static void open_journal(void)
{
	own_files_journal(&house);
}

static void open_audit(void)
{
	own_files_audit(&house);
}

static void lock_down(void)
{
	own_files_lock_down(&house);
}

TEST(test_the_state)
{
	struct stat made, named;
	char words[128];

	make_state();
	assert_int_equal(mode_of("state"), S_IFDIR | 0700);
	assert_int_equal(mode_of("state/workspaces"), S_IFDIR | 0700);
	assert_int_equal(mode_of("state/templates"), S_IFDIR | 0700);
	assert_int_equal(mode_of("state/lock"), S_IFREG | 0600);
	assert_int_equal(mode_of("state/handover"), S_IFSOCK | 0600);
	assert_int_equal(fstat(house.managed_fd, &made), 0);
	assert_int_equal(fstatat(scratch.fd, "state/workspaces", &named, 0), 0);
	assert_int_equal(made.st_ino, named.st_ino);
	assert_string_equal(own_paths(), "state ");
	/* A second one is told which one is there. */
	snprintf(words, sizeof(words), "another cloisterd, process %ld, uses the state directory",
		(long)getpid());
	assert_exits(make_state, words);
	/* When the first one has ended, what it has left is used. */
	close_fd(&house.state_lock);
	close_fd(&house.managed_fd);
	old_daemon_free(TAKE_PTR(house.old_daemon));
	make_state();
}

/* A private instance has no next generation, and perhaps no state. */
TEST(test_a_private_instance)
{
	house.options.connection_fd = 3;
	make_state();
	assert_true(is_there("state/workspaces") && !is_there("state/handover"));
	assert_null(house.old_daemon);
	close_fd(&house.managed_fd);
	close_fd(&house.state_lock);
	free(TAKE_PTR(house.options.state_dir));
	config.host.journal = JOURNAL_DURABLE;
	make_state();
	open_journal();
	assert_int_equal(house.managed_fd, -1);
	assert_int_equal(house.state_lock, -1);
	assert_null(house.service.keys);
}

/* What is in the way at a start, and the sentence about it. */
TEST(test_what_is_in_the_way)
{
	static const struct {
		const char *directory, *file; /* of which one is there */
		void (*step)(void);
		const char *words;
	} rows[] = {
		{NULL, "state", make_state, "/state: Not a directory"},
		{"state/lock", NULL, make_state, "/state/lock: Is a directory"},
		{"state/handover/x", NULL, make_state,
			"cannot make the socket for the next generation: Is a directory"},
		{NULL, "state/workspaces", make_state, "/state/workspaces: Not a directory"},
		{NULL, "state/templates", make_state, "/state/templates: Not a directory"},
		{NULL, "state/journal", open_journal, "/state/journal: Not a directory"},
		{NULL, "state/audit", open_audit, "/state/audit/audit.log: Not a directory"},
		{"state/audit/audit.log", NULL, open_audit, "/state/audit/audit.log: "},
	};

	tear_down(state);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		set_up(state);
		config.host.journal = JOURNAL_DURABLE;
		config.host.audit = AUDIT_REQUIRED;
		if (rows[i].directory) {
			scratch_parents(&scratch, rows[i].directory);
			assert_int_equal(mkdirat(scratch.fd, rows[i].directory, 0755), 0);
		} else {
			scratch_text(&scratch, rows[i].file, "");
		}
		assert_exits(rows[i].step, rows[i].words);
		tear_down(state);
	}
	set_up(state);
}

TEST(test_the_journal)
{
	open_journal();
	assert_null(house.service.keys);
	assert_false(is_there("state/journal"));
	config.host.journal = JOURNAL_DURABLE;
	open_journal();
	assert_non_null(house.service.keys);
	assert_int_equal(mode_of("state/journal"), S_IFDIR | 0700);
	assert_true(is_there("state/journal/keys.0"));
}

TEST(test_the_audit_log)
{
	open_audit();
	assert_null(house.service.audit);
	config.host.audit = AUDIT_ON;
	open_audit();
	assert_non_null(house.service.audit);
	/* Landlock lets cloisterd write in this directory, and so it is none that it shares. */
	assert_int_equal(mode_of("state/audit"), S_IFDIR | 0700);
	assert_string_equal(own_paths(), "state/audit/audit.log ");
	assert_exits(open_audit, "another cloisterd writes the audit log");
	/* One that the administrator has named. */
	audit_free(TAKE_PTR(house.service.audit));
	config.host.audit_file = in_scratch("log");
	open_audit();
	assert_true(is_there("log"));
	assert_string_equal(own_paths(), "state/audit/audit.log log ");
}

TEST(test_the_configuration)
{
	own_files_config(&house);
	assert_string_equal(own_paths(), "");
	scratch_text(&scratch, "etc/real.conf", "");
	assert_int_equal(symlinkat("real.conf", scratch.fd, "etc/cloister.conf"), 0);
	house.options.config = in_scratch("etc/cloister.conf");
	assert_int_equal(config_source_open(house.options.config, &house.config_source), 0);
	own_files_config(&house);
	assert_string_equal(own_paths(), "etc/real.conf etc/cloister.conf.d ");
}

TEST(test_a_lock_down)
{
	static const struct {
		const char *path;
		uint64_t access;
	} rows[] = {
		{"etc", RULESET_READ},
		{"real", RULESET_READ},
		{"/etc", LANDLOCK_ACCESS_FS_READ_FILE},
		{"state", LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_DIR |
				  LANDLOCK_ACCESS_FS_REMOVE_DIR},
		{"state/properties", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
					     LANDLOCK_ACCESS_FS_MAKE_REG |
					     LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{"run", LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{"/", LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{"state/audit", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
					LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_READ_DIR |
					LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{"/proc/self/fd/7", LANDLOCK_ACCESS_FS_READ_FILE},
	};

	scratch_text(&scratch, "real/real.conf", "");
	scratch_text(&scratch, "etc/other.conf", "");
	assert_int_equal(symlinkat("../real/real.conf", scratch.fd, "etc/cloister.conf"), 0);
	house.options.config = in_scratch("etc/cloister.conf");
	house.options.agent_socket = in_scratch("run/agent.sock");
	house.options.control_socket = strdup("/control.sock");
	config.host.audit = AUDIT_ON;
	house.cgroup.root = 7;
	lock_down();
	assert_int_equal(locked.n, ARRAY_SIZE(rows));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *path =
			rows[i].path[0] == '/' ? strdup(rows[i].path) : in_scratch(rows[i].path);

		assert_string_equal(locked.path[i], path);
		assert_int_equal(locked.access[i], rows[i].access);
	}
	locked.result = -EPERM;
	assert_exits(lock_down, "the third step: Operation not permitted");
}

/* What there is not, there is no place for. */
TEST(test_a_lock_down_of_little)
{
	house.options.agent_socket = strdup("agent.sock");
	lock_down();
	for (size_t i = 0; i < locked.n; i++) {
		_cleanup_free_ char *properties = in_scratch("state/properties");
		const char *path = i == 3   ? house.options.state_dir
				   : i == 4 ? properties
				   : i == 5 ? "."
					    : "";

		assert_string_equal(locked.path[i], path);
	}
	/* An empty name is none. */
	house.options.agent_socket[0] = '\0';
	assert_exits(lock_down, "out of memory");
}
