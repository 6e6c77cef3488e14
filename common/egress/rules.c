// SPDX-License-Identifier: Apache-2.0
/* Used by cloister-egress and cloisterd. Rules come from root's files and from clients' requests.
 */
#include "common/egress/rules.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const struct text tcp_mark = TEXT_LITERAL("tcp:");

static void rule_done(struct rule *rule)
{
	free(rule->domain);
	free(rule->written);
	*rule = (struct rule){0};
}

void rules_done(struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		rule_done(&rules->items[i]);
	free(rules->items);
	*rules = (struct rules){0};
}

void rule_sets_done(struct rule_sets *sets)
{
	for (size_t i = 0; i < sets->count; i++) {
		free(sets->items[i].name);
		rules_done(&sets->items[i].rules);
	}
	free(sets->items);
	*sets = (struct rule_sets){0};
}

static bool starts_with(struct text text, struct text start)
{
	return text.len >= start.len && memcmp(text.data, start.data, start.len) == 0;
}

static struct text without(struct text text, size_t n)
{
	return (struct text){text.data + n, text.len - n};
}

/* Takes ":PORT" or ":*" from the end of @text. Returns 0 or -EINVAL. */
static int take_port(struct text *text, struct rule *rule)
{
	const char *colon = memrchr(text->data, ':', text->len);
	const char *bracket = memrchr(text->data, ']', text->len);
	struct text port;

	if (!colon || (bracket && colon < bracket))
		return 0;
	port = without(*text, (size_t)(colon - text->data) + 1);
	text->len = (size_t)(colon - text->data);
	if (text_equal(port, TEXT_LITERAL("*"))) {
		rule->ports = RULE_PORTS_ALL;
		return 0;
	}
	rule->ports = RULE_PORT_ONE;
	return port_parse(port, &rule->port);
}

/* Parses what is left when the marks are off. Returns NULL, or why it is not a rule. */
static const char *take_host(struct text text, struct rule *rule, struct host *ret)
{
	if (starts_with(text, TEXT_LITERAL("**."))) {
		rule->match = RULE_TREE;
		text = without(text, 3);
	} else if (starts_with(text, TEXT_LITERAL("*."))) {
		rule->match = RULE_BELOW;
		text = without(text, 2);
	}
	if (text.len > 0 && memchr(text.data, '*', text.len))
		return "\"*\" can only be the whole first label, as in *.example.com";
	if (host_parse(text, ret) < 0)
		return "not a host: write a name in ASCII (xn--...), an IPv4 address, or an IPv6 "
		       "address in brackets";
	if (rule->match != RULE_HOST && ret->kind != HOST_NAME)
		return "an address has nothing below it";
	return NULL;
}

/* Returns NULL, or why @written is not a rule. */
static const char *parse_egress_rule(
	struct text written, bool denies, struct rule *rule, struct host *host)
{
	struct text text = written;

	if (written.len == 0 || written.len > LIMIT_EGRESS_RULE_BYTES || text_has_nul(written))
		return "empty or too long";
	if (starts_with(text, tcp_mark)) {
		rule->any_protocol = true;
		text = without(text, tcp_mark.len);
	}
	if (text.len == 0)
		return "no host";
	if (memchr(text.data, '/', text.len))
		return "a rule is a host and a port, without a scheme or a path";
	if (take_port(&text, rule) < 0)
		return "a port is a number from 1 to 65535, or \"*\"";
	if (rule->any_protocol && denies)
		return "\"tcp:\" has a meaning only in egress_allow";
	if (rule->any_protocol && rule->ports == RULE_PORTS_WEB)
		return "\"tcp:\" needs a port, as in tcp:git.example.com:22";
	if (denies && rule->ports == RULE_PORTS_WEB)
		rule->ports = RULE_PORTS_ALL;
	return take_host(text, rule, host);
}

/* Makes room for one more, of which the memory is the caller's to fill in. */
static struct rule *grow_rules(struct rules *rules)
{
	if (rules->count == rules->size) {
		size_t size = rules->size ? rules->size * 2 : 8;
		struct rule *grown = reallocarray(rules->items, size, sizeof(*grown));

		if (!grown)
			return NULL;
		rules->items = grown;
		rules->size = size;
	}
	return &rules->items[rules->count];
}

static int append_to_rules(struct rules *rules, const struct rule *like, const char *domain,
	size_t len, struct text written)
{
	struct rule *rule = grow_rules(rules);

	if (!rule)
		return -ENOMEM;
	*rule = *like;
	rule->domain = strndup(domain, len);
	rule->written = strndup(written.data, written.len);
	if (!rule->domain || !rule->written) {
		rule_done(rule);
		return -ENOMEM;
	}
	rules->count++;
	return 0;
}

static const struct rule_set *find_set(const struct rule_sets *sets, struct text name)
{
	for (size_t i = 0; sets && i < sets->count; i++)
		if (text_equal(text_from(sets->items[i].name), name))
			return &sets->items[i];
	return NULL;
}

static int add_set(struct rules *rules, struct text name, const struct rule_sets *sets, bool denies,
	char *why, size_t size)
{
	const struct rule_set *set = find_set(sets, name);
	int r = 0;

	if (!set) {
		snprintf(why, size, "no set has this name; the sets are:");
		for (size_t i = 0; sets && i < sets->count && strlen(why) < size; i++)
			snprintf(
				why + strlen(why), size - strlen(why), " @%s", sets->items[i].name);
		return -EINVAL;
	}
	for (size_t i = 0; r == 0 && i < set->rules.count; i++) {
		struct rule rule = set->rules.items[i];

		rule.of_set = true;
		if (denies)
			rule.ports = RULE_PORTS_ALL;
		r = append_to_rules(
			rules, &rule, rule.domain, strlen(rule.domain), text_from(rule.written));
	}
	return r;
}

int rules_add(struct rules *rules, struct text written, bool denies, const struct rule_sets *sets,
	char *why, size_t size)
{
	struct rule rule = {0};
	struct host host;
	const char *wrong;

	if (rules->count >= LIMIT_EGRESS_RULES) {
		snprintf(why, size, "more than %d rules", LIMIT_EGRESS_RULES);
		return -EINVAL;
	}
	if (written.len > 0 && written.data[0] == '@')
		return add_set(rules, without(written, 1), sets, denies, why, size);
	wrong = parse_egress_rule(written, denies, &rule, &host);
	if (wrong) {
		snprintf(why, size, "%s", wrong);
		return -EINVAL;
	}
	return append_to_rules(rules, &rule, host.text, host.len, written);
}

/* Takes the next word. Empty at the end of @text. */
static struct text take_rule_word(struct text *text)
{
	struct text word = {0};

	while (text->len > 0 && word.len == 0) {
		size_t n = 0;

		while (n < text->len && text->data[n] != ' ' && text->data[n] != '\t')
			n++;
		word = (struct text){text->data, n};
		*text = without(*text, n < text->len ? n + 1 : n);
	}
	return word;
}

static struct rule_set *have_set(struct rule_sets *sets, struct text name)
{
	struct rule_set *grown, *set = (struct rule_set *)find_set(sets, name);

	if (set)
		return set;
	grown = reallocarray(sets->items, sets->count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	sets->items = grown;
	set = &grown[sets->count];
	*set = (struct rule_set){.name = strndup(name.data, name.len)};
	if (!set->name)
		return NULL;
	sets->count++;
	return set;
}

/* One line of sets. Returns 0, -ENOMEM, or -EINVAL with the reason in @why. */
static int read_set_line(struct text line, struct rule_sets *sets, char *why, size_t size)
{
	struct text word = take_rule_word(&line);
	struct rule_set *set;
	int r = 0;

	if (word.len == 0 || word.data[0] == '#')
		return 0;
	if (word.data[0] != '@' || word.len < 2 || text_has_nul(word)) {
		snprintf(why, size, "a line begins with @NAME or #");
		return -EINVAL;
	}
	set = have_set(sets, without(word, 1));
	if (!set)
		return -ENOMEM;
	while (r == 0 && (word = take_rule_word(&line)).len > 0)
		r = rules_add(&set->rules, word, false, NULL, why, size);
	return r;
}

int rule_sets_read(struct text text, rules_complain complain, void *context, struct rule_sets *ret)
{
	struct rule_sets sets = {0};
	char why[LIMIT_EGRESS_REASON_BYTES];
	int mistakes = 0;

	for (unsigned line = 1; text.len > 0; line++) {
		int r = read_set_line(text_take(&text, '\n'), &sets, why, sizeof(why));

		if (r == -ENOMEM) {
			rule_sets_done(&sets);
			return r;
		}
		if (r < 0) {
			mistakes++;
			complain(context, line, why);
		}
	}
	*ret = sets;
	return mistakes;
}

/* Whether @name is below @domain: a label more, at least. */
static bool is_subdomain(struct text name, struct text domain)
{
	return domain.data && name.len > domain.len + 1 &&
	       name.data[name.len - domain.len - 1] == '.' &&
	       memcmp(name.data + name.len - domain.len, domain.data, domain.len) == 0;
}

static bool has_host(const struct rule *rule, const struct host *host)
{
	struct text domain = text_from(rule->domain);

	if (rule->match != RULE_BELOW && text_equal(host_text(host), domain))
		return true;
	return rule->match != RULE_HOST && host->kind == HOST_NAME &&
	       is_subdomain(host_text(host), domain);
}

static bool has_port(const struct rule *rule, uint16_t port)
{
	switch (rule->ports) {
	case RULE_PORTS_WEB:
		return port == 80 || port == 443;
	case RULE_PORT_ONE:
		return port == rule->port;
	default:
		return true;
	}
}

/* Whether each host of @inner is one of @outer. */
static bool covers_hosts(const struct rule *outer, const struct rule *inner)
{
	struct text domain = text_from(outer->domain), name = text_from(inner->domain);

	if (text_equal(domain, name))
		return outer->match == inner->match || outer->match == RULE_TREE;
	return outer->match != RULE_HOST && is_subdomain(name, domain);
}

static bool covers_ports(const struct rule *outer, const struct rule *inner)
{
	if (inner->ports == RULE_PORTS_ALL)
		return outer->ports == RULE_PORTS_ALL;
	if (inner->ports == RULE_PORT_ONE)
		return has_port(outer, inner->port);
	return has_port(outer, 80) && has_port(outer, 443);
}

static bool is_refused_address(const struct rule *rule, const struct networks *private)
{
	struct sockaddr_storage address;
	char text[LIMIT_EGRESS_HOST_BYTES + 3];
	struct host host;
	socklen_t len;

	snprintf(text, sizeof(text), strchr(rule->domain, ':') ? "[%s]" : "%s", rule->domain);
	if (host_parse(text_from(text), &host) < 0 || host.kind == HOST_NAME)
		return false;
	address = host_address(&host, 443, &len);
	return !address_permitted((struct sockaddr *)&address, private);
}

const struct rule *rules_find_dead(const struct rules *allow, const struct rules *deny,
	const struct networks *private, char *why, size_t size)
{
	for (size_t i = 0; i < allow->count; i++) {
		const struct rule *rule = &allow->items[i];

		if (rule->of_set)
			continue;
		if (is_refused_address(rule, private)) {
			snprintf(why, size,
				"it matches nothing: the address is not of the public Internet, "
				"and "
				"egress_private does not name it");
			return rule;
		}
		for (size_t j = 0; j < deny->count; j++) {
			const struct rule *denied = &deny->items[j];

			if (!covers_hosts(denied, rule) || !covers_ports(denied, rule))
				continue;
			snprintf(why, size,
				"it matches nothing: egress_deny has %s; remove one of the two",
				denied->written);
			return rule;
		}
	}
	return NULL;
}

/* Looks for a rule that allows; the one that takes any protocol, if there is one. */
static struct verdict judge_by(const struct rules *rules, const struct host *host, uint16_t port)
{
	struct verdict verdict = {.reason = EGRESS_NOT_ALLOWED};

	for (size_t i = 0; i < rules->count; i++) {
		const struct rule *rule = &rules->items[i];

		if (!has_host(rule, host))
			continue;
		if (!has_port(rule, port)) {
			if (verdict.reason == EGRESS_NOT_ALLOWED)
				verdict = (struct verdict){.reason = EGRESS_PORT, .rule = rule};
			continue;
		}
		if (verdict.reason != 0 || rule->any_protocol)
			verdict =
				(struct verdict){.rule = rule, .any_protocol = rule->any_protocol};
	}
	return verdict;
}

struct verdict rules_judge(const struct rules *allow, const struct rules *deny,
	const struct rules *narrowed, const struct host *host, uint16_t port)
{
	struct verdict verdict, narrower;

	for (size_t i = 0; i < deny->count; i++)
		if (has_host(&deny->items[i], host) && has_port(&deny->items[i], port))
			return (struct verdict){EGRESS_RULE_DENIED, &deny->items[i], false};
	verdict = judge_by(allow, host, port);
	if (verdict.reason != 0 || !narrowed)
		return verdict;
	narrower = judge_by(narrowed, host, port);
	narrower.any_protocol &= verdict.any_protocol;
	return narrower;
}
