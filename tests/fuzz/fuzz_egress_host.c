/* links: cloister-egress-rules */
// SPDX-License-Identifier: Apache-2.0
/*
 * Hosts and rules. A host's text is its only form: it parses to itself, and nothing in it could
 * mean something else to a resolver, a log or TLS. A rule that was taken matches a host it names.
 *
 * Input: a rule or a host.
 */
#include "common/egress/rules.h"
#include "tests/fuzz/fuzz.h"

static void check_form(const struct host *host)
{
	char again[LIMIT_EGRESS_HOST_BYTES + 3];
	struct host same;

	CHECK(host->len == strlen(host->text) && host->len > 0);
	for (size_t i = 0; i < host->len; i++) {
		char c = host->text[i];

		CHECK((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("-_.:", c));
	}
	snprintf(again, sizeof(again), host->kind == HOST_IPV6 ? "[%s]" : "%s", host->text);
	CHECK(host_parse(text_from(again), &same) == 0);
	CHECK(host_equal(host, &same));
}

static void check_rule(struct text written)
{
	static const struct rules none;
	struct rules rules = {0};
	char why[LIMIT_EGRESS_REASON_BYTES], named[LIMIT_EGRESS_HOST_BYTES + 8];
	struct host host;

	if (rules_add(&rules, written, false, NULL, why, sizeof(why)) < 0)
		return;
	snprintf(named, sizeof(named), "%s%s", rules.items[0].match == RULE_BELOW ? "a." : "",
		rules.items[0].domain);
	if (strchr(named, ':'))
		snprintf(named, sizeof(named), "[%s]", rules.items[0].domain);
	if (host_parse(text_from(named), &host) == 0) {
		uint16_t port = rules.items[0].ports == RULE_PORT_ONE ? rules.items[0].port : 443;

		CHECK(rules_judge(&rules, &none, NULL, &host, port).reason == 0);
		CHECK(rules_judge(&rules, &rules, NULL, &host, port).reason == EGRESS_RULE_DENIED);
		CHECK(rules_judge(&rules, &none, &none, &host, port).reason != 0);
	}
	rules_done(&rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy(fuzz_text(data, size));
	struct text text = {copy, size};
	struct network network;
	struct host host;
	uint16_t port;

	if (host_parse(text, &host) == 0)
		check_form(&host);
	if (host_port_parse(text, 80, &host, &port) == 0)
		check_form(&host);
	(void)network_parse(text, &network);
	check_rule(text);
	free(copy);
	return 0;
}
