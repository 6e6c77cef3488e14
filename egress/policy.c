// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress, at start and on reload. It reads the configuration through
 * common/config, as cloisterd does, takes the keys of the network and ignores the others, which
 * cloisterd has checked. It trusts files that only root could have written.
 */
#include "egress/policy.h"

#include "common/cleanup.h"
#include "common/config/config_files.h"
#include "common/config/config_number.h"
#include "common/config/config_reader.h"
#include "common/config/tenant_sections.h"
#include "common/config_defaults.h"
#include "common/egress/secret_line.h"
#include "common/egress/shipped_sets.h"
#include "common/selftest_tenants.h"
#include "egress/canary.h"
#include "egress/protocol/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define RESOLVER_BYTES 512
#define PATH_BYTES     (LIMIT_EGRESS_PATH_BYTES + 1)

struct egress_policy {
	bool has_files;
	struct config_files files;
	char *allow; /* if there are no files */
	struct egress_tenant *tenants;
	size_t n_tenants;
	struct egress_tenant canary;
	struct rule_sets sets;
	char sets_path[PATH_MAX];
	char resolver[RESOLVER_BYTES];
	char ca[PATH_BYTES];     /* egress_ca; "": the system's */
	struct tls_trust *trust; /* NULL: there are no secrets */
};

/* A reading under construction: the reader's context. */
struct draft {
	struct tenant_sections tenants; /* items: struct egress_tenant */
	struct rule_sets sets;
	bool in_host;
	char resolver[RESOLVER_BYTES];
	char ca[PATH_BYTES];
	struct config_place ca_place;
	struct tls_trust *trust;
};

static const struct {
	const char *name;
	enum config_type type;
	size_t offset;
	uint64_t max;
} numbers[] = {
	{"egress_connections", CONFIG_NUMBER, offsetof(struct egress_tenant, connections),
		LIMIT_EGRESS_CONNECTIONS_MAX},
	{"egress_connect_rate", CONFIG_NUMBER, offsetof(struct egress_tenant, connect_rate),
		LIMIT_EGRESS_CONNECTIONS_MAX},
	{"egress_bytes_in", CONFIG_BYTES, offsetof(struct egress_tenant, bytes_in), UINT64_MAX},
	{"egress_bytes_out", CONFIG_BYTES, offsetof(struct egress_tenant, bytes_out), UINT64_MAX},
};

static void release_tenants(struct egress_tenant *tenants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rules_done(&tenants[i].allow);
		rules_done(&tenants[i].deny);
		free(tenants[i].private.items);
		secrets_done(&tenants[i].secrets);
	}
	free(tenants);
}

static void release_draft(struct draft *draft)
{
	release_tenants(draft->tenants.items, draft->tenants.count);
	rule_sets_done(&draft->sets);
	tls_trust_free(draft->trust);
}

static const struct egress_tenant defaults = {
	.connections = DEFAULT_EGRESS_CONNECTIONS,
	.connect_rate = DEFAULT_EGRESS_CONNECT_RATE,
};
static_assert(offsetof(struct egress_tenant, name) == 0, "as tenant_sections.h has it");

static void begin_egress_config_file(struct config_reader *reader)
{
	((struct draft *)reader->context)->tenants.current = NULL;
}

static void begin_egress_config_section(struct config_reader *reader, const char *name)
{
	struct draft *draft = reader->context;

	draft->in_host = name && strcmp(name, "cloister") == 0;
	tenant_sections_begin(&draft->tenants, reader, name);
}

/* Takes the next word of @text, which are separated by blanks. */
static struct text take_policy_word(struct text *text)
{
	struct text word = {0};

	while (text->len > 0 && word.len == 0)
		word = text_take(text, ' ');
	return word;
}

/* A key in a later file replaces the values from earlier files. */
static void add_rules(struct config_reader *reader, struct rules *rules, const char **file,
	const char *key, const char *value)
{
	struct draft *draft = reader->context;
	struct text rest = text_from(value), word;
	char why[LIMIT_EGRESS_REASON_BYTES];
	size_t from;

	if (*file != reader->file)
		rules_done(rules);
	*file = reader->file;
	from = rules->count;
	while ((word = take_policy_word(&rest)).len > 0)
		if (rules_add(rules, word, strcmp(key, "egress_deny") == 0, &draft->sets, why,
			    sizeof(why)) < 0)
			config_wrong(
				reader, "%s: \"%.*s\": %s", key, (int)word.len, word.data, why);
	for (; from < rules->count; from++) {
		rules->items[from].file = reader->file;
		rules->items[from].line = reader->line;
	}
}

/* Returns 0, -E2BIG, or an error of network_parse(). */
static int add_network(struct networks *networks, struct text word)
{
	struct network *grown =
		networks->count < LIMIT_EGRESS_NETWORKS
			? reallocarray(networks->items, networks->count + 1, sizeof(*grown))
			: NULL;
	int r = grown ? network_parse(word, &grown[networks->count]) : -E2BIG;

	networks->items = grown ? grown : networks->items;
	networks->count += r == 0;
	return r;
}

static void add_networks(
	struct config_reader *reader, struct egress_tenant *tenant, const char *value)
{
	struct networks *networks = &tenant->private;
	struct text rest = text_from(value), word;

	if (tenant->private_file != reader->file)
		networks->count = 0;
	tenant->private_file = reader->file;
	while ((word = take_policy_word(&rest)).len > 0) {
		int r = add_network(networks, word);

		if (r < 0)
			config_wrong(reader, "egress_private: \"%.*s\": %s", (int)word.len,
				word.data,
				r == -EPERM   ? "addresses at which clouds give credentials to "
						"machines are never opened"
				: r == -E2BIG ? "too many networks"
					      : "not a network: write ADDRESS/PREFIX, without bits "
						"behind "
						"the prefix");
	}
}

static void set_upstream(
	struct config_reader *reader, struct egress_tenant *tenant, const char *value)
{
	static const struct text http = TEXT_LITERAL("http://");
	struct text text = text_from(value);

	if (text.len > http.len && memcmp(text.data, http.data, http.len) == 0) {
		text.data += http.len;
		text.len -= http.len;
		text.len -= text.data[text.len - 1] == '/';
		if (host_port_parse(text, 0, &tenant->upstream, &tenant->upstream_port) == 0) {
			tenant->has_upstream = true;
			return;
		}
	}
	config_wrong(reader, "egress_upstream: \"%s\": write http://HOST:PORT", value);
}

static void add_secret(
	struct config_reader *reader, struct egress_tenant *tenant, const char *value)
{
	char why[LIMIT_EGRESS_REASON_BYTES] = "memory is out";

	if (tenant->secrets_file != reader->file)
		secrets_done(&tenant->secrets);
	tenant->secrets_file = reader->file;
	if (secrets_add(&tenant->secrets, text_from(value), why, sizeof(why)) < 0)
		config_wrong(reader, "egress_secret: %s", why);
}

static void set_ca(struct config_reader *reader, const char *value)
{
	struct draft *draft = reader->context;

	if (value[0] != '/' || strlen(value) >= sizeof(draft->ca))
		config_wrong(reader, "egress_ca: not the absolute path of a file");
	snprintf(draft->ca, sizeof(draft->ca), "%s", value);
	draft->ca_place = (struct config_place){reader->file, reader->line};
}

static void set_choice(struct config_reader *reader, const char *key, const char *value,
	const char *yes, const char *no, bool *ret)
{
	if (strcmp(value, yes) != 0 && strcmp(value, no) != 0)
		config_wrong(reader, "%s: \"%s\": write %s or %s", key, value, no, yes);
	*ret = strcmp(value, yes) == 0;
}

static void set_number(
	struct config_reader *reader, struct egress_tenant *tenant, size_t i, const char *value)
{
	uint64_t *field = (uint64_t *)(void *)((char *)tenant + numbers[i].offset);

	if (config_number(numbers[i].type, value, field) < 0 || *field > numbers[i].max)
		config_wrong(reader, "%s: not a number that fits", numbers[i].name);
}

static void set_resolver(struct config_reader *reader, char *resolver, const char *value)
{
	struct text rest = text_from(value), word;
	struct sockaddr_storage address;
	size_t len = 0;

	resolver[0] = '\0';
	while ((word = take_policy_word(&rest)).len > 0) {
		struct host host;
		uint16_t port;
		socklen_t size = 0;

		if (host_port_parse(word, 53, &host, &port) == 0)
			address = host_address(&host, port, &size);
		(void)address;
		if (size == 0 || len + LIMIT_EGRESS_HOST_BYTES > RESOLVER_BYTES) {
			config_wrong(reader,
				"egress_resolver: \"%.*s\": write ADDRESS[:PORT], an "
				"IPv6 address in brackets",
				(int)word.len, word.data);
			return;
		}
		len += (size_t)snprintf(resolver + len, RESOLVER_BYTES - len, "%s%s%s%s:%u",
			len ? "," : "", host.kind == HOST_IPV6 ? "[" : "", host.text,
			host.kind == HOST_IPV6 ? "]" : "", port);
	}
}

static void take_egress_config_setting(
	struct config_reader *reader, const char *name, const char *value)
{
	struct draft *draft = reader->context;
	struct egress_tenant *tenant = draft->tenants.current;

	if (draft->in_host && strcmp(name, "egress_resolver") == 0)
		set_resolver(reader, draft->resolver, value);
	if (draft->in_host && strcmp(name, "egress_ca") == 0)
		set_ca(reader, value);
	if (!tenant)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (strcmp(name, numbers[i].name) == 0)
			set_number(reader, tenant, i, value);
	if (strcmp(name, "network") == 0)
		set_choice(reader, name, value, "egress", "none", &tenant->has_network);
	else if (strcmp(name, "egress_sni") == 0)
		set_choice(reader, name, value, "off", "match", &tenant->sni_off);
	else if (strcmp(name, "egress_allow") == 0)
		add_rules(reader, &tenant->allow, &tenant->allow_file, name, value);
	else if (strcmp(name, "egress_deny") == 0)
		add_rules(reader, &tenant->deny, &tenant->deny_file, name, value);
	else if (strcmp(name, "egress_private") == 0)
		add_networks(reader, tenant, value);
	else if (strcmp(name, "egress_upstream") == 0)
		set_upstream(reader, tenant, value);
	else if (strcmp(name, "egress_secret") == 0)
		add_secret(reader, tenant, value);
}

static void log_mistake(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	fprintf(stderr, "cloister-egress: %s:%u: %s\n", file, line, message);
}

static void log_set_mistake(void *context, unsigned line, const char *message)
{
	log_mistake(NULL, context, line, message);
}

/* A rule that can match nothing would be taken for one that allows. */
static uint64_t find_dead_rules(const struct draft *draft)
{
	char why[LIMIT_EGRESS_REASON_BYTES], message[LIMIT_EGRESS_REASON_BYTES + 400];
	const struct egress_tenant *tenants = draft->tenants.items;
	uint64_t mistakes = 0;

	for (size_t i = 0; i < draft->tenants.count; i++) {
		const struct egress_tenant *tenant = &tenants[i];
		const struct rule *dead = rules_find_dead(
			&tenant->allow, &tenant->deny, &tenant->private, why, sizeof(why));

		if (!dead)
			continue;
		snprintf(message, sizeof(message), "tenant %s: egress_allow: \"%s\": %s",
			tenant->name, dead->written, why);
		log_mistake(NULL, dead->file ? dead->file : "--allow-net", dead->line, message);
		mistakes++;
	}
	return mistakes;
}

/* The certificates, which only a secret needs. */
static void read_trust(struct config_reader *reader, struct draft *draft)
{
	const char *path = draft->ca[0] ? draft->ca : tls_system_certificates();
	const struct egress_tenant *tenants = draft->tenants.items;
	bool has_secrets = false;

	for (size_t i = 0; i < draft->tenants.count; i++)
		has_secrets |= tenants[i].secrets.count > 0;
	if (!has_secrets)
		return;
	if (!path)
		config_wrong_at(reader, &draft->ca_place,
			"egress_secret needs the certificates to trust: install ca-certificates, "
			"or name a file by egress_ca");
	else if (tls_trust_new(path, &draft->trust) < 0)
		config_wrong_at(reader, &draft->ca_place,
			"%s: no certificates can be read from it (egress_ca)", path);
}

static int read_files(struct egress_policy *policy, bool only_roots, struct draft *draft)
{
	static const struct config_complaints complaints = {log_mistake, NULL, NULL};
	static const struct config_handler handler = {
		begin_egress_config_file, begin_egress_config_section, take_egress_config_setting};
	_cleanup_(config_file_names_done) struct config_file_names names = {0};
	struct config_reader reader = {
		.complaints = &complaints, .handler = &handler, .context = draft, .root = 0};
	int r = config_files_read(&policy->files, &reader, &names);

	if (r == 0 && only_roots && reader.not_roots) {
		fprintf(stderr, "cloister-egress: the configuration is not root's alone\n");
		return -EPERM;
	}
	if (r == 0) {
		reader.mistakes += find_dead_rules(draft);
		if (!draft->ca_place.file)
			draft->ca_place.file = names.paths[0];
		read_trust(&reader, draft);
	}
	return r == 0 && reader.mistakes > 0 ? -EINVAL : r;
}

/* Without files there is one tenant, whose name nothing asks. */
static int read_allow(const struct egress_policy *policy, struct draft *draft)
{
	struct text rest = text_from(policy->allow), word;
	struct egress_tenant *tenant = tenant_sections_add(&draft->tenants, "");
	static const struct text private = TEXT_LITERAL(EGRESS_PRIVATE_WORD);
	char why[LIMIT_EGRESS_REASON_BYTES];

	if (!tenant)
		return -ENOMEM;
	tenant->has_network = true;
	while ((word = take_policy_word(&rest)).len > 0) {
		if (word.len > private.len && memcmp(word.data, private.data, private.len) == 0) {
			int r = add_network(&tenant->private,
				(struct text){word.data + private.len, word.len - private.len});

			if (r < 0)
				return r;
			continue;
		}
		if (rules_add(&tenant->allow, word, false, &draft->sets, why, sizeof(why)) == 0)
			continue;
		fprintf(stderr, "cloister-egress: \"%.*s\": %s\n", (int)word.len, word.data, why);
		return -EINVAL;
	}
	return find_dead_rules(draft) > 0 ? -EINVAL : 0;
}

static int make_canary(struct egress_tenant *ret)
{
	ret->has_network = true;
	snprintf(ret->name, sizeof(ret->name), "%s", SELFTEST_EGRESS_TENANT);
	return canary_make(&ret->allow, &ret->deny, &ret->private);
}

int egress_policy_open(const char *config, const char *allow, struct egress_policy **ret)
{
	struct egress_policy *policy = calloc(1, sizeof(*policy));
	int r = 0;

	if (!policy)
		return -ENOMEM;
	shipped_sets_path(policy->sets_path, sizeof(policy->sets_path));
	policy->has_files = config[0] != '\0';
	policy->allow = strdup(allow);
	if (!policy->allow)
		r = -ENOMEM;
	else if (policy->has_files)
		r = config_files_open(config, &policy->files);
	if (r == 0)
		r = make_canary(&policy->canary);
	if (r < 0) {
		free(policy->allow);
		free(policy);
		return r;
	}
	*ret = policy;
	return 0;
}

int egress_policy_read(struct egress_policy *policy, bool only_roots)
{
	_cleanup_(release_draft) struct draft draft = {
		.tenants = {.item_size = sizeof(struct egress_tenant),
			.max = LIMIT_CONFIG_TENANTS,
			.defaults = &defaults}};
	int r = shipped_sets_read(
		policy->sets_path, log_set_mistake, policy->sets_path, &draft.sets);

	if (r < 0) {
		fprintf(stderr, "cloister-egress: %s: %s\n", policy->sets_path, strerror(-r));
		return r;
	}
	r = policy->has_files ? read_files(policy, only_roots, &draft) : read_allow(policy, &draft);
	if (r < 0)
		return r;
	release_tenants(policy->tenants, policy->n_tenants);
	rule_sets_done(&policy->sets);
	policy->tenants = TAKE_PTR(draft.tenants.items);
	policy->n_tenants = draft.tenants.count;
	draft.tenants.count = 0;
	policy->sets = draft.sets;
	draft.sets = (struct rule_sets){0};
	memcpy(policy->resolver, draft.resolver, sizeof(policy->resolver));
	memcpy(policy->ca, draft.ca, sizeof(policy->ca));
	tls_trust_free(policy->trust);
	policy->trust = TAKE_PTR(draft.trust);
	return 0;
}

const struct egress_tenant *egress_policy_tenant(
	const struct egress_policy *policy, struct text name)
{
	if (text_equal(text_from(policy->canary.name), name))
		return &policy->canary;
	for (size_t i = 0; i < policy->n_tenants; i++)
		if (!policy->has_files || text_equal(text_from(policy->tenants[i].name), name))
			return &policy->tenants[i];
	return NULL;
}

const struct rule_sets *egress_policy_sets(const struct egress_policy *policy)
{
	return &policy->sets;
}

const struct networks *egress_policy_private(const struct egress_policy *policy, size_t i)
{
	return i < policy->n_tenants ? &policy->tenants[i].private : NULL;
}

const char *egress_policy_resolver(const struct egress_policy *policy)
{
	return policy->resolver;
}

const struct tls_trust *egress_policy_trust(const struct egress_policy *policy)
{
	return policy->trust;
}

const char *egress_policy_file(const struct egress_policy *policy, size_t i)
{
	if (policy->ca[0] && i-- == 0)
		return policy->ca;
	for (size_t j = 0; j < policy->n_tenants; j++) {
		const struct secrets *secrets = &policy->tenants[j].secrets;

		if (i < secrets->count)
			return secrets->items[i].file;
		i -= secrets->count;
	}
	return NULL;
}
