/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of the configuration that cloister-egress enforces, read from root's files by itself. If
 * cloisterd is taken over, nobody reaches a host that these files allow to no tenant. It can pass
 * off one tenant's cell as another's, and the cell can then use the other tenant's hosts and
 * secrets.
 */

#include "common/egress/rules.h"
#include "egress/secret.h"

struct egress_tenant {
	char name[LIMIT_CONFIG_NAME_BYTES + 1];
	bool has_network; /* network = egress */
	struct rules allow, deny;
	struct networks private;
	bool sni_off;
	/* Of the tenant; 0: unlimited. Bytes are those of an hour. */
	uint64_t connections, connect_rate, bytes_in, bytes_out;
	bool has_upstream;
	struct host upstream;
	uint16_t upstream_port;
	struct secrets secrets;
	/* The files that set them last, while reading. */
	const char *allow_file, *deny_file, *private_file, *secrets_file;
};

struct egress_policy;
struct tls_trust;

/**
 * Opens the directory of the configuration at @config, or, if it is "", makes a policy that gives
 * @allow, rules separated by blanks, to every tenant. Returns 0 or -errno.
 */
int egress_policy_open(const char *config, const char *allow, struct egress_policy **ret);

/**
 * Reads the configuration and the sets of rules. A mistake is logged, and the former policy stays
 * in force. With @only_roots a file that does not belong to root is a mistake. Returns 0 or -errno.
 */
int egress_policy_read(struct egress_policy *policy, bool only_roots);

/** Returns the policy of the tenant @name, valid until the next reading, or NULL. */
const struct egress_tenant *egress_policy_tenant(
	const struct egress_policy *policy, struct text name);

/** Returns the sets, for rules that a workspace asks for. */
const struct rule_sets *egress_policy_sets(const struct egress_policy *policy);

/** Returns egress_private of the tenant @i, in any order; NULL if there are fewer than @i + 1. */
const struct networks *egress_policy_private(const struct egress_policy *policy, size_t i);

/** Returns egress_resolver as ares_set_servers_ports_csv(3) takes it; "": the system's. */
const char *egress_policy_resolver(const struct egress_policy *policy);

/** Returns the certificates by which hosts of secrets are known; NULL: there are no secrets. */
const struct tls_trust *egress_policy_trust(const struct egress_policy *policy);

/**
 * Returns the path of a file that was read and is read again on reload, besides the configuration
 * and the sets; NULL if there are fewer than @i + 1. Valid until the next reading.
 */
const char *egress_policy_file(const struct egress_policy *policy, size_t i);
