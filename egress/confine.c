// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress, once, before it serves. The order is that of egress_confine() at the
 * end.
 */
#include "egress/confine.h"

#include "common/cleanup.h"
#include "common/egress/shipped_sets.h"
#include "common/filter/call_filter.h"
#include "common/landlock.h"
#include "egress/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Beside the calls of every such program; all others get EPERM. */
static const int allowed[] = {
	SCMP_SYS(getdents64),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(connect),
	SCMP_SYS(mlock),
};

/*
 * No signals but to itself: the processes of other generations and their parent (egress_parent.h)
 * are of the same user. fcntl(2) could have any descriptor send them one.
 */
static int add_conditional(scmp_filter_ctx filter)
{
	static const int families[] = {AF_INET, AF_INET6};
	static const int commands[] = {
		F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD, F_DUPFD_CLOEXEC};
	int r = call_filter_allow_reader(filter);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(families); i++)
		r = call_filter_allow(
			filter, SCMP_SYS(socket), SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(commands); i++)
		r = call_filter_allow(
			filter, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)commands[i]));
	return r;
}

static const struct call_filter filter = {
	.allowed = allowed, .n_allowed = ARRAY_SIZE(allowed), .add_conditional = add_conditional};

/* Files that a resolver reads, and the certificates of tls_system_certificates(); some are links to
 * what systemd-resolved or a container has. */
static const char *const readable[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
	"/etc/host.conf", "/etc/services", "/run/systemd/resolve", "/run/resolvconf",
	"/run/NetworkManager", "/dev/urandom", "/etc/localtime", "/etc/ssl/certs",
	"/etc/ssl/cert.pem", "/etc/pki/tls/certs", "/etc/pki/ca-trust"};

/* The directory of @path: the file may be replaced by another before it is read again. */
static int allow_directory_of(int ruleset, struct landlock_attr wanted, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	const char *directory = copy ? dirname(copy) : NULL;

	if (!directory)
		return -ENOMEM;
	return landlock_ruleset_allow(ruleset, wanted, AT_FDCWD,
		strcmp(directory, "/") == 0 ? path : directory, LANDLOCK_ACCESS_FS_READ_FILE);
}

/* The file may be a link into another directory. */
static int allow_file(int ruleset, struct landlock_attr wanted, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	int r = allow_directory_of(ruleset, wanted, path);

	return r == 0 && real ? allow_directory_of(ruleset, wanted, real) : r;
}

static int enforce_ruleset(const char *config, const char *sets, const struct egress_policy *policy)
{
	const struct landlock_attr wanted = {
		.files = RULESET_ALL, .scoped = RULESET_SCOPE_SOCKETS | RULESET_SCOPE_SIGNALS};
	int ruleset, r = landlock_ruleset_new(wanted, &ruleset);
	const char *file;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(readable); i++)
		r = landlock_ruleset_allow(
			ruleset, wanted, AT_FDCWD, readable[i], LANDLOCK_ACCESS_FS_READ_FILE);
	if (r == 0 && config)
		r = landlock_ruleset_allow(ruleset, wanted, AT_FDCWD, config, RULESET_READ);
	if (r == 0)
		r = landlock_ruleset_allow(
			ruleset, wanted, AT_FDCWD, sets, LANDLOCK_ACCESS_FS_READ_FILE);
	for (size_t i = 0; r == 0 && (file = egress_policy_file(policy, i)); i++)
		r = allow_file(ruleset, wanted, file);
	return r < 0 ? r : landlock_ruleset_enforce(ruleset);
}

static int confine_files(const char *config, const struct egress_policy *policy)
{
	_cleanup_free_ char *copy = config ? strdup(config) : NULL;
	char sets[PATH_MAX];

	if (config && !copy)
		return -ENOMEM;
	shipped_sets_path(sets, sizeof(sets));
	return enforce_ruleset(copy ? dirname(copy) : NULL, sets, policy);
}

int egress_confine(const char *config, const struct egress_policy *policy, const char **ret_step)
{
	int r;

	*ret_step = "set no_new_privs";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "become non-dumpable";
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "apply the Landlock ruleset";
	r = confine_files(config, policy);
	if (r < 0)
		return r;
	*ret_step = "install the system call filter";
	return call_filter_install(&filter);
}
