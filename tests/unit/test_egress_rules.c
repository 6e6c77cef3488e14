/* links: cloister-egress-rules */
// SPDX-License-Identifier: Apache-2.0
/* Rules: what they match, which are mistakes, that a denial wins and that nothing means no. */
#include "common/egress/rules.h"
#include "tests/lib/unit.h"

static struct rules made(bool denies, const char *written)
{
	struct text text = text_from(written);
	struct rules rules = {0};
	char why[200];

	while (text.len > 0)
		if (rules_add(&rules, text_take(&text, ' '), denies, NULL, why, sizeof(why)) < 0)
			fail_msg("%s: %s", written, why);
	return rules;
}

static struct verdict judged(
	const char *allow, const char *deny, const char *narrowed, const char *asked)
{
	struct rules allows = made(false, allow), denies = made(true, deny);
	struct rules narrows = made(false, narrowed ? narrowed : "");
	struct verdict verdict;
	struct host host;
	uint16_t port;

	assert_int_equal(host_port_parse(text_from(asked), 0, &host, &port), 0);
	verdict = rules_judge(&allows, &denies, narrowed ? &narrows : NULL, &host, port);
	verdict.rule = NULL;
	rules_done(&allows);
	rules_done(&denies);
	rules_done(&narrows);
	return verdict;
}

static void check(const char *allow, const char *deny, const char *asked, int reason)
{
	struct verdict verdict = judged(allow, deny, NULL, asked);

	if ((int)verdict.reason != reason)
		fail_msg("allow %s deny %s asked %s: %d", allow, deny, asked, verdict.reason);
}

TEST(test_matches)
{
	check("a.example", "", "a.example:443", 0);
	check("a.example", "", "A.EXAMPLE.:80", 0);
	check("a.example", "", "a.example:22", EGRESS_PORT);
	check("a.example", "", "b.example:443", EGRESS_NOT_ALLOWED);
	check("a.example", "", "b.a.example:443", EGRESS_NOT_ALLOWED);
	check("a.example:22", "", "a.example:22", 0);
	check("a.example:22", "", "a.example:443", EGRESS_PORT);
	check("a.example:*", "", "a.example:1", 0);
	check("*.a.example", "", "b.a.example:443", 0);
	check("*.a.example", "", "c.b.a.example:443", 0);
	check("*.a.example", "", "a.example:443", EGRESS_NOT_ALLOWED);
	check("*.a.example", "", "evila.example:443", EGRESS_NOT_ALLOWED);
	check("*.a.example", "", "b.a.example.evil.test:443", EGRESS_NOT_ALLOWED);
	check("**.a.example", "", "a.example:443", 0);
	check("**.a.example", "", "b.a.example:443", 0);
	check("**.a.example", "", "evila.example:443", EGRESS_NOT_ALLOWED);
	check("1.2.3.4", "", "0x01020304:443", 0);
	check("[2606::1]", "", "[2606:0::1]:443", 0);
	check("a.example:22 a.example", "", "a.example:443", 0);
}

TEST(test_nothing_means_no)
{
	check("", "", "a.example:443", EGRESS_NOT_ALLOWED);
	assert_int_equal(judged("a.example", "", "", "a.example:443").reason, EGRESS_NOT_ALLOWED);
}

TEST(test_deny_wins)
{
	check("**.example", "a.example", "a.example:443", EGRESS_RULE_DENIED);
	check("**.example", "a.example", "b.example:443", 0);
	check("**.example:*", "a.example", "a.example:7777", EGRESS_RULE_DENIED);
	check("**.example:*", "a.example:22", "a.example:23", 0);
	check("", "a.example", "a.example:443", EGRESS_RULE_DENIED);
	check("**.example", "*.a.example", "a.example:443", 0);
	check("**.example", "*.a.example", "b.a.example:443", EGRESS_RULE_DENIED);
}

TEST(test_narrowed)
{
	assert_int_equal(judged("**.example", "", "a.example", "a.example:443").reason, 0);
	assert_int_equal(
		judged("**.example", "", "a.example", "b.example:443").reason, EGRESS_NOT_ALLOWED);
	assert_int_equal(
		judged("a.example", "", "**.example", "b.example:443").reason, EGRESS_NOT_ALLOWED);
	assert_int_equal(
		judged("a.example:*", "", "a.example", "a.example:22").reason, EGRESS_PORT);
	assert_int_equal(
		judged("a.example", "", "a.example:*", "a.example:22").reason, EGRESS_PORT);
}

TEST(test_any_protocol)
{
	assert_false(judged("a.example", "", NULL, "a.example:443").any_protocol);
	assert_true(judged("tcp:a.example:443", "", NULL, "a.example:443").any_protocol);
	assert_true(judged("a.example tcp:a.example:443", "", NULL, "a.example:443").any_protocol);
	assert_false(judged("a.example", "", "tcp:a.example:443", "a.example:443").any_protocol);
	assert_false(judged("tcp:a.example:443", "", "a.example", "a.example:443").any_protocol);
}

TEST(test_mistakes)
{
	static const char *const bad[] = {"", "*", "**", "*.", "**.", "a*.example", "*a.example",
		"a.*.example", "*.*.example", "http://a.example", "a.example/x", "a.example:0",
		"a.example:x", "a.example:", "a..example", "*.10.0.0.1", "tcp:", "tcp:a.example",
		"tcp:tcp:a.example:1", "@none", "@", "a@b", "::1", "a example", "\xc3\xbc.example"};
	struct rules rules = {0};
	char why[200];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		why[0] = '\0';
		if (rules_add(&rules, text_from(bad[i]), false, NULL, why, sizeof(why)) != -EINVAL)
			fail_msg("\"%s\" is a rule", bad[i]);
		assert_true(strlen(why) > 0);
	}
	assert_int_equal(
		rules_add(&rules, text_from("tcp:a.example:1"), true, NULL, why, sizeof(why)),
		-EINVAL);
	assert_int_equal(rules.count, 0);
	rules_done(&rules);
}

static bool is_dead(const char *allow, const char *deny, const char *network)
{
	struct rules allows = made(false, allow), denies = made(true, deny);
	struct network item = {0};
	struct networks private = {&item, network ? 1 : 0};
	char why[300] = "";
	bool dead;

	if (network)
		assert_int_equal(network_parse(text_from(network), &item), 0);
	dead = rules_find_dead(&allows, &denies, &private, why, sizeof(why)) != NULL;
	assert_int_equal(dead, strlen(why) > 0);
	rules_done(&allows);
	rules_done(&denies);
	return dead;
}

/* A rule that can match nothing is an error, so that it is not taken for one that allows. */
TEST(test_dead_rules)
{
	assert_false(is_dead("a.example 1.1.1.1", "", NULL));
	assert_true(is_dead("10.0.0.1", "", NULL));
	assert_false(is_dead("10.0.0.1", "", "10.0.0.0/8"));
	assert_true(is_dead("169.254.169.254", "", "169.254.0.0/16"));
	assert_true(is_dead("[::1]:80", "", NULL));
	assert_true(is_dead("a.example", "a.example", NULL));
	assert_true(is_dead("*.a.example", "**.a.example", NULL));
	assert_true(is_dead("a.example:22", "**.example:22", NULL));
	assert_false(is_dead("a.example", "a.example:443", NULL));
	assert_true(is_dead("a.example:443", "a.example:443", NULL));
	assert_false(is_dead("**.a.example", "*.a.example", NULL));
}

struct complaints {
	unsigned count, line;
};

static void note(void *context, unsigned line, const char *message)
{
	struct complaints *complaints = context;

	complaints->count++;
	complaints->line = line;
	assert_true(strlen(message) > 0);
}

TEST(test_sets)
{
	static const char text[] =
		"# comment\n\n@a x.example y.example:1\n@b z.example\n@a w.example";
	struct complaints complaints = {0};
	struct rule_sets sets = {0};
	struct rules rules = {0};
	char why[200];

	assert_int_equal(rule_sets_read(text_from(text), note, &complaints, &sets), 0);
	assert_int_equal(rules_add(&rules, text_from("@a"), false, &sets, why, sizeof(why)), 0);
	assert_int_equal(rules.count, 3);
	assert_string_equal(rules.items[1].domain, "y.example");
	assert_int_equal(
		rules_add(&rules, text_from("@c"), false, &sets, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "@a @b"));
	rules_done(&rules);
	rule_sets_done(&sets);
	assert_int_equal(
		rule_sets_read(text_from("@a x.example\nx.example\n"), note, &complaints, &sets),
		1);
	assert_int_equal(complaints.line, 2);
	rule_sets_done(&sets);
}

/* The sets that are shipped have no mistakes. */
/* A set may be denied in part. */
TEST(test_sets_do_not_die)
{
	struct rule_sets sets = {0};
	struct complaints complaints = {0};
	struct rules allow = {0}, deny = made(true, "x.example");
	char why[300];

	assert_int_equal(
		rule_sets_read(text_from("@a x.example y.example"), note, &complaints, &sets), 0);
	assert_int_equal(rules_add(&allow, text_from("@a"), false, &sets, why, sizeof(why)), 0);
	assert_null(rules_find_dead(&allow, &deny, &(struct networks){0}, why, sizeof(why)));
	assert_int_equal(
		rules_add(&allow, text_from("x.example"), false, &sets, why, sizeof(why)), 0);
	assert_ptr_equal(rules_find_dead(&allow, &deny, &(struct networks){0}, why, sizeof(why)),
		&allow.items[2]);
	rules_done(&allow);
	rules_done(&deny);
	rule_sets_done(&sets);
}

TEST(test_shipped_sets)
{
	static const char *const names[] = {
		"@npm", "@pypi", "@crates", "@debian", "@go", "@maven", "@github"};
	struct complaints complaints = {0};
	struct rule_sets sets = {0};
	static char buffer[16384];
	_cleanup_close_ int fd = open(EGRESS_SETS_SOURCE, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, buffer, sizeof(buffer));

	assert_true(n > 0 && n < (ssize_t)sizeof(buffer));
	assert_int_equal(
		rule_sets_read((struct text){buffer, (size_t)n}, note, &complaints, &sets), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct rules rules = {0};
		char why[300];

		assert_int_equal(
			rules_add(&rules, text_from(names[i]), false, &sets, why, sizeof(why)), 0);
		assert_true(rules.count > 0);
		rules_done(&rules);
	}
	rule_sets_done(&sets);
}
