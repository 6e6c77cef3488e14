// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate, once, before it is confined. The file is the administrator's, or in a
 * private gate the user's own.
 */
#include "gate/gate_config.h"

#include "common/cleanup.h"
#include "common/config/config_files.h"
#include "common/config/config_number.h"
#include "common/config/config_reader.h"
#include "common/config_defaults.h"
#include "common/egress/host.h"
#include "common/limits.h"
#include "gate/head.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct reading {
	struct gate_config *config;
	bool in_gate;
};

static void add_address(
	struct config_reader *reader, struct gate_addresses *list, struct gate_address *address)
{
	struct gate_address *grown =
		list->count < LIMIT_GATE_LISTENERS
			? reallocarray(list->items, list->count + 1, sizeof(*grown))
			: NULL;

	if (!grown) {
		config_wrong(reader, "too many addresses");
		return;
	}
	list->items = grown;
	list->items[list->count++] = *address;
}

bool gate_address_is_loopback(const struct sockaddr_storage *storage)
{
	const struct sockaddr_in *ipv4 = (const void *)storage;
	const struct sockaddr_in6 *ipv6 = (const void *)storage;

	if (storage->ss_family == AF_UNIX)
		return true;
	return storage->ss_family == AF_INET ? ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
					     : IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr);
}

static bool read_unix(struct text word, struct gate_address *ret)
{
	struct sockaddr_un *address = (void *)&ret->storage;

	if (word.len >= sizeof(address->sun_path))
		return false;
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, word.data, word.len);
	ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + word.len + 1);
	ret->is_unix = ret->is_loopback = true;
	return true;
}

static bool read_internet(struct text word, bool port_needed, struct gate_address *ret)
{
	struct host host;
	uint16_t port = 0;

	if (host_port_parse(word, port_needed ? 0 : 1, &host, &port) < 0)
		return false;
	ret->storage = host_address(&host, port, &ret->len);
	ret->is_loopback = ret->len > 0 && gate_address_is_loopback(&ret->storage);
	return ret->len > 0;
}

static void add_addresses(struct config_reader *reader, struct gate_addresses *list,
	const char *key, const char *value, bool is_listen)
{
	struct text rest = text_from(value), word;

	while (rest.len > 0) {
		struct gate_address address = {0};

		word = text_take(&rest, ' ');
		if (word.len == 0)
			continue;
		snprintf(address.text, sizeof(address.text), "%.*s", (int)word.len, word.data);
		if (is_listen && word.data[0] == '/' ? read_unix(word, &address)
						     : read_internet(word, is_listen, &address))
			add_address(reader, list, &address);
		else
			config_wrong(reader, "%s: \"%.*s\": write %s", key, (int)word.len,
				word.data,
				is_listen ? "ADDRESS:PORT, an IPv6 address in brackets, or the "
					    "path of a socket"
					  : "an address, an IPv6 address in brackets");
	}
}

static void add_words(
	struct config_reader *reader, struct string_list *list, const char *key, const char *value)
{
	struct text rest = text_from(value), word;

	while (rest.len > 0) {
		char **grown;

		word = text_take(&rest, ' ');
		if (word.len == 0)
			continue;
		grown = list->count < LIMIT_GATE_NAMES
				? reallocarray(list->strings, list->count + 1, sizeof(*grown))
				: NULL;
		if (!grown) {
			config_wrong(reader, "%s: too many", key);
			return;
		}
		list->strings = grown;
		list->strings[list->count] = strndup(word.data, word.len);
		list->count += list->strings[list->count] != NULL;
	}
}

static void set_string(struct config_reader *reader, char **field, const char *value)
{
	free(*field);
	*field = strdup(value);
	if (!*field)
		config_wrong(reader, "out of memory");
}

static void set_tls(struct config_reader *reader, struct gate_config *config, const char *value)
{
	static const char *const names[] = {
		[GATE_TLS_NO] = "no", [GATE_TLS_CERTIFICATE] = "certificate", "proxy"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]) == 0) {
			config->tls = (enum gate_tls)i;
			return;
		}
	}
	config_wrong(reader, "tls: \"%s\": write no, certificate or proxy", value);
}

/* The keys with a number, and those with the path of a file. */
static const struct {
	const char *name;
	enum config_type type;
	size_t offset;
	uint64_t fallback, least, most;
} numbers[] = {
	{"connections", CONFIG_NUMBER, offsetof(struct gate_config, connections),
		DEFAULT_GATE_CONNECTIONS, 1, LIMIT_GATE_CONNECTIONS_MAX},
	{"connections_per_address", CONFIG_NUMBER,
		offsetof(struct gate_config, connections_per_address),
		DEFAULT_GATE_CONNECTIONS_PER_ADDRESS, 1, LIMIT_GATE_CONNECTIONS_MAX},
	{"failed_keys", CONFIG_NUMBER, offsetof(struct gate_config, failed_keys),
		DEFAULT_GATE_FAILED_KEYS, 1, LIMIT_GATE_FAILED_KEYS_MAX},
	{"head_time", CONFIG_TIME, offsetof(struct gate_config, head_ms), DEFAULT_GATE_HEAD_MS,
		1000, LIMIT_GATE_TIME_MAX_MS},
	{"idle_time", CONFIG_TIME, offsetof(struct gate_config, idle_ms), DEFAULT_GATE_IDLE_MS,
		1000, LIMIT_GATE_TIME_MAX_MS},
};
static const struct {
	const char *name;
	size_t offset;
	bool is_path;
} strings[] = {
	{"tls_certificate", offsetof(struct gate_config, tls_certificate), true},
	{"tls_key", offsetof(struct gate_config, tls_key), true},
	{"agent_socket", offsetof(struct gate_config, agent_socket), true},
	{"keys", offsetof(struct gate_config, keys), true},
	{"domain", offsetof(struct gate_config, domain), false},
	{"jwt_keys", offsetof(struct gate_config, jwt_keys), true},
	{"jwt_issuer", offsetof(struct gate_config, jwt_issuer), false},
	{"jwt_audience", offsetof(struct gate_config, jwt_audience), false},
	{"jwt_tenant", offsetof(struct gate_config, jwt_tenant), false},
};

static bool take_gate_config_number(
	struct config_reader *reader, const char *name, const char *value)
{
	struct reading *reading = reader->context;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		uint64_t *field = (uint64_t *)(void *)((char *)reading->config + numbers[i].offset);

		if (strcmp(name, numbers[i].name) != 0)
			continue;
		if (config_number(numbers[i].type, value, field) < 0 || *field < numbers[i].least ||
			*field > numbers[i].most)
			config_wrong(reader, "%s: \"%s\" is not a number that fits", name, value);
		return true;
	}
	return false;
}

static bool take_string(struct config_reader *reader, const char *name, const char *value)
{
	struct reading *reading = reader->context;

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		if (strcmp(name, strings[i].name) != 0)
			continue;
		if (strings[i].is_path && value[0] != '/')
			config_wrong(reader, "%s: \"%s\": write an absolute path", name, value);
		set_string(reader, (char **)(void *)((char *)reading->config + strings[i].offset),
			value);
		return true;
	}
	return false;
}

static void begin_gate_config_file(struct config_reader *reader)
{
	((struct reading *)reader->context)->in_gate = false;
}

static void begin_gate_config_section(struct config_reader *reader, const char *name)
{
	struct reading *reading = reader->context;

	reading->in_gate = name && strcmp(name, "gate") == 0;
	if (name && !reading->in_gate)
		config_wrong(reader, "[%s]: the only section is [gate]", name);
}

static void take_gate_config_setting(
	struct config_reader *reader, const char *name, const char *value)
{
	struct reading *reading = reader->context;
	struct gate_config *config = reading->config;

	if (!reading->in_gate) {
		config_wrong(reader, "%s: a setting outside of [gate]", name);
		return;
	}
	if (strcmp(name, "listen") == 0)
		add_addresses(reader, &config->listen, name, value, true);
	else if (strcmp(name, "tls_proxy") == 0)
		add_addresses(reader, &config->tls_proxy, name, value, false);
	else if (strcmp(name, "tls") == 0)
		set_tls(reader, config, value);
	else if (strcmp(name, "hosts") == 0)
		add_words(reader, &config->hosts, name, value);
	else if (strcmp(name, "origins") == 0)
		add_words(reader, &config->origins, name, value);
	else if (!take_gate_config_number(reader, name, value) && !take_string(reader, name, value))
		config_wrong(reader, "%s: no such setting", name);
}

static void print_mistake(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	if (line > 0)
		fprintf(stderr, "cloister-gate: %s:%u: %s\n", file, line, message);
	else
		fprintf(stderr, "cloister-gate: %s: %s\n", file, message);
}

static void wrong(struct config_reader *reader, const char *path, const char *message)
{
	reader->mistakes++;
	print_mistake(NULL, path, 0, message);
}

/* What one key says of another. */
static void check_whole(struct config_reader *reader, struct gate_config *config, const char *path)
{
	if (config->listen.count == 0)
		add_addresses(reader, &config->listen, "listen", DEFAULT_GATE_LISTEN, true);
	for (size_t i = 0; i < config->listen.count; i++)
		if (config->tls == GATE_TLS_NO && !config->listen.items[i].is_loopback)
			wrong(reader, path,
				"listen: other hosts could read keys: set tls = certificate, or "
				"tls "
				"= proxy behind a proxy that ends TLS");
	if (config->tls == GATE_TLS_CERTIFICATE && (!config->tls_certificate || !config->tls_key))
		wrong(reader, path, "tls = certificate needs tls_certificate and tls_key");
	if (config->jwt_keys && (!config->jwt_issuer || !config->jwt_audience))
		wrong(reader, path, "jwt_keys needs jwt_issuer and jwt_audience");
	if (config->tls == GATE_TLS_PROXY && config->tls_proxy.count == 0)
		wrong(reader, path, "tls = proxy needs tls_proxy, the addresses of the proxy");
}

static void set_defaults(struct gate_config *config)
{
	*config = (struct gate_config){.agent_socket = strdup(DEFAULT_GATE_AGENT_SOCKET),
		.keys = strdup(DEFAULT_GATE_KEYS),
		.jwt_tenant = strdup(DEFAULT_GATE_JWT_TENANT)};
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		*(uint64_t *)(void *)((char *)config + numbers[i].offset) = numbers[i].fallback;
}

static void release_gate_config(struct config_files *files)
{
	config_files_done(files);
}

int gate_config_read(const char *path, struct gate_config *ret)
{
	static const struct config_complaints complaints = {print_mistake, NULL, NULL};
	static const struct config_handler handler = {
		begin_gate_config_file, begin_gate_config_section, take_gate_config_setting};
	_cleanup_(release_gate_config) struct config_files files = {.directory_fd = -1};
	_cleanup_(config_file_names_done) struct config_file_names names = {0};
	struct reading reading = {.config = ret};
	struct config_reader reader = {
		.complaints = &complaints, .handler = &handler, .context = &reading, .root = 0};
	int r;

	set_defaults(ret);
	r = config_files_open(path, &files);
	if (r == 0)
		r = config_files_read(&files, &reader, &names);
	if (r == 0)
		check_whole(&reader, ret, path);
	if (r == 0 && reader.mistakes > 0)
		r = -EINVAL;
	if (r < 0)
		gate_config_done(ret);
	return r;
}

void gate_config_done(struct gate_config *config)
{
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		free(*(char **)(void *)((char *)config + strings[i].offset));
	free(config->listen.items);
	free(config->tls_proxy.items);
	string_list_done(&config->hosts);
	string_list_done(&config->origins);
	*config = (struct gate_config){0};
}

static bool is_below(const char *host, const char *domain)
{
	size_t len = strlen(host), tail = strlen(domain);

	return len > tail && host[len - tail - 1] == '.' && strcmp(host + len - tail, domain) == 0;
}

bool gate_config_has_host(const struct gate_config *config, const char *host)
{
	for (size_t i = 0; i < config->hosts.count; i++)
		if (strcmp(host, config->hosts.strings[i]) == 0)
			return true;
	if (config->domain && (strcmp(host, config->domain) == 0 || is_below(host, config->domain)))
		return true;
	return config->tls != GATE_TLS_PROXY && gate_host_is_loopback(host);
}

bool gate_config_has_origin(
	const struct gate_config *config, const char *origin, const char *host_header)
{
	const char *host = strstr(origin, "://");

	for (size_t i = 0; i < config->origins.count; i++)
		if (strcmp(origin, config->origins.strings[i]) == 0)
			return true;
	return host && strcmp(host + 3, host_header) == 0;
}
