/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rules of egress_allow and egress_deny. A rule is
 *   HOST          this name or address
 *   *.DOMAIN      every name below the domain, not the domain itself
 *   **.DOMAIN     the domain and every name below it
 * with ":PORT" or ":*" (every port) behind it. In egress_allow a rule without a port means ports 80
 * and 443, in egress_deny every port. "tcp:" before a rule of egress_allow, which then has a port,
 * lifts the check that a connection to port 443 is TLS for the host. "@SET" stands for the rules of
 * a shipped set. A host is refused unless a rule allows it; egress_deny overrides every rule that
 * allows.
 */

#include "common/egress/address.h"
#include "common/egress/host.h"
#include "common/wire/wire_egress.h"

struct rule {
	uint8_t match; /* enum rule_match */
	uint8_t ports; /* enum rule_ports */
	bool any_protocol;
	bool of_set;   /* it stands for a part of a set */
	uint16_t port; /* if ports is RULE_PORT_ONE */
	char *domain;  /* canonical text of the host, or of the domain behind the stars */
	char *written; /* the rule as it was written */
	/* Where, borrowed, as far as the caller of rules_add() says it. */
	const char *file;
	unsigned line;
};

enum rule_match {
	RULE_HOST,
	RULE_BELOW,
	RULE_TREE,
};

enum rule_ports {
	RULE_PORTS_WEB, /* 80 and 443 */
	RULE_PORT_ONE,
	RULE_PORTS_ALL,
};

struct rules {
	struct rule *items;
	size_t count, size;
};

/* A named set of rules; egress/sets has the shipped ones. */
struct rule_set {
	char *name;
	struct rules rules;
};

struct rule_sets {
	struct rule_set *items;
	size_t count;
};

/* Receives one sentence for each mistake. */
typedef void (*rules_complain)(void *context, unsigned line, const char *message);

void rules_done(struct rules *rules);
void rule_sets_done(struct rule_sets *sets);

/**
 * Adds one rule, or the rules of a set. @denies: for egress_deny. Returns 0, -ENOMEM, or -EINVAL
 * with the reason in @why, which has @size bytes.
 */
int rules_add(struct rules *rules, struct text written, bool denies, const struct rule_sets *sets,
	char *why, size_t size);

/**
 * Finds a rule of @allow that can match nothing, because a rule of @deny covers it or because it is
 * an address that is not permitted (address.h); a set may be denied in part. Returns it with the
 * reason in @why, or NULL.
 */
const struct rule *rules_find_dead(const struct rules *allow, const struct rules *deny,
	const struct networks *private, char *why, size_t size);

/**
 * Reads sets: lines "@NAME RULE ...", "#" begins a comment, lines of one name add up. Complains
 * about each mistake. Returns the number of mistakes, or -ENOMEM.
 */
int rule_sets_read(struct text text, rules_complain complain, void *context, struct rule_sets *ret);

struct verdict {
	enum egress_reason reason; /* 0: allowed */
	const struct rule *rule;   /* that decided, or has the host but not the port; may be NULL */
	bool any_protocol;         /* allowed: on port 443 it need not be TLS for the host */
};

/**
 * Judges a connection. @narrowed is NULL, or rules that must allow it as well as @allow. The
 * verdict borrows a rule.
 */
struct verdict rules_judge(const struct rules *allow, const struct rules *deny,
	const struct rules *narrowed, const struct host *host, uint16_t port);
