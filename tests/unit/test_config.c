/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* The values of each key, and the message and place of each mistake. */
#include "common/config_defaults.h"
#include "common/directory_parents.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_keys.h"
#include "tests/lib/config_loading.h"
#include "tests/lib/unit.h"

/* Each key's other value, how it is shown, and a value that is refused. */
static const struct sample {
	uint8_t section;
	const char *key, *good, *shown, *bad;
} samples[] = {
	{CONFIG_SECTION_HOST, "agent_socket", "/run/x/agent.sock", NULL, "agent.sock"},
	{CONFIG_SECTION_HOST, "agent_socket_mode", "0666", "0666", "0888"},
	{CONFIG_SECTION_HOST, "umask", "0027", "0027", "0100"},
	{CONFIG_SECTION_HOST, "tenants", "none", "1", "some"},
	{CONFIG_SECTION_HOST, "control_socket", "/run/x/control.sock", NULL, "/a/../b"},
	{CONFIG_SECTION_HOST, "state_dir", "/var/lib/x", NULL, "//var"},
	{CONFIG_SECTION_HOST, "state_files_min", "20000", "20000", "4000001"},
	{CONFIG_SECTION_HOST, "state_free_min", "2G", "2G", "much"},
	{CONFIG_SECTION_HOST, "disk_classes", "small:4G:400k:22000, large:50G:5M:8000", NULL,
		"small:4G"},
	{CONFIG_SECTION_HOST, "template_memory", "2G", "2G", "17T"},
	{CONFIG_SECTION_HOST, "memory_free_min", "0", "0", "-1"},
	{CONFIG_SECTION_HOST, "audit", "required", "2", "yes"},
	{CONFIG_SECTION_HOST, "audit_file", "/var/log/x/audit.log", NULL, "audit.log"},
	{CONFIG_SECTION_HOST, "audit_size", "64K", "64K", "63K"},
	{CONFIG_SECTION_HOST, "audit_files", "0", "0", "10001"},
	{CONFIG_SECTION_HOST, "journal", "durable", "2", "slow"},
	{CONFIG_SECTION_HOST, "user", "nobody", NULL, "no-such-user"},
	{CONFIG_SECTION_HOST, "egress_socket", "/run/x/egress.sock", NULL, "egress.sock"},
	{CONFIG_SECTION_HOST, "egress_user", "nobody", NULL, "no-such-user"},
	{CONFIG_SECTION_HOST, "gate_user", "nobody", NULL, "no-such-user"},
	{CONFIG_SECTION_HOST, "egress_ca", "/etc/ca.pem", NULL, "ca.pem"},
	{CONFIG_SECTION_HOST, "egress_resolver", "127.0.0.53 [::1]:5353", NULL, "dns.test"},
	{CONFIG_SECTION_HOST, "mode", "user", "0", "root"},
	{CONFIG_SECTION_HOST, "connections", "7", "7", "4097"},
	{CONFIG_SECTION_HOST, "connections_per_user", "9", "9", "0"},
	{CONFIG_SECTION_HOST, "commands", "4096", "4096", "4097"},
	{CONFIG_SECTION_HOST, "commands_per_cpu", "0", "0", "1025"},
	{CONFIG_SECTION_HOST, "file_jobs", "1", "1", "many"},
	{CONFIG_SECTION_HOST, "workspace_idle_time", "90s", "90s", "90"},
	{CONFIG_SECTION_HOST, "cells_kept", "500", "500", "12289"},
	{CONFIG_SECTION_HOST, "drain_time", "30s", "30s", "61min"},
	{CONFIG_SECTION_HOST, "retire_time", "1h", "1h", "25h"},
	{CONFIG_SECTION_HOST, "selftest", "required", "2", "yes"},
	{CONFIG_SECTION_HOST, "selftest_interval", "1h", "1h", "721h"},
	{CONFIG_SECTION_HOST, "spare_cells", "3", "3", "65"},
	{CONFIG_SECTION_HOST, "admin_group", "root", NULL, "no-such-group"},
	{CONFIG_SECTION_HOST, "observer_group", "12, root", NULL, "4294967295"},
	{CONFIG_SECTION_HOST, "require", "passrights landlock", NULL, "passrights magic"},
	{CONFIG_SECTION_TENANT, "users", "root 1234", NULL, "root no-such-user"},
	{CONFIG_SECTION_TENANT, "groups", "1234,root", NULL, ","},
	{CONFIG_SECTION_TENANT, "weight", "10000", "10000", "0"},
	{CONFIG_SECTION_TENANT, "disk_class", "small", NULL, "-"},
	{CONFIG_SECTION_TENANT, "managed", "yes", NULL, "true"},
	{CONFIG_SECTION_TENANT, "gate", "yes", NULL, "true"},
	{CONFIG_SECTION_TENANT, "roots", "/", NULL, "/no/such/directory"},
	{CONFIG_SECTION_TENANT, "root_inside", "yes", NULL, "0"},
	{CONFIG_SECTION_TENANT, "command_filters", "allow", "1", "yes"},
	{CONFIG_SECTION_TENANT, "network_roots", "yes", NULL, "nfs"},
	{CONFIG_SECTION_TENANT, "network", "egress", "1", "host"},
	{CONFIG_SECTION_TENANT, "forward_ports", "3000-3999", "3000-3999", "1023"},
	{CONFIG_SECTION_TENANT, "egress_allow", "a.test tcp:*.b.test:22 @npm", NULL, "a..test"},
	{CONFIG_SECTION_TENANT, "egress_deny", "a.test:443", NULL, "tcp:a.test"},
	{CONFIG_SECTION_TENANT, "egress_private", "10.2.0.0/16 192.168.1.7", NULL,
		"169.254.169.254"},
	/* A regular file that exists everywhere and that others may not read. */
	{CONFIG_SECTION_TENANT, "egress_secret",
		"s host=a.test header=\"Authorization: Bearer\" file=/proc/self/mem", NULL,
		"s host=a.test header=X-Key file=/etc/passwd"},
	{CONFIG_SECTION_TENANT, "egress_port", "1024", "1024", "1023"},
	{CONFIG_SECTION_TENANT, "egress_sni", "off", "1", "no"},
	{CONFIG_SECTION_TENANT, "egress_connections", "9", "9", "1000001"},
	{CONFIG_SECTION_TENANT, "egress_connect_rate", "0", "0", "often"},
	{CONFIG_SECTION_TENANT, "egress_bytes_in", "1G", "1G", "1x"},
	{CONFIG_SECTION_TENANT, "egress_bytes_out", "2K", "2K", "-1"},
	{CONFIG_SECTION_TENANT, "egress_upstream", "http://proxy.test:3128/", NULL,
		"proxy.test:3128"},
	{CONFIG_SECTION_TENANT, "tools", "basic edit patch", "3", "patch"},
	{CONFIG_SECTION_TENANT, "shell", "bash", "2", "zsh"},
	{CONFIG_SECTION_TENANT, "durability", "fast", "1", "slow"},
	{CONFIG_SECTION_TENANT, "home", "kept", "1", "yes"},
	{CONFIG_SECTION_TENANT, "readonly_paths", "/usr", NULL, "/usr/"},
	{CONFIG_SECTION_TENANT, "environment", "CI=a = b ; c", NULL, "1CI=x"},
	{CONFIG_SECTION_TENANT, "blocked_commands", "^git\\s+push\\b", NULL, "(unclosed"},
	{CONFIG_SECTION_TENANT, "command_timeout", "5min", "5min", "2h"},
	{CONFIG_SECTION_TENANT, "command_timeout_max", "59min", "59min", "0s"},
	{CONFIG_SECTION_TENANT, "input_wait", "1500ms", "1500ms", "61min"},
	{CONFIG_SECTION_TENANT, "file_timeout", "1500ms", "1500ms", "-1s"},
	{CONFIG_SECTION_TENANT, "output_kept", "1M", "1M", "1m"},
	{CONFIG_SECTION_TENANT, "output_shown", "2K", "2K", "1"},
	{CONFIG_SECTION_TENANT, "output_total", "1G", "1G", "1GiB"},
	{CONFIG_SECTION_TENANT, "connections", "1", "1", "one"},
	{CONFIG_SECTION_TENANT, "calls", "65536", "65536", "65537"},
	{CONFIG_SECTION_TENANT, "calls_per_connection", "3", "3", "257"},
	{CONFIG_SECTION_TENANT, "workspaces", "12288", "12288", "0x10"},
	{CONFIG_SECTION_TENANT, "workspaces_existing", "1000000", "1000000", "0"},
	{CONFIG_SECTION_TENANT, "templates", "0", "0", "1025"},
	{CONFIG_SECTION_TENANT, "template_memory", "0", "0", "all"},
	{CONFIG_SECTION_TENANT, "commands", "9", "9", "9.0"},
	{CONFIG_SECTION_TENANT, "commands_per_workspace", "1", "1", "65"},
	{CONFIG_SECTION_TENANT, "queue_length", "1", "1", " "},
	{CONFIG_SECTION_TENANT, "queue_time", "2min", "2min", "2h"},
	{CONFIG_SECTION_TENANT, "command_memory", "16777216", "16M", "15M"},
	{CONFIG_SECTION_TENANT, "workspace_memory", "16T", "16T", "17T"},
	{CONFIG_SECTION_TENANT, "command_processes", "2", "2", "1"},
	{CONFIG_SECTION_TENANT, "workspace_processes", "1048576", "1048576", "1e6"},
	{CONFIG_SECTION_TENANT, "cpu_weight", "1", "1", "10001"},
	{CONFIG_SECTION_TENANT, "cpu_max", "150%", "150%", "150"},
	{CONFIG_SECTION_TENANT, "io_weight", "2", "2", "+2"},
	{CONFIG_SECTION_TENANT, "tmp_size", "64M", "64M", "M"},
	{CONFIG_SECTION_TENANT, "home_size", "1G", "1G", "1023K"},
	{CONFIG_SECTION_TENANT, "file_size", "1T", "1T", "99999999999999999999T"},
	{CONFIG_SECTION_TENANT, "process_data", "8G", "8G", "17T"},
	{CONFIG_SECTION_TENANT, "open_files", "16384", "16384", "63"},
	{CONFIG_SECTION_TENANT, "watches", "65536", "65536", "127"},
	{CONFIG_SECTION_TENANT, "keys", "0", "0", "1000001"},
	{CONFIG_SECTION_TENANT, "sessions", "0", "0", "513"},
	{CONFIG_SECTION_TENANT, "sessions_per_workspace", "16", "16", "17"},
	{CONFIG_SECTION_TENANT, "session_lifetime", "24h", "24h", "0"},
	{CONFIG_SECTION_TENANT, "session_idle", "0ms", "0ms", "169h"},
	{CONFIG_SECTION_TENANT, "session_detached", "1min", "1min", "0s"},
	{CONFIG_SECTION_TENANT, "session_retention", "0s", "0ms", "169h"},
	{CONFIG_SECTION_TENANT, "key_horizon", "1h", "1h", "721h"},
};

static const char *header(uint8_t section)
{
	return section == CONFIG_SECTION_HOST ? "[cloister]" : "[tenant t]";
}

static void *section_of(struct config *config, uint8_t section)
{
	return section == CONFIG_SECTION_HOST ? (void *)&config->host : config->tenants[0];
}

static bool is_number(const struct config_key *key)
{
	return key->type >= CONFIG_BYTES && key->type <= CONFIG_CHOICE;
}

static const struct sample *sample_of(const struct config_key *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		if (samples[i].section == key->section && strcmp(samples[i].key, key->name) == 0)
			return &samples[i];
	fail_msg("%s has no test value", key->name);
	return NULL;
}

static void check_key(const struct config_key *key)
{
	const struct sample *sample = sample_of(key);
	char text[256], shown[32];
	struct config *config;

	snprintf(text, sizeof(text), "%s%s\n%s = %s\n%s",
		strcmp(key->name, "disk_class") == 0 ? "[cloister]\ndisk_classes = small:1M:20:5\n"
						     : "",
		header(key->section), key->name, sample->good,
		key->section == CONFIG_SECTION_HOST ? "[tenant t]\n" : "");
	config = load_good(text);
	if (is_number(key))
		assert_string_equal(
			config_key_show(key,
				*(uint64_t *)config_field(key, section_of(config, key->section)),
				shown, sizeof(shown)),
			sample->shown);
	config_release(config);
	snprintf(text, sizeof(text), "%s\n\n%s = %s\n", header(key->section), key->name,
		sample->bad);
	assert_null(load_text(text));
	snprintf(text, sizeof(text), "/c.conf:3: %s: ", key->name);
	if (n_said != 1 || strncmp(said, text, strlen(text)) != 0)
		fail_msg("%s = %s: %s", key->name, sample->bad, said);
}

FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_every_key)
{
	assert_int_equal(ARRAY_SIZE(samples), config_keys_count);
	for (size_t i = 0; i < config_keys_count; i++) {
		const struct config_key *key = &config_keys[i];

		assert_ptr_equal(config_key_find(key->section, key->name), key);
		assert_non_null(config_type_form(key->type));
		if (is_number(key) && key->type != CONFIG_CHOICE) {
			assert_true(key->min <= key->fallback);
			assert_true(key->fallback <= key->max);
		}
		check_key(key);
	}
}

/* Checks the sample values that are not numbers. */
TEST(test_lists)
{
	struct config *config = load_good("[cloister]\n"
					  "user = nobody\n"
					  "require = passrights, landlock\n"
					  "[tenant t]\n"
					  "users = root 1234\n"
					  "  5678\n"
					  "users = 9\n"
					  "groups = 7 root\n"
					  "managed = yes\n"
					  "roots = /\n"
					  "\t/tmp\n"
					  "environment = A=1 ; x\n"
					  "environment : B=a=b:c\n"
					  "  # a comment in between\n"
					  "  C=\n"
					  "blocked_commands = ^x = y$\n"
					  "  default\n");
	struct tenant *tenant = config->tenants[0];

	assert_string_equal(config->host.user, "nobody");
	assert_int_equal(config->host.require.count, 2);
	assert_string_equal(config->host.require.strings[1], "landlock");
	assert_string_equal(tenant->name, "t");
	assert_int_equal(tenant->users.count, 4);
	assert_int_equal(tenant->users.ids[0], 0);
	assert_int_equal(tenant->users.ids[2], 5678);
	assert_int_equal(tenant->users.ids[3], 9);
	assert_int_equal(tenant->groups.count, 2);
	assert_true(tenant->managed);
	assert_int_equal(tenant->roots.count, 2);
	assert_int_equal(tenant->environment.count, 3);
	assert_string_equal(tenant->environment.strings[0], "A=1 ; x");
	assert_string_equal(tenant->environment.strings[1], "B=a=b:c");
	assert_string_equal(tenant->environment.strings[2], "C=");
	assert_non_null(command_policy_match(
		tenant->policy, TEXT_LITERAL("x = y"), TEXT_LITERAL("/workspace")));
	assert_non_null(command_policy_match(
		tenant->policy, TEXT_LITERAL("sudo x"), TEXT_LITERAL("/workspace")));
	config_release(config);
}

TEST(test_nothing_said_is_nothing_allowed)
{
	struct config *config = load_good("[tenant t]\n");
	struct tenant *tenant = config->tenants[0];

	assert_int_equal(tenant->users.count + tenant->groups.count + tenant->roots.count, 0);
	assert_false(tenant->managed);
	assert_false(tenant->any_root);
	assert_false(tenant_allows_root(tenant, &(struct directory_id){0}, 1));
	assert_int_equal(tenant->limits.command_timeout_ms, DEFAULT_COMMAND_MS);
	assert_int_equal(config->host.agent_socket_mode, 0600);
	assert_non_null(command_policy_match(
		tenant->policy, TEXT_LITERAL("sudo x"), TEXT_LITERAL("/workspace")));
	config_release(config);
	assert_null(load_text(""));
	config = load_good("[cloister]\ntenants = none\n");
	assert_int_equal(config->n_tenants, 0);
	config_release(config);
}

TEST(test_no_blocked_commands)
{
	struct config *config = load_good("[tenant t]\nblocked_commands = none\n");

	assert_null(command_policy_match(
		config->tenants[0]->policy, TEXT_LITERAL("sudo x"), TEXT_LITERAL("/workspace")));
	config_release(config);
	refuses("[tenant t]\nblocked_commands = none\n  default\n",
		"/c.conf:3: blocked_commands: \"none\" stands alone\n");
}

/* A name is said, and nothing that somebody may have taken for the place of the secret. */
TEST(test_secrets)
{
	refuses("[tenant t]\negress_secret = s host=a.test header=X-Key file=/proc/self/mem\n"
		"  s host=b.test header=\"X-Key: sk-1\" file=/proc/self/mem\n"
		"egress_secret = u host=a.test header=X-Key file=/nonexistent/key\n"
		"egress_secret = v host=a.test header=\"X Key: sk-1\" file=/proc/self/mem\n",
		"/c.conf:3: egress_secret: \"s\" is given twice\n"
		"/c.conf:4: egress_secret: /nonexistent/key: there is no such file\n"
		"/c.conf:5: egress_secret: header= is not \"FIELD: PREFIX\", the name of a field "
		"of "
		"an HTTP request that says nothing about its host or end, and printable ASCII\n");
}

TEST(test_every_mistake_is_named)
{
	refuses("weight = 5\n"
		"[tenants]\n"
		"weight = no number, and not looked at\n"
		"[tenant a b]\n"
		"[tenant t]\n"
		"wieght = 5\n"
		"weight = 5\n"
		"weight = 6\n"
		"just words\n"
		"weight =\n"
		"network = host\n"
		"[cloister\n"
		"weight = not looked at\n"
		"[cloister] ; x\n"
		"[tenant t]\n"
		"= 5\n"
		"calls = 0\n"
		"users = root root\n"
		"environment = A=1\n"
		"  A=2\n"
		"output_kept = 2M\n"
		"output_total = 1M\n",
		"/c.conf:1: a setting before the first section\n"
		"/c.conf:2: unknown section [tenants]: the sections are [cloister] and [tenant "
		"NAME]\n"
		"/c.conf:4: \"a b\" is not a valid tenant name: use 1 to 40 letters, digits, '.', "
		"'_' or '-', and do not begin with '.'\n"
		"/c.conf:6: unknown key \"wieght\" in this section\n"
		"/c.conf:8: weight is given twice in this file, first in line 7\n"
		"/c.conf:9: not a setting: write name = value\n"
		"/c.conf:10: weight: the value is missing\n"
		"/c.conf:11: network: \"host\" is not one of none, egress\n"
		"/c.conf:12: not a section: write [name] alone on its line\n"
		"/c.conf:14: not a section: write [name] alone on its line\n"
		"/c.conf:15: the section [tenant t] is given twice in this file, first in line 5\n"
		"/c.conf:16: unknown key \"\" in this section\n"
		"/c.conf:17: calls: \"0\" is out of range, which is 1 to 65536\n"
		"/c.conf:18: users: \"root\" is given twice\n"
		"/c.conf:20: environment: \"A\" is given twice\n"
		"/c.conf:21: output_kept (2M) is more than output_total (1M)\n");
}

/* An administrator who takes the section for the wrong one is told the right one. */
TEST(test_keys_of_the_other_section)
{
	refuses("[tenant t]\n"
		"audit = on\n"
		"[cloister]\n"
		"weight = 5\n",
		"/c.conf:2: audit belongs in [cloister]\n"
		"/c.conf:4: weight belongs in the section of a tenant, [tenant NAME]\n");
}

TEST(test_hosts_without_a_network)
{
	config_release(load_good("[tenant t]\nusers = root\negress_allow = a.test\n"));
	assert_string_equal(warned,
		"/c.conf:3: egress_allow has no effect without network = egress: commands of the "
		"tenant t have no network");
	config_release(
		load_good("[tenant t]\nusers = root\nnetwork = egress\negress_allow = a.test\n"));
	assert_string_equal(warned, "");
}

TEST(test_tools_in_any_order)
{
	static const struct {
		const char *value;
		int64_t tools; /* -1: a mistake */
	} rows[] = {
		{"basic", 0},
		{"basic sessions edit", 5},
		{"sessions,edit , basic", 5},
		{"edit,patch,sessions,basic", 7},
		{"patch basic", 2},
		{"edit", -1},
		{"basic,", -1},
		{"basic edit all", -1},
		{"basic edi", -1},
	};
	char text[128];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct config *config;

		snprintf(text, sizeof(text), "[tenant t]\nusers = root\ntools = %s\n",
			rows[i].value);
		config = load_text(text);
		if (!config != (rows[i].tools < 0) ||
			(config && (int64_t)config->tenants[0]->tools != rows[i].tools))
			fail_msg("%s", text);
		config_release(config);
	}
}

/* Each rule that can match nothing, and each set that does not exist, has its own line. */
TEST(test_rules_that_match_nothing)
{
	config_release(load_good("[tenant t]\nnetwork = egress\negress_allow = @github a.test\n"
				 "egress_deny = api.github.com\negress_private = 10.0.0.0/8\n"
				 "egress_allow = 10.1.2.3\n"));
	refuses("[tenant t]\negress_allow = a.test\n b.test:443\n c.test\n"
		"egress_deny = **.b.test\n"
		"[tenant u]\negress_allow = 10.0.0.1\n"
		"[tenant v]\negress_allow = c.test\n",
		"/c.conf:3: egress_allow: \"b.test:443\": it matches nothing: egress_deny has "
		"**.b.test; remove one of the two\n"
		"/c.conf:7: egress_allow: \"10.0.0.1\": it matches nothing: the address is not of "
		"the public Internet, and egress_private does not name it\n");
	refuses("[tenant t]\negress_allow = a.test\negress_allow = @npm @nmp\n"
		"egress_deny = @nothing\n",
		"/c.conf:3: egress_allow: \"@nmp\": no set has this name; the sets are: @npm @pypi "
		"@crates @debian @go @maven @github\n"
		"/c.conf:4: egress_deny: \"@nothing\": no set has this name; the sets are: @npm "
		"@pypi @crates @debian @go @maven @github\n");
	/* What a drop-in replaces is not looked at. */
	scratch_text(&scratch, "c.conf.d/10.conf", "[tenant t]\negress_deny = b.test\n");
	config_release(load_good("[tenant t]\negress_allow = a.test\negress_deny = a.test\n"));
	scratch_text(&scratch, "c.conf.d/10.conf", "[tenant t]\negress_allow = b.test\n");
	refuses("[tenant t]\negress_allow = a.test\negress_deny = b.test\n",
		"/c.conf.d/10.conf:2: egress_allow: \"b.test\": it matches nothing: egress_deny "
		"has b.test; remove one of the two\n");
}

/* A default yields to a value that is set; two set values do not. */
TEST(test_pairs)
{
	struct config *config = load_good("[tenant t]\ncommand_timeout_max = 10s\n");

	assert_int_equal(config->tenants[0]->limits.command_timeout_ms, 10000);
	config_release(config);
	refuses("[tenant t]\ncommand_timeout_max = 10s\ncommand_timeout = 11s\n",
		"/c.conf:3: command_timeout (11s) is more than command_timeout_max (10s)\n");
}

/* All cells end at once if cloisterd is killed: the filters of those that may be open by default
 * are fewer than the 12,560 whose end was tried (doc/kernel-filter-fault.md). */
TEST(test_idle_cells_are_bounded_by_default)
{
	struct config *config = load_good("[tenant t]\nusers = root\n");
	uint64_t cells = config->host.cells_kept + config->host.commands + LIMIT_SESSIONS +
			 LIMIT_SPARE_CELLS_MAX;

	assert_true(config->host.cells_kept > 0);
	assert_true(2 * cells + 1 < 12560 / 2);
	config_release(config);
}

TEST(test_user_mode)
{
	struct config *config = config_user_mode("me", 1234);

	assert_int_equal(config->n_tenants, 1);
	assert_string_equal(config->tenants[0]->name, "me");
	assert_int_equal(config->tenants[0]->users.ids[0], 1234);
	assert_true(tenant_allows_root(config->tenants[0], NULL, 0));
	config_release(config);
}
