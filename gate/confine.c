// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate, once, before it serves. The order is that of gate_confine() at the end.
 * Afterwards it can read the directory of the keys, connect Unix sockets, and accept.
 */
#include "gate/confine.h"

#include "common/cleanup.h"
#include "common/filter/call_filter.h"
#include "common/landlock.h"
#include "gate/gate_config.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Beside the calls of every such program; all others get EPERM. */
static const int allowed[] = {
	SCMP_SYS(epoll_create1),
	SCMP_SYS(fcntl),
	SCMP_SYS(getgid),
	SCMP_SYS(getrusage),
};

/* Lengths of addresses. */
#define UNIX_ADDRESS ((scmp_datum_t)sizeof(struct sockaddr_un))
#define IPV4_ADDRESS ((scmp_datum_t)sizeof(struct sockaddr_in))

/* Unix sockets only, and files only for reading. */
static int add_conditional(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp local = SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)AF_UNIX);
	int r = call_filter_allow_reader(filter);

	if (r == 0)
		r = call_filter_allow(filter, SCMP_SYS(socket), local);
	/* Between TLS and what was upgraded (libmicrohttpd, tls_pump.c). */
	if (r == 0)
		r = call_filter_allow(filter, SCMP_SYS(socketpair), local);
	/*
	 * Unix sockets are connected by addresses of struct sockaddr_un. Version 7.88 of libcurl
	 * overlooks that its socket is connected already (CURL_SOCKOPT_ALREADY_CONNECTED), and
	 * connects it to an IPv4 address, which then seems to succeed.
	 */
	if (r == 0)
		r = call_filter_allow(
			filter, SCMP_SYS(connect), SCMP_A2(SCMP_CMP_EQ, UNIX_ADDRESS, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(0), SCMP_SYS(connect), 1,
			SCMP_A2(SCMP_CMP_EQ, IPV4_ADDRESS, 0));
	/* evbuffer_read() asks how much there is to read. */
	return r < 0 ? r
		     : call_filter_allow(filter, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, FIONREAD));
}

static const struct call_filter filter = {
	.allowed = allowed, .n_allowed = ARRAY_SIZE(allowed), .add_conditional = add_conditional};

static int drop_gate_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int allow_directory_of(int ruleset, struct landlock_attr wanted, const char *path)
{
	_cleanup_free_ char *copy = path ? strdup(path) : NULL;

	if (!copy)
		return -ENOMEM;
	return landlock_ruleset_allow(ruleset, wanted, AT_FDCWD, dirname(copy), RULESET_READ);
}

/* Certificates and public keys are often symbolic links to a file of another directory. */
static int allow_linked_file(int ruleset, struct landlock_attr wanted, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	int r = allow_directory_of(ruleset, wanted, path);

	return r < 0 ? r : allow_directory_of(ruleset, wanted, real);
}

/* Files that are replaced and read again: keys, the certificate; what the C library reads. */
static int enforce_ruleset(const struct gate_config *config)
{
	const struct landlock_attr wanted = {.files = RULESET_ALL,
		.net = RULESET_NET,
		.scoped = RULESET_SCOPE_SOCKETS | RULESET_SCOPE_SIGNALS};
	int ruleset, r = landlock_ruleset_new(wanted, &ruleset);

	if (r == 0)
		r = allow_directory_of(ruleset, wanted, config->keys);
	if (r == 0 && config->tls == GATE_TLS_CERTIFICATE)
		r = allow_linked_file(ruleset, wanted, config->tls_certificate);
	if (r == 0 && config->tls == GATE_TLS_CERTIFICATE)
		r = allow_linked_file(ruleset, wanted, config->tls_key);
	if (r == 0 && config->jwt_keys)
		r = allow_linked_file(ruleset, wanted, config->jwt_keys);
	if (r == 0)
		r = landlock_ruleset_allow(
			ruleset, wanted, AT_FDCWD, "/etc/localtime", LANDLOCK_ACCESS_FS_READ_FILE);
	return r < 0 ? r : landlock_ruleset_enforce(ruleset);
}

int gate_confine(const struct gate_config *config, const char **ret_step)
{
	int r;

	*ret_step = "drop all capabilities";
	r = drop_gate_capabilities();
	if (r < 0)
		return r;
	*ret_step = "set no_new_privs";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "become non-dumpable";
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "apply the Landlock ruleset";
	r = enforce_ruleset(config);
	if (r < 0)
		return r;
	*ret_step = "install the system call filter";
	return call_filter_install(&filter);
}
