/* links: cloister-config PkgConfig::INIH */
// SPDX-License-Identifier: Apache-2.0
/* Whose a section of the configuration is, for the programs that take some keys of each tenant. */
#include "common/config/tenant_sections.h"
#include "tests/lib/unit.h"

struct kept {
	char name[LIMIT_CONFIG_NAME_BYTES + 1];
	uint64_t number;
};

static const struct kept defaults = {.number = 7};
static unsigned n_said;
static char said[200];

static void on_complaint(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	(void)file;
	(void)line;
	n_said++;
	snprintf(said, sizeof(said), "%s", message);
}

static const struct config_complaints complaints = {on_complaint, NULL, NULL};

static void begin_file(struct config_reader *reader)
{
	((struct tenant_sections *)reader->context)->current = NULL;
}

static void begin_section(struct config_reader *reader, const char *name)
{
	tenant_sections_begin(reader->context, reader, name);
}

/* Each setting adds to the number of the current item. */
static void take_setting(struct config_reader *reader, const char *name, const char *value)
{
	struct kept *current = ((struct tenant_sections *)reader->context)->current;

	(void)name;
	if (current)
		current->number += strtoul(value, NULL, 10);
}

static const struct config_handler handler = {begin_file, begin_section, take_setting};

static void read_file(struct tenant_sections *tenants, const char *text)
{
	struct config_reader reader = {
		.complaints = &complaints, .handler = &handler, .context = tenants, .file = "f"};

	n_said = 0;
	assert_int_equal(config_file_read(&reader, text_from(text)), 0);
	assert_int_equal(reader.mistakes, n_said);
}

static struct tenant_sections none(size_t max)
{
	return (struct tenant_sections){
		.max = max, .item_size = sizeof(struct kept), .defaults = &defaults};
}

TEST(test_whose_a_section_is)
{
	static const struct {
		const char *section, *name;
	} rows[] = {
		{"tenant a", "a"},
		{"tenant  a", " a"},
		{"tenant ", ""},
		{"tenant", NULL},
		{"tenants a", NULL},
		{"Tenant a", NULL},
		{"cloister", NULL},
		{"", NULL},
		{NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *name = tenant_of_section(rows[i].section);

		if (rows[i].name)
			assert_string_equal(name, rows[i].name);
		else
			assert_null(name);
	}
}

/* Lines of a tenant's section count for it alone, also where a later file goes on with it. */
TEST(test_settings_reach_their_tenant)
{
	struct tenant_sections tenants = none(4);
	const struct kept *items;

	read_file(&tenants, "[tenant a]\nx = 10\n[cloister]\nx = 100\n[tenant b]\nx = 20\n"
			    "[broken\nx = 100\n");
	assert_int_equal(n_said, 1);
	read_file(&tenants, "x = 100\n[tenant b]\nx = 1\n[tenant c]\n[tenant a]\nx = 1\n");
	assert_int_equal(n_said, 0);
	items = tenants.items;
	assert_int_equal(tenants.count, 3);
	assert_string_equal(items[0].name, "a");
	assert_int_equal(items[0].number, 18);
	assert_string_equal(items[1].name, "b");
	assert_int_equal(items[1].number, 28);
	assert_string_equal(items[2].name, "c");
	assert_int_equal(items[2].number, 7);
	free(tenants.items);
}

/* The setting after a section that is refused reaches nobody. */
TEST(test_bounds)
{
	static const char settings[] = "]\nx = 1\n";
	char text[LIMIT_CONFIG_NAME_BYTES + 64], longest[LIMIT_CONFIG_NAME_BYTES + 2];
	struct tenant_sections tenants = none(2);
	const struct kept *items;

	memset(longest, 'n', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	snprintf(text, sizeof(text), "[tenant %s%s", longest, settings);
	read_file(&tenants, text);
	assert_int_equal(n_said, 1);
	assert_string_equal(said, "too many tenants, or too long a name");
	assert_int_equal(tenants.count, 0);

	snprintf(text, sizeof(text), "[tenant %s%s", longest + 1, settings);
	read_file(&tenants, text);
	read_file(&tenants, "[tenant a]\n[tenant a]\n");
	assert_int_equal(n_said, 0);
	read_file(&tenants, "[tenant a]\nx = 1\n[tenant b]\nx = 1\n");
	assert_int_equal(n_said, 1);
	items = tenants.items;
	assert_int_equal(tenants.count, 2);
	assert_string_equal(items[0].name, longest + 1);
	assert_int_equal(items[0].number, 8);
	assert_int_equal(items[1].number, 8);
	free(tenants.items);
}
