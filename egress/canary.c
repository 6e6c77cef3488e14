// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress at start. What the self-test's commands ask for is in probe/egress.c:
 * addresses that rules allow here, so that nothing but the check of addresses refuses them, and
 * names that a rule allows and another denies.
 */
#include "egress/canary.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>

/* Metadata addresses, with forms that stand for one, and addresses of private and other ranges. */
static const char *const allow[] = {
	"169.254.169.254:*",
	"169.254.170.2:*",
	"100.100.100.200:*",
	"168.63.129.16:*",
	"192.0.0.192:*",
	"[fd00:ec2::254]:*",
	"[fd20:ce::254]:*",
	"[fd00:a9fe:a9fe::1]:*",
	"[fe80::a9fe:a9fe]:*",
	"[::ffff:169.254.169.254]:*",
	"[::169.254.169.254]:*",
	"[::ffff:0:a9fe:a9fe]:*",
	"[64:ff9b::a9fe:a9fe]:*",
	"[2002:a9fe:a9fe::1]:*",
	"10.0.0.1:*",
	"172.16.0.1:*",
	"192.168.0.1:*",
	"127.0.0.1:*",
	"0.0.0.0:*",
	"100.64.0.1:*",
	"198.18.0.1:*",
	"224.0.0.1:*",
	"255.255.255.255:*",
	"[::]:*",
	"[::1]:*",
	"[fc00::1]:*",
	"[fe80::1]:*",
	"[ff02::1]:*",
	"[2001:db8::1]:*",
	"[::ffff:10.0.0.1]:*",
	"[::ffff:127.0.0.1]:*",
	"[64:ff9b::a00:1]:*",
	"[64:ff9b:1::a00:1]:*",
	"[2002:a00:1::1]:*",
	"canary.invalid:*",
	"*.canary.invalid:*",
};
static const char deny[] = "**.canary.invalid";
/* Around the metadata addresses: no exception opens those. */
static const char *const private[] = {"169.254.0.0/16", "100.100.0.0/16", "168.63.0.0/16",
	"192.0.0.0/24", "fd00::/16", "fd20::/16", "fe80::a9fe:0/112", "::ffff:0:0:0/96",
	"64:ff9b::/96", "2002::/16"};

int canary_make(struct rules *ret_allow, struct rules *ret_deny, struct networks *ret_private)
{
	struct rules allowed = {0}, denied = {0};
	struct networks opened = {.items = calloc(ARRAY_SIZE(private), sizeof(*opened.items))};
	char why[LIMIT_EGRESS_REASON_BYTES];
	int r = opened.items ? rules_add(&denied, text_from(deny), true, NULL, why, sizeof(why))
			     : -ENOMEM;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allow); i++)
		r = rules_add(&allowed, text_from(allow[i]), false, NULL, why, sizeof(why));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(private); i++)
		r = network_parse(text_from(private[i]), &opened.items[opened.count++]);
	if (r < 0) {
		rules_done(&allowed);
		rules_done(&denied);
		free(opened.items);
		return r;
	}
	*ret_allow = allowed;
	*ret_deny = denied;
	*ret_private = opened;
	return 0;
}
