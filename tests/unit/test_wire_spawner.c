// SPDX-License-Identifier: Apache-2.0
/* Between cloisterd and the spawner, and of cloister-unpack: cut or longer is refused. */
#include "common/unpack_report.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_spawner.h"

#include "tests/lib/unit.h"
#include "tests/lib/wire_exact.h"

static int get_open(struct text payload)
{
	struct spawner_open message;

	return spawner_open_get(payload, &message);
}

static int get_failure(struct text payload)
{
	struct setup_failure message;

	return setup_failure_get(payload, &message);
}

static void check_limits(const struct workspace_limits *limits, int expected)
{
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
	struct spawner_open open = {.kind = WORKSPACE_MANAGED, .limits = *limits};

	spawner_open_put(&writer, &open);
	assert_int_equal(get_open(written(&writer)), expected);
}

static const struct workspace_limits good = {.memory_bytes = LIMIT_MEMORY_MIN_BYTES,
	.processes = 1,
	.cpu_weight = 1,
	.io_weight = LIMIT_WEIGHT_MAX,
	.tmp_bytes = LIMIT_TMP_MIN_BYTES,
	.file_size_bytes = LIMIT_FILE_SIZE_MAX_BYTES,
	.open_files = 1,
	.watches = 1};

static void check_limits_refused(void)
{
	struct workspace_limits bad[12];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].memory_bytes--;
	bad[1].processes = 0;
	bad[2].cpu_weight = 0;
	bad[3].cpu_weight = LIMIT_WEIGHT_MAX + 1;
	bad[4].io_weight = 0;
	bad[5].io_weight++;
	bad[6].tmp_bytes--;
	bad[7].tmp_bytes = LIMIT_FILE_SIZE_MAX_BYTES + 1;
	bad[8].file_size_bytes = LIMIT_TMP_MIN_BYTES - 1;
	bad[9].file_size_bytes++;
	bad[10].open_files = 0;
	bad[11].watches = 0;
	check_limits(&good, 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check_limits(&bad[i], -EBADMSG);
}

/* A request may name no port, or one that takes none of a service's. */
/* Only a managed workspace has layers, whose numbers grow from 0 at the bottom. */
static void check_layers(void)
{
	static const struct {
		uint8_t kind;
		struct layer_stack layers;
		bool accepted;
	} rows[] = {
		{WORKSPACE_MANAGED, {0}, true},
		{WORKSPACE_MANAGED, {2, {0, 1}, ""}, true},
		{WORKSPACE_MANAGED, {4, {0, 3, 7, LIMIT_LAYER_NUMBER}, ""}, true},
		{WORKSPACE_MANAGED, {2, {0, LIMIT_LAYER_NUMBER + 1}, ""}, false},
		{WORKSPACE_MANAGED, {1, {0}, ""}, false},
		{WORKSPACE_MANAGED, {2, {1, 2}, ""}, false},
		{WORKSPACE_MANAGED, {3, {0, 2, 2}, ""}, false},
		{WORKSPACE_MANAGED, {3, {0, 2, 1}, ""}, false},
		{WORKSPACE_DIRECTORY, {2, {0, 1}, ""}, false},
		{WORKSPACE_ROOTFS, {2, {0, 1}, ""}, false},
		{WORKSPACE_MANAGED, {2, {0, 1}, "repo"}, true},
		{WORKSPACE_MANAGED, {0, {0}, "repo"}, false},
		{WORKSPACE_MANAGED, {2, {0, 1}, "../repo"}, false},
		{WORKSPACE_MANAGED, {2, {0, 1}, ".repo"}, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
		struct spawner_open open = {
			.kind = rows[i].kind, .limits = good, .layers = rows[i].layers};
		struct spawner_open opened;

		spawner_open_put(&writer, &open);
		assert_int_equal(spawner_open_get(written(&writer), &opened),
			rows[i].accepted ? 0 : -EBADMSG);
		if (rows[i].accepted)
			assert_memory_equal(&opened.layers, &open.layers, sizeof(open.layers));
	}
}

/* Only a managed workspace that is no whole root is shown elsewhere, and not everywhere. */
static void check_shown_at(void)
{
	static const struct {
		uint8_t kind;
		bool as_root;
		const char *path, *seen; /* NULL: refused */
	} rows[] = {
		{WORKSPACE_MANAGED, false, "", "/workspace"},
		{WORKSPACE_MANAGED, true, "", "/"},
		{WORKSPACE_DIRECTORY, false, "", "/own"},
		{WORKSPACE_ROOTFS, false, "", "/"},
		{WORKSPACE_MANAGED, false, "/home/user", "/home/user"},
		{WORKSPACE_MANAGED, false, "/a.b/c-d/_e", "/a.b/c-d/_e"},
		{WORKSPACE_MANAGED, true, "/home/user", NULL},
		{WORKSPACE_DIRECTORY, false, "/home/user", NULL},
		{WORKSPACE_ROOTFS, false, "/home/user", NULL},
		{WORKSPACE_MANAGED, false, "/", NULL},
		{WORKSPACE_MANAGED, false, "home", NULL},
		{WORKSPACE_MANAGED, false, "/home/", NULL},
		{WORKSPACE_MANAGED, false, "/home//x", NULL},
		{WORKSPACE_MANAGED, false, "/home/./x", NULL},
		{WORKSPACE_MANAGED, false, "/x/../etc", NULL},
		{WORKSPACE_MANAGED, false, "/etc", NULL},
		{WORKSPACE_MANAGED, false, "/usr/local/x", NULL},
		{WORKSPACE_MANAGED, false, "/home/agent/x", NULL},
		{WORKSPACE_MANAGED, false, "/a b", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
		struct spawner_open open = {
			.kind = rows[i].kind, .limits = good, .as_root = rows[i].as_root};
		struct spawner_open opened = {0};
		int r;

		strcpy(open.shown_at, rows[i].path);
		spawner_open_put(&writer, &open);
		r = spawner_open_get(written(&writer), &opened);
		assert_int_equal(r, rows[i].seen ? 0 : -EBADMSG);
		if (rows[i].seen)
			assert_string_equal(spawner_open_visible(&opened, "/own"), rows[i].seen);
	}
}

/* Only a managed workspace may be a whole root besides, and only that have root inside. */
static void check_roots(void)
{
	for (unsigned kind = WORKSPACE_MANAGED; kind < WORKSPACE_KIND_END; kind++) {
		struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
		struct spawner_open open = {.kind = (uint8_t)kind, .limits = good, .as_root = true};
		struct spawner_open opened = {0};
		int r;

		spawner_open_put(&writer, &open);
		r = spawner_open_get(written(&writer), &opened);
		assert_int_equal(r, kind == WORKSPACE_MANAGED ? 0 : -EBADMSG);
		assert_true(r < 0 || spawner_open_shown(&opened) == WORKSPACE_ROOTFS);
		assert_false(opened.root_inside);
		/* Commands are root in a whole root alone. */
		for (unsigned as_root = 0; as_root < 2; as_root++) {
			writer = wire_writer(bytes, sizeof(bytes) - 1);
			open.as_root = as_root > 0;
			open.root_inside = true;
			spawner_open_put(&writer, &open);
			r = spawner_open_get(written(&writer), &opened);
			assert_int_equal(r, kind == WORKSPACE_MANAGED && as_root ? 0 : -EBADMSG);
			assert_true(r < 0 || opened.root_inside);
		}
	}
}

/* What is to be copied is a tenant's own, and goes to a place that nothing else has. */
static void check_copies(void)
{
	static const struct {
		const char *tenant, *template, *target;
		bool accepted;
	} rows[] = {
		{"one", "repo", ".unfinished-1", true},
		{".", "repo", ".unfinished-1", true},
		{"", "repo", ".unfinished-1", false},
		{"..", "repo", ".unfinished-1", false},
		{"one/..", "repo", ".unfinished-1", false},
		{"one", "", ".unfinished-1", false},
		{"one", "..", ".unfinished-1", false},
		{"one", "re/po", ".unfinished-1", false},
		{"one", "repo", ".unfinished-", false},
		{"one", "repo", "workspace", false},
		{"one", "repo", ".unfinished-/../../two/w", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
		const struct spawner_copy copy = {text_from(rows[i].tenant),
			text_from(rows[i].template), text_from(rows[i].target), 7, 8};
		struct spawner_copy got;

		spawner_copy_put(&writer, &copy);
		assert_int_equal(
			spawner_copy_get(written(&writer), &got), rows[i].accepted ? 0 : -EBADMSG);
		if (rows[i].accepted)
			assert_true(text_equal(got.target, copy.target) && got.max_bytes == 7 &&
				    got.max_files == 8);
	}
}

/* What the spawner tells of its own work: of a kind that it does, and without a NUL in a name. */
static void check_worked(void)
{
	static const struct {
		uint8_t what;
		struct text tenant;
		bool accepted;
	} rows[] = {
		{SPAWNER_FOLD, TEXT_LITERAL("one"), true},
		{SPAWNER_MEASURE, TEXT_LITERAL("one"), true},
		{SPAWNER_LOAD, TEXT_LITERAL("one"), true},
		{SPAWNER_FOLD, TEXT_LITERAL("o\0e"), false},
		{SPAWNER_DROPPED, TEXT_LITERAL("one"), true},
		{SPAWNER_FREEZE, TEXT_LITERAL("one"), false},
		{0, TEXT_LITERAL("one"), false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
		const struct spawner_worked worked = {rows[i].what, rows[i].tenant,
			TEXT_LITERAL(".layers-w/5-3-2"), ENOSPC, 7, 8};
		struct spawner_worked got = {0};

		spawner_worked_put(&writer, &worked);
		assert_int_equal(spawner_worked_get(written(&writer), &got),
			rows[i].accepted ? 0 : -EBADMSG);
		if (rows[i].accepted)
			assert_true(text_equal(got.path, worked.path) && got.error == ENOSPC &&
				    got.us == 7 && got.bytes == 8);
	}
}

static void check_proxy_ports(void)
{
	static const struct {
		uint32_t port;
		int expected;
	} rows[] = {{0, 0}, {1, -EBADMSG}, {LIMIT_PROXY_PORT_MIN - 1, -EBADMSG},
		{LIMIT_PROXY_PORT_MIN, 0}, {UINT16_MAX, 0}, {UINT16_MAX + 1, -EBADMSG},
		{UINT32_MAX, -EBADMSG}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
		struct spawner_open open = {.kind = WORKSPACE_ROOTFS,
			.limits = {LIMIT_MEMORY_MIN_BYTES, 2, 3, 4, 5, 6 * MIB, 7 * MIB, 8 * MIB, 9,
				10},
			.proxy_port = rows[i].port};

		spawner_open_put(&writer, &open);
		assert_int_equal(get_open(written(&writer)), rows[i].expected);
	}
}

TEST(test_spawner)
{
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
	struct spawner_open open = {.kind = WORKSPACE_ROOTFS,
		.limits = {LIMIT_MEMORY_MIN_BYTES, 2, 3, 4, 5, 6 * MIB, 7 * MIB, 8 * MIB, 9, 10},
		.proxy_port = 3129,
		.tenant = "someone"};
	struct spawner_open opened;
	struct setup_failure in = {.step = TEXT_LITERAL("step"), .error = ENOSPC}, out;

	spawner_open_put(&writer, &open);
	assert_int_equal(spawner_open_get(written(&writer), &opened), 0);
	assert_int_equal(opened.limits.memory_bytes, LIMIT_MEMORY_MIN_BYTES);
	assert_int_equal(opened.limits.processes, 2);
	assert_int_equal(opened.limits.cpu_weight, 3);
	assert_int_equal(opened.limits.cpu_percent, 4);
	assert_int_equal(opened.limits.io_weight, 5);
	assert_int_equal(opened.limits.tmp_bytes, 6 * MIB);
	assert_int_equal(opened.limits.file_size_bytes, 7 * MIB);
	assert_int_equal(opened.limits.data_bytes, 8 * MIB);
	assert_int_equal(opened.limits.open_files, 9);
	assert_int_equal(opened.limits.watches, 10);
	assert_int_equal(opened.proxy_port, 3129);
	assert_string_equal(opened.tenant, "someone");
	check_exact(written(&writer), get_open);
	check_limits_refused();
	check_worked();
	check_proxy_ports();
	check_layers();
	check_copies();
	check_shown_at();
	check_roots();
	writer = wire_writer(bytes, sizeof(bytes) - 1);
	spawner_open_put(&writer, &open);
	for (unsigned kind = 0; kind < 256; kind++) {
		bool known = kind >= WORKSPACE_MANAGED && kind < WORKSPACE_KIND_END;

		bytes[0] = (uint8_t)kind;
		assert_int_equal(get_open(written(&writer)), known ? 0 : -EBADMSG);
	}
	writer = wire_writer(bytes, sizeof(bytes) - 1);
	setup_failure_put(&writer, &in);
	assert_int_equal(setup_failure_get(written(&writer), &out), 0);
	assert_true(text_equal(out.step, in.step));
	assert_int_equal(out.error, ENOSPC);
	check_exact(written(&writer), get_failure);
}

static int get_look_up(struct text payload)
{
	struct spawner_look_up message;

	return spawner_look_up_get(payload, &message);
}

static int get_looked_up(struct text payload)
{
	static struct spawner_looked_up message;

	return spawner_looked_up_get(payload, &message);
}

TEST(test_look_up)
{
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
	struct spawner_look_up in = {
		.file = true, .tenant = TEXT_LITERAL("someone"), .path = TEXT_LITERAL("a/b")};
	struct spawner_look_up out;

	spawner_look_up_put(&writer, &in);
	assert_int_equal(spawner_look_up_get(written(&writer), &out), 0);
	assert_true(out.file && !out.below && text_equal(out.tenant, in.tenant) &&
		    text_equal(out.path, in.path));
	check_exact(written(&writer), get_look_up);
	in.path = (struct text){"a\0b", 3};
	writer = wire_writer(bytes, sizeof(bytes) - 1);
	spawner_look_up_put(&writer, &in);
	assert_int_equal(get_look_up(written(&writer)), -EBADMSG);
}

TEST(test_looked_up)
{
	static struct spawner_looked_up in = {.kind = LOOKED_UP_IMAGE,
						.may_enter = true,
						.n_parents = 2,
						.parents = {{1, 2}, {3, 4}}},
					out;
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);

	spawner_looked_up_put(&writer, &in);
	assert_int_equal(spawner_looked_up_get(written(&writer), &out), 0);
	assert_true(out.may_enter);
	assert_int_equal(out.kind, LOOKED_UP_IMAGE);
	assert_int_equal(out.n_parents, 2);
	assert_int_equal(out.parents[1].dev, 3);
	assert_int_equal(out.parents[1].ino, 4);
	check_exact(written(&writer), get_looked_up);
	writer = wire_writer(bytes, sizeof(bytes) - 1);
	wire_put_u8(&writer, LOOKED_UP_FILE);
	wire_put_u8(&writer, 1);
	wire_put_u32(&writer, LIMIT_ROOT_PARENTS + 1);
	assert_int_equal(get_looked_up(written(&writer)), -EBADMSG);
	writer = wire_writer(bytes, sizeof(bytes) - 1);
	wire_put_u8(&writer, LOOKED_UP_END);
	wire_put_u8(&writer, 1);
	wire_put_u32(&writer, 0);
	assert_int_equal(get_looked_up(written(&writer)), -EBADMSG);
}

static int get_report(struct text payload)
{
	struct unpack_report report;

	return unpack_report_get(payload, &report);
}

/* What it says comes from a process that has read an archive. */
TEST(test_unpack_report)
{
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
	char name[LIMIT_UNPACK_NAME_BYTES + 1];
	struct unpack_report in = {.fault = UNPACK_CLIMBS,
		.error = 1,
		.entries = 2,
		.special = 3,
		.set_ids = 4,
		.attributes = 5,
		.name = {name, sizeof(name)}};
	struct unpack_report out;

	memset(name, 'n', sizeof(name));
	unpack_report_put(&writer, &in);
	assert_true(wire_writer_ok(&writer) && writer.len <= UNPACK_REPORT_BYTES);
	assert_int_equal(unpack_report_get(written(&writer), &out), 0);
	assert_int_equal(out.fault, UNPACK_CLIMBS);
	assert_int_equal(out.error + out.entries + out.special + out.set_ids + out.attributes, 15);
	/* A name that is longer was cut. */
	assert_int_equal(out.name.len, LIMIT_UNPACK_NAME_BYTES);
	check_exact(written(&writer), get_report);
	in.fault = UNPACK_FAULT_END;
	writer = wire_writer(bytes, sizeof(bytes) - 1);
	unpack_report_put(&writer, &in);
	assert_int_equal(get_report(written(&writer)), -EBADMSG);
}

/* A cell's sockets come without those that it does not have: their number says which those are. */
TEST(test_sockets)
{
	static const struct {
		unsigned n;
		bool is_one;
		int places[CELL_SOCKETS];
	} rows[] = {
		{0, true, {-1, -1, -1, -1, -1, -1, -1}},
		{1, true, {-1, -1, -1, -1, -1, -1, 10}},
		{2, false, {0}},
		{CELL_SOCKETS_LEAST - 1, false, {0}},
		{CELL_SOCKETS_LEAST, true, {10, 11, 12, 13, 14, -1, -1}},
		{CELL_SOCKETS_LEAST + 1, true, {10, 11, 12, 13, 14, -1, 15}},
		{CELL_SOCKETS, true, {10, 11, 12, 13, 14, 15, 16}},
		{CELL_SOCKETS + 1, false, {0}},
	};
	static const int fds[] = {10, 11, 12, 13, 14, 15, 16, 17};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int places[CELL_SOCKETS] = {0};

		assert_int_equal(cell_sockets_place(fds, rows[i].n, places), rows[i].is_one);
		assert_memory_equal(places, rows[i].places, sizeof(places));
	}
}

TEST(test_kinds)
{
	assert_int_equal(workspace_kind_by_name(TEXT_LITERAL("managed")), WORKSPACE_MANAGED);
	assert_int_equal(workspace_kind_by_name(TEXT_LITERAL("directory")), WORKSPACE_DIRECTORY);
	assert_int_equal(workspace_kind_by_name(TEXT_LITERAL("rootfs")), WORKSPACE_ROOTFS);
	assert_int_equal(workspace_kind_by_name(TEXT_LITERAL("")), 0);
	assert_int_equal(workspace_kind_by_name(TEXT_LITERAL("Managed")), 0);
	assert_null(workspace_kind_name(0));
	assert_null(workspace_kind_name(WORKSPACE_KIND_END));
}
