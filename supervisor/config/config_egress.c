// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Rules come from the configuration and, in workspace.open, from clients. */
#include "supervisor/config/config_egress.h"

#include "common/egress/secret_line.h"
#include "common/limits.h"
#include "supervisor/config/known_sets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The form only. */
static bool check_set(const char *name, char *why, size_t size)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

	if (*name && name[strspn(name, letters)] == '\0')
		return true;
	snprintf(why, size, "a set is @ and a name of letters, digits and -_.");
	return false;
}

static bool add_egress_rule(
	struct rules *rules, const char *word, bool denies, char *why, size_t size)
{
	const struct rule_sets *sets = known_sets();
	int r;

	if (word[0] == '@' && !sets)
		return check_set(word + 1, why, size);
	r = rules_add(rules, text_from(word), denies, sets, why, size);
	if (r == -ENOMEM)
		snprintf(why, size, "out of memory");
	return r == 0;
}

bool config_egress_ask(struct rules *rules, const char *word, char *why, size_t size)
{
	return add_egress_rule(rules, word, false, why, size);
}

static bool check_rule(const char *word, bool denies, char *why, size_t size)
{
	struct rules rules = {0};
	bool is_rule = add_egress_rule(&rules, word, denies, why, size);

	rules_done(&rules);
	return is_rule;
}

static bool check_network(const char *word, char *why, size_t size)
{
	struct network network;
	int r = network_parse(text_from(word), &network);

	if (r == -EPERM)
		snprintf(why, size,
			"addresses at which clouds give credentials to machines are never opened");
	else if (r < 0)
		snprintf(why, size,
			"not a network: write ADDRESS/PREFIX, without bits behind the prefix");
	return r == 0;
}

static bool check_resolver(const char *word, char *why, size_t size)
{
	struct host host;
	uint16_t port;

	if (host_port_parse(text_from(word), 53, &host, &port) == 0 && host.kind != HOST_NAME)
		return true;
	snprintf(why, size, "write ADDRESS[:PORT], an IPv6 address in brackets");
	return false;
}

static bool check_upstream(const char *word, char *why, size_t size)
{
	static const char http[] = "http://";
	struct text text = text_from(word);
	struct host host;
	uint16_t port;

	if (strncmp(word, http, strlen(http)) == 0) {
		text.data += strlen(http);
		text.len -= strlen(http);
		if (text.len > 0 && text.data[text.len - 1] == '/')
			text.len--;
		if (host_port_parse(text, 0, &host, &port) == 0)
			return true;
	}
	snprintf(why, size, "write http://HOST:PORT");
	return false;
}

/*
 * The file is looked at, not opened: cloisterd is not to have what is in it, and may not even be
 * able to find it. The owner and what cloisterd cannot see, cloister-egress checks.
 */
static bool check_secret(const char *value, char *why, size_t size)
{
	char path[LIMIT_EGRESS_PATH_BYTES + 1];
	struct secret_line line;
	struct stat attributes;
	const char *wrong;

	if (secret_line_parse(text_from(value), &line, why, size) < 0)
		return false;
	snprintf(path, sizeof(path), "%.*s", (int)line.file.len, line.file.data);
	if (stat(path, &attributes) < 0)
		wrong = errno == ENOENT || errno == ENOTDIR ? "there is no such file" : NULL;
	else
		wrong = secret_file_wrong(&attributes);
	if (wrong)
		snprintf(why, size, "%s: %s", path, wrong);
	return !wrong;
}

bool config_egress_check(enum egress_words kind, const char *word, char *why, size_t size)
{
	switch (kind) {
	case EGRESS_WORDS_ALLOW:
	case EGRESS_WORDS_DENY:
		return check_rule(word, kind == EGRESS_WORDS_DENY, why, size);
	case EGRESS_WORDS_NETWORKS:
		return check_network(word, why, size);
	case EGRESS_WORDS_RESOLVER:
		return check_resolver(word, why, size);
	case EGRESS_WORDS_SECRET:
		return check_secret(word, why, size);
	default:
		return check_upstream(word, why, size);
	}
}

static bool add_rules(struct rules *rules, bool denies, const char *word,
	const struct config_reader *reader, char *why, size_t size)
{
	size_t from = rules->count;
	bool is_added = add_egress_rule(rules, word, denies, why, size);

	for (; from < rules->count; from++) {
		rules->items[from].file = reader->file;
		rules->items[from].line = reader->line;
	}
	return is_added;
}

static bool add_network(struct networks *networks, const char *word, char *why, size_t size)
{
	struct network *grown = NULL;

	snprintf(why, size, "more than %d networks", LIMIT_EGRESS_NETWORKS);
	if (networks->count < LIMIT_EGRESS_NETWORKS)
		grown = reallocarray(networks->items, networks->count + 1, sizeof(*grown));
	if (!grown)
		return false;
	networks->items = grown;
	if (network_parse(text_from(word), &grown[networks->count]) == 0)
		networks->count++;
	return true;
}

bool config_egress_add(struct config_egress *egress, enum egress_words kind, const char *word,
	const struct config_reader *reader, char *why, size_t size)
{
	switch (kind) {
	case EGRESS_WORDS_ALLOW:
		return add_rules(&egress->allow, false, word, reader, why, size);
	case EGRESS_WORDS_DENY:
		return add_rules(&egress->deny, true, word, reader, why, size);
	case EGRESS_WORDS_NETWORKS:
		return add_network(&egress->private, word, why, size);
	default:
		return true;
	}
}

void config_egress_reset(struct config_egress *egress, enum egress_words kind)
{
	if (kind == EGRESS_WORDS_ALLOW)
		rules_done(&egress->allow);
	else if (kind == EGRESS_WORDS_DENY)
		rules_done(&egress->deny);
	else if (kind == EGRESS_WORDS_NETWORKS)
		egress->private.count = 0;
}

void config_egress_finish(const struct config_egress *egress, struct config_reader *reader)
{
	char why[LIMIT_EGRESS_REASON_BYTES];
	const struct rule *dead =
		rules_find_dead(&egress->allow, &egress->deny, &egress->private, why, sizeof(why));

	if (dead)
		config_wrong_at(reader, &(struct config_place){dead->file, dead->line},
			"egress_allow: \"%s\": %s", dead->written, why);
}

void config_egress_done(struct config_egress *egress)
{
	rules_done(&egress->allow);
	rules_done(&egress->deny);
	free(egress->private.items);
	*egress = (struct config_egress){0};
}
