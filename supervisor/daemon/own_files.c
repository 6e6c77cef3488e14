// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, before lock-down, as the user that cloisterd keeps. It makes directories and
 * opens files at paths of the configuration and the options, and trusts those: they come from the
 * administrator, or from the user who started cloisterd.
 */
#include "supervisor/daemon/own_files.h"

#include "common/cleanup.h"
#include "common/landlock.h"
#include "common/layer_stack.h"
#include "supervisor/audit/audit.h"
#include "supervisor/audit/audit_writer.h"
#include "supervisor/base/log.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_load.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/new_daemon.h"
#include "supervisor/daemon/old_daemon.h"
#include "supervisor/host/lockdown.h"
#include "supervisor/host/startup.h"
#include "supervisor/journal/journal.h"
#include "supervisor/workspace/managed/properties_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void own_files_config(struct daemon *daemon)
{
	_cleanup_free_ char *drop_ins = NULL;

	if (!daemon->config_source)
		return;
	drop_ins = config_source_drop_ins(daemon->config_source);
	if (!drop_ins)
		die_with("out of memory");
	daemon_own_path(daemon, daemon->options.config);
	daemon_own_path(daemon, drop_ins);
}

/*
 * Locks the state for as long as cloisterd lives. Two instances would remove each other's
 * workspaces and, in system mode, give one id to two workspaces.
 */
static void lock_state(struct daemon *daemon)
{
	const char *directory = daemon->options.state_dir;
	long holder = 0;
	int r;

	/* The lock belongs to the open file, which the generation before has given. */
	if (daemon->new_daemon) {
		daemon->state_lock = new_daemon_take_lock(daemon->new_daemon);
		return;
	}
	r = startup_lock_state(directory, &daemon->state_lock, &holder);

	if (r == -EBUSY) {
		log_error("another cloisterd, process %ld, uses the state directory %s: stop it, "
			  "or choose another directory with --state-dir (state_dir in the "
			  "configuration)",
			holder, directory);
		exit(1);
	}
	if (r < 0) {
		log_error("%s/lock: %s", directory, strerror(-r));
		exit(1);
	}
}

/* Returns the path of the properties of managed workspaces, malloc'ed; NULL: there are none. */
static char *properties_path(const struct daemon *daemon)
{
	char *path = NULL;

	if (daemon->options.state_dir &&
		asprintf(&path, "%s/" PROPERTIES, daemon->options.state_dir) < 0)
		die_with("out of memory");
	return path;
}

void own_files_state(struct daemon *daemon)
{
	_cleanup_close_ int state = -1;
	_cleanup_close_ int templates_fd = -1, properties_fd = -1;
	_cleanup_free_ char *managed = NULL, *templates = NULL, *properties = NULL;
	int r;

	daemon->managed_fd = -1;
	if (!daemon->options.state_dir)
		return;
	r = startup_make_directory(daemon->options.state_dir, &state);
	if (r < 0)
		die(daemon->options.state_dir, r);
	lock_state(daemon);
	if (daemon->options.connection_fd < 0) {
		r = old_daemon_new(daemon, state, &daemon->old_daemon);
		if (r < 0)
			die("cannot make the socket for the next generation", r);
	}
	if (asprintf(&managed, "%s/workspaces", daemon->options.state_dir) < 0)
		die_with("out of memory");
	r = startup_make_directory(managed, &daemon->managed_fd);
	if (r < 0)
		die(managed, r);
	if (asprintf(&templates, "%s/" TEMPLATES, daemon->options.state_dir) < 0)
		die_with("out of memory");
	r = startup_make_directory(templates, &templates_fd);
	if (r < 0)
		die(templates, r);
	properties = properties_path(daemon);
	r = startup_make_directory(properties, &properties_fd);
	if (r < 0)
		die(properties, r);
	daemon_own_path(daemon, daemon->options.state_dir);
}

/*
 * Returns the path of the audit log, malloc'ed, or NULL if there is none. The default is a
 * directory of its own, because Landlock gives write access to whole directories and cloisterd must
 * not write in the workspaces beside it.
 */
static char *audit_path(const struct daemon *daemon)
{
	const struct config_host *host = &daemon->service.config->host;
	char *path;

	if (host->audit == AUDIT_OFF)
		return NULL;
	if (host->audit_file)
		path = strdup(host->audit_file);
	else if (asprintf(&path, "%s/audit/audit.log", daemon->options.state_dir) < 0)
		path = NULL;
	if (!path)
		die_with("out of memory");
	return path;
}

void own_files_journal(struct daemon *daemon)
{
	const struct config *config = daemon->service.config;
	_cleanup_close_ int directory = -1;
	_cleanup_free_ char *path = NULL;
	int r;

	if (config->host.journal == JOURNAL_OFF || !daemon->options.state_dir)
		return;
	if (asprintf(&path, "%s/journal", daemon->options.state_dir) < 0)
		die_with("out of memory");
	r = startup_make_directory(path, &directory);
	if (r == 0)
		r = keys_open(
			directory, config->host.journal == JOURNAL_DURABLE, &daemon->service.keys);
	if (r < 0)
		die(path, r);
	keys_configure(daemon->service.keys, config);
}

void own_files_audit(struct daemon *daemon)
{
	const struct config_host *host = &daemon->service.config->host;
	const struct audit_rotation rotation = {host->audit_size_bytes, host->audit_files};
	_cleanup_free_ char *path = audit_path(daemon);
	int r;

	if (!path)
		return;
	r = host->audit_file ? 0 : startup_make_parent(path);
	if (r < 0)
		die(path, r);
	r = audit_new(path, host->audit == AUDIT_REQUIRED, &rotation, &daemon->service.audit);
	if (r == -EAGAIN)
		die_with("another cloisterd writes the audit log");
	if (r < 0)
		die(path, r);
	daemon_own_path(daemon, path);
}

/* Returns the directory of the file or socket at @path; NULL for none. */
static char *directory_of(const char *path)
{
	char *directory = path ? strdup(path) : NULL, *slash;

	if (path && (path[0] == '\0' || !directory))
		die_with("out of memory");
	slash = directory ? strrchr(directory, '/') : NULL;
	if (slash)
		slash[slash == directory] = '\0';
	else if (directory)
		memcpy(directory, ".", sizeof("."));
	return directory;
}

void own_files_lock_down(struct daemon *daemon)
{
	const struct options *options = &daemon->options;
	_cleanup_free_ char *real = options->config ? daemon_canonical_path(options->config) : NULL;
	_cleanup_free_ char *config = directory_of(options->config);
	_cleanup_free_ char *real_config = directory_of(real);
	_cleanup_free_ char *agent = directory_of(options->agent_socket);
	_cleanup_free_ char *control = directory_of(options->control_socket);
	_cleanup_free_ char *log = audit_path(daemon), *audit = directory_of(log);
	_cleanup_free_ char *properties = properties_path(daemon);
	char cgroups[32] = "";
	const struct lockdown_place places[] = {
		{config, RULESET_READ},
		{real_config, RULESET_READ},
		{config ? "/etc" : NULL, LANDLOCK_ACCESS_FS_READ_FILE},
		{options->state_dir, LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_DIR |
					     LANDLOCK_ACCESS_FS_REMOVE_DIR},
		{properties, LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
				     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{agent, LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{control, LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{audit, LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
				LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_READ_DIR |
				LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{daemon->cgroup.root < 0 ? NULL : cgroups, LANDLOCK_ACCESS_FS_READ_FILE},
	};
	const char *step;
	int r;

	snprintf(cgroups, sizeof(cgroups), "/proc/self/fd/%d", daemon->cgroup.root);
	r = lockdown(places, ARRAY_SIZE(places), &step);

	if (r < 0)
		die(step, r);
}
