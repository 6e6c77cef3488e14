/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * A configuration file and a drop-in of any bytes. There is a configuration exactly if there is no
 * mistake; every number is within the bounds of its key; and a tenant without users and groups
 * admits no peer.
 *
 * Input: the main file; after a line "%%", the drop-in.
 */
#include "common/limits.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_keys.h"
#include "supervisor/config/config_load.h"
#include "supervisor/config/peer_auth.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/scratch.h"

#include <errno.h>

static struct scratch scratch;
static size_t complaints;

static void remove_scratch(void)
{
	scratch_done(&scratch);
}

static void on_complaint(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	(void)line;
	CHECK(file && message && message[0] && !strchr(message, '\n'));
	complaints++;
}

static void put_file(const char *name, struct text text)
{
	int fd = openat(scratch.fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len);
	close(fd);
}

static void set_up(void)
{
	scratch = scratch_new();
	CHECK(mkdirat(scratch.fd, "c.conf.d", 0700) == 0);
	atexit(remove_scratch);
}

static bool is_number(const struct config_key *key)
{
	return key->type == CONFIG_BYTES || key->type == CONFIG_TIME ||
	       key->type == CONFIG_NUMBER || key->type == CONFIG_PERCENT;
}

static void check_object(enum config_section section, void *object)
{
	for (size_t i = 0; i < config_keys_count; i++) {
		const struct config_key *key = &config_keys[i];
		uint64_t value;

		if (key->section != section || !is_number(key))
			continue;
		value = *(uint64_t *)config_field(key, object);
		CHECK(value == key->fallback || (value >= key->min && value <= key->max));
	}
}

static void check_config(struct config *config)
{
	struct peer_credentials nobody = {.uid = (uid_t)-2, .gid = (gid_t)-2};

	check_object(CONFIG_SECTION_HOST, &config->host);
	for (size_t i = 0; i < config->n_tenants; i++) {
		const struct tenant *tenant = config->tenants[i];

		CHECK(tenant->name && tenant->name[0] && tenant->policy);
		CHECK(config_find_tenant(config, tenant->name) == tenant);
		CHECK(!tenant->any_root);
		check_object(CONFIG_SECTION_TENANT, config->tenants[i]);
		if (tenant->users.count == 0 && tenant->groups.count == 0) {
			nobody.uid = 0;
			CHECK(!peer_auth_admits(tenant, &nobody));
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct config_complaints listener = {on_complaint, NULL, NULL};
	struct text rest = fuzz_text(data, size);
	struct text main_file = fuzz_section(&rest, TEXT_LITERAL("\n%%\n"));
	struct config_source *source = NULL;
	struct config *config = NULL;
	char path[sizeof(scratch.path) + 16];
	int r;

	if (!scratch.path[0])
		set_up();
	put_file("c.conf", main_file);
	put_file("c.conf.d/10.conf", rest);
	snprintf(path, sizeof(path), "%s/c.conf", scratch.path);
	complaints = 0;
	CHECK(config_source_open(path, &source) == 0);
	config_source_lock(source);
	r = config_load(source, &listener, &config);
	CHECK(complaints > 0 ? r == -EINVAL && !config : r == 0 && config);
	if (config)
		check_config(config);
	config_release(config);
	config_source_free(source);
	return 0;
}
