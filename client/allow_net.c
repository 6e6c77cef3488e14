// SPDX-License-Identifier: Apache-2.0
/*
 * Runs as the calling user, who wrote the rules. It asks the host's resolver for their names; which
 * addresses a name has when a command connects is checked by cloister-egress. getaddrinfo(3)
 */
#include "client/allow_net.h"

#include "client/complain.h"
#include "common/cleanup.h"
#include "common/egress/rules.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_addresses(struct addrinfo **addresses)
{
	if (*addresses)
		freeaddrinfo(*addresses);
}

/* Complains that @address, which @rule names or the name in it has, is private. */
static int refuse_net_rule(const char *rule, const char *address)
{
	struct network network;

	if (network_parse(text_from(address), &network) == -EPERM)
		complain_code("USAGE",
			"--allow-net %s: at %s clouds give credentials to machines, so it is never "
			"opened",
			rule, address);
	else
		complain_code("USAGE",
			"--allow-net %s: %s is not an address of the public Internet; add "
			"--allow-private-net %s/%d to let commands connect to it",
			rule, address, address, strchr(address, ':') ? 128 : 32);
	return -EINVAL;
}

static int check_name(const char *rule, const struct host *host, const struct networks *networks)
{
	static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	_cleanup_(free_addresses) struct addrinfo *addresses = NULL;
	char shown[NI_MAXHOST] = "";

	/* A name without an address may get one. */
	if (getaddrinfo(host->text, NULL, &hints, &addresses) != 0)
		return 0;
	for (const struct addrinfo *each = addresses; each; each = each->ai_next) {
		if (address_permitted(each->ai_addr, networks))
			return 0;
		if (!*shown)
			(void)getnameinfo(each->ai_addr, each->ai_addrlen, shown, sizeof(shown),
				NULL, 0, NI_NUMERICHOST);
	}
	return *shown ? refuse_net_rule(rule, shown) : 0;
}

static int check_rule(const char *written, const struct networks *networks)
{
	struct rules rules = {0};
	struct sockaddr_storage address;
	char why[LIMIT_EGRESS_REASON_BYTES] = "";
	struct host host;
	socklen_t len;
	int r;

	if (*written == '@')
		return 0; /* cloisterd knows the sets */
	r = rules_add(&rules, text_from(written), false, NULL, why, sizeof(why));
	if (r < 0)
		complain_code("USAGE", "--allow-net %s: %s", written, why);
	if (r == 0 && rules.count == 1 && rules.items[0].match == RULE_HOST) {
		const char *domain = rules.items[0].domain;
		_cleanup_free_ char *bracketed = NULL;

		r = asprintf(&bracketed, strchr(domain, ':') ? "[%s]" : "%s", domain) < 0 ? -ENOMEM
											  : 0;
		if (r == 0 && host_parse(text_from(bracketed), &host) == 0) {
			address = host_address(&host, 0, &len);
			if (len == 0)
				r = check_name(written, &host, networks);
			else if (!address_permitted((struct sockaddr *)&address, networks))
				r = refuse_net_rule(written, host.text);
		}
	}
	rules_done(&rules);
	return r;
}

int allow_net_check(const char *const *rules, const char *const *networks)
{
	struct network items[LIMIT_ALLOW_NET];
	struct networks list = {items, 0};
	int r = 0;

	for (; r == 0 && *networks; networks++) {
		r = network_parse(text_from(*networks), &items[list.count++]);
		if (r < 0)
			complain_code("USAGE", "--allow-private-net %s: %s", *networks,
				r == -EPERM
					? "addresses at which clouds give credentials to "
					  "machines are never opened"
					: "write ADDRESS/PREFIX, without bits behind the prefix");
	}
	for (; r == 0 && *rules; rules++)
		r = check_rule(*rules, &list);
	return r < 0 ? -EINVAL : 0;
}
