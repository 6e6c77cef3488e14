/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer */
// SPDX-License-Identifier: Apache-2.0
/* Templates on the control socket: the list, the removal, and the import of what a path resolver
 * finds and a copier or cloister-unpack, which the test plays, reads. */
#include "common/unpack_report.h"
#include "supervisor/audit/audit.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/spawner_link.h"

#define ADMINS    50
#define OBSERVERS 51

/* A service with an administrator and an observer, and a directory and an archive to import. */
struct house {
	struct fake_service *fake;
	struct fake_client admin, observer;
	struct audit *audit;
	struct tenant_usage *usage; /* of the tenant "one" */
};

static int set_up(void **state)
{
	static struct house house;
	struct fake_service *fake = fake_service_new("[cloister]\n"
						     "admin_group = 50\n"
						     "observer_group = 51\n"
						     "[tenant one]\n"
						     "users = 1001\n"
						     "managed = yes\n"
						     "templates = 3\n"
						     "[tenant two]\n"
						     "users = 1002\n"
						     "managed = yes\n"
						     "[tenant three]\n"
						     "users = 1003\n"
						     "roots = @/root\n");

	house = (struct house){.fake = fake, .usage = fake->service.config->tenants[0]->usage};
	assert_int_equal(mkdirat(fake->scratch.fd, "templates", 0700), 0);
	assert_int_equal(mkdirat(fake->scratch.fd, "root/tree", 0755), 0);
	scratch_text(&fake->scratch, "root/archive.tar", "an archive");
	assert_int_equal(
		audit_new("/audit/audit.log", false, &(struct audit_rotation){0}, &house.audit), 0);
	assert_int_equal(audit_start(house.audit), 0);
	fake->service.audit = house.audit;
	house.admin = fake_client_connect(fake, &control_endpoint, 1, ADMINS);
	house.observer = fake_client_connect(fake, &control_endpoint, 2, OBSERVERS);
	(void)fake_audit_take();
	*state = &house;
	return 0;
}

static int tear_down(void **state)
{
	struct house *house = *state;

	fake_client_close(&house->admin);
	fake_client_close(&house->observer);
	assert_int_equal(house->usage->copies, 0);
	fake_service_free(house->fake);
	audit_free(house->audit);
	return 0;
}

FIXTURE(set_up, tear_down)

/* clang-format off */
#define LIST(params)       REQUEST("1", "templates", params)
#define REMOVE(params)     REQUEST("1", "template.remove", params)
#define IMPORT(params)     REQUEST("1", "template.import", params)
#define MAKE(name, path)   IMPORT("{\"template\":\"" name "\",\"path\":\"" path "\",\"tenant\":\"one\"}")
#define MADE(name, rest)   RESULT("1", "{\"tenant\":\"one\",\"template\":\"" name "\",\"replaced\":false" rest "}")
#define LISTED(rows)       RESULT("1", "{\"templates\":[" rows "]}")
#define ROW(tenant, name)  "{\"tenant\":\"" tenant "\",\"template\":\"" name "\",\"created\":*,\"forks\":0,\"replaced\":false,\"bytes\":null}"
#define WRONG(words)       ERROR("1", "-32602", "\"message\":\"" words "\"")
#define REFUSED(code, words) \
	ERROR("1", "-32000", "\"message\":\"" words "\",\"data\":{\"code\":\"" code "\"*}")
#define ACT(act, target, outcome) \
	"*\"event\":\"admin.act\",\"uid\":1,\"gid\":50,\"pid\":4321,\"act\":\"" act "\"," \
	"\"target\":\"" target "\",\"outcome\":\"" outcome "\""
/* clang-format on */

/* Wrong arguments have a code of JSON-RPC's own. */
static void hears_refusal(struct fake_client *client, const char *code, const char *words)
{
	char answer[512];

	if (strcmp(code, "INVALID_ARGUMENTS") == 0)
		snprintf(answer, sizeof(answer), WRONG("%s"), words);
	else
		snprintf(answer, sizeof(answer), REFUSED("%s", "%s"), words, code);
	fake_client_hears(client, answer);
}

static void is_audited(struct house *house, const char *lines)
{
	fake_service_match(house->fake, fake_audit_take(), lines);
}

static bool is_there(const struct house *house, const char *path)
{
	return faccessat(house->fake->scratch.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(test_a_directory)
{
	struct house *house = *state;
	struct fake_asked *asked;

	house->fake->spawner_waits = true;
	fake_client_says(&house->admin, MAKE("t", "@/root/tree"), NULL);
	asked = fake_spawner_asked(house->fake->spawner);
	assert_int_equal(asked->type, SPAWNER_LOOK_UP);
	assert_true(asked->file);
	fake_spawner_answer(house->fake->spawner, asked);
	asked = fake_spawner_asked(house->fake->spawner);
	assert_int_equal(asked->type, SPAWNER_IMPORT);
	assert_string_equal(asked->path, "one");
	assert_int_equal(house->usage->copies, 1);
	/* Until all is there nobody sees it. */
	assert_false(is_there(house, "templates/one/t"));
	fake_client_says(&house->observer, LIST("{}"), LISTED(""));
	fake_spawner_answer(house->fake->spawner, asked);
	fake_client_hears(&house->admin, MADE("t", ""));
	is_audited(house, ACT("template.import", "t", "done"));
	fake_client_says(&house->observer, LIST("{}"), LISTED(ROW("one", "t")));
	fake_client_says(&house->observer, LIST("{\"tenant\":\"one\"}"), LISTED(ROW("one", "t")));
	fake_client_says(&house->observer, LIST("{\"tenant\":\"two\"}"), LISTED(""));
	fake_client_says(&house->observer, NOTIFICATION("templates", "{}"), NULL);
	assert_true(is_there(house, "templates/one/t"));
	assert_int_equal(house->usage->templates, 1);
	assert_int_equal(house->usage->imports, 1);
}

/* Begins to unpack the archive. Returns the request to the spawner, with the pipe for a report. */
static struct fake_asked *begin_to_unpack(struct house *house)
{
	struct fake_asked *asked;

	house->fake->spawner_waits = true;
	fake_client_says(&house->admin, MAKE("t", "@/root/archive.tar"), NULL);
	fake_spawner_answer(house->fake->spawner, fake_spawner_asked(house->fake->spawner));
	asked = fake_spawner_asked(house->fake->spawner);
	assert_int_equal(asked->type, SPAWNER_UNPACK);
	return asked;
}

/* Writes the last @cut bytes fewer than all of the report. */
static void report(struct fake_asked *asked, const struct unpack_report *report, size_t cut)
{
	uint8_t payload[UNPACK_REPORT_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	ssize_t len;

	unpack_report_put(&writer, report);
	assert_true(wire_writer_ok(&writer));
	len = (ssize_t)(writer.len - cut);
	assert_int_equal(write(asked->fds[SPAWNER_UNPACK_REPORT], payload, (size_t)len), len);
}

TEST(test_an_archive)
{
	static const struct unpack_report left_out = {
		.entries = 9, .special = 1, .set_ids = 2, .attributes = 3};
	struct house *house = *state;
	struct fake_asked *asked = begin_to_unpack(house);

	report(asked, &left_out, 0);
	fake_spawner_answer(house->fake->spawner, asked);
	fake_client_hears(
		&house->admin, MADE("t", ",\"left_out\":{\"special_files\":1,\"set_id_bits\":2,"
					 "\"attributes\":3}"));
	assert_true(is_there(house, "templates/one/t"));
	assert_int_equal(house->usage->imports, 1);
}

/* The spawner says that it is unpacked; the process says nothing, or what cannot be understood. */
TEST(test_an_archive_without_a_report)
{
	static const struct unpack_report left_out = {.special = 1};
	struct house *house = *state;
	struct fake_asked *asked = begin_to_unpack(house);

	report(asked, &left_out, 1);
	fake_spawner_answer(house->fake->spawner, asked);
	fake_client_hears(&house->admin, MADE("t", ""));
	assert_int_equal(house->usage->imports, 1);
}

#define NAMED_IT(fault_, name_)                                \
	{                                                      \
		.fault = (fault_), .name = TEXT_LITERAL(name_) \
	}

/* What an administrator is told of an archive that is refused. The report is hostile: it makes
 * sentences, and nothing else depends on it. */
TEST(test_archives_that_are_refused)
{
	static const struct {
		int error; /* of the spawner */
		struct unpack_report report;
		const char *code, *words;
	} table[] = {
		{-EBADMSG, NAMED_IT(UNPACK_ABSOLUTE, "/etc/x"), "PATH_OUTSIDE_WORKSPACE",
			"The entry \\\"/etc/x\\\" of the archive has,*begins with '/'*"},
		{-EBADMSG, NAMED_IT(UNPACK_CLIMBS, "../x"), "PATH_OUTSIDE_WORKSPACE",
			"The entry \\\"../x\\\" of*'..'*"},
		{-EBADMSG, NAMED_IT(UNPACK_THROUGH_LINK, "a/b"), "SYMLINK_OUTSIDE_WORKSPACE",
			"The entry \\\"a/b\\\" *"},
		{-EBADMSG, NAMED_IT(UNPACK_THROUGH_FILE, "a/b"), "NOT_A_DIRECTORY", "*"},
		{-EBADMSG, NAMED_IT(UNPACK_SWAPPED, "a"), "FORBIDDEN", "*make the archive anew"},
		{-EBADMSG, NAMED_IT(UNPACK_LINK_MISSING, "a"), "NOT_FOUND", "*hard link*"},
		{-EBADMSG, NAMED_IT(UNPACK_NAME, "\x1b[1m\xff\n"), "NAME_TOO_LONG",
			"The entry \\\"?[1m??\\\" *"},
		{-EBADMSG, NAMED_IT(UNPACK_DEEP, "a"), "NAME_TOO_LONG",
			"*deeper than * directories"},
		{-EBADMSG, NAMED_IT(UNPACK_FILE_SIZE, "a"), "FILE_TOO_LARGE", "*"},
		{-EBADMSG, {.fault = UNPACK_BYTES}, "QUOTA_EXCEEDED", "*more room*"},
		{-EBADMSG, {.fault = UNPACK_FILES}, "QUOTA_EXCEEDED", "*more files*"},
		{-EBADMSG, {.fault = UNPACK_RATIO}, "QUOTA_EXCEEDED", "*times its size*"},
		{-EBADMSG, {.fault = UNPACK_FORMAT}, "INVALID_ARGUMENTS", "*is no tar archive*"},
		{-EBADMSG, NAMED_IT(UNPACK_DAMAGED, "a"), "INVALID_ARGUMENTS",
			"*near \\\"a\\\": make it anew"},
		{-EBADMSG, {.fault = UNPACK_LAYERS}, "INVALID_ARGUMENTS", "*squash it"},
		{-EBADMSG, NAMED_IT(UNPACK_BLOB_DIGEST, "a"), "INVALID_ARGUMENTS",
			"\\\"a\\\" does not have the SHA-256 *"},
		{-EBADMSG, {.fault = UNPACK_FAILED, .error = ENOSPC}, "NO_SPACE",
			"The archive could not be unpacked (No space left on device)"},
		{-EBADMSG, {.fault = UNPACK_FAILED, .error = EIO, .name = TEXT_LITERAL("blobs/a")},
			"EXECUTION_ERROR", "*(Input/output error: blobs/a)"},
		{-EBADMSG, {.fault = UNPACK_FAILED, .error = EACCES}, "PERMISSION_DENIED",
			"*make it readable*"},
		{-EACCES, {.fault = UNPACK_NONE}, "PERMISSION_DENIED", "*make it readable*"},
		/* It says that nothing is wrong, and has not ended as one that has unpacked. */
		{-EBADMSG, {.fault = UNPACK_NONE}, "EXECUTION_ERROR", "*did not say why*"},
		{-EIO, NAMED_IT(UNPACK_CLIMBS, "a"), "EXECUTION_ERROR", "*did not say why*"},
		/* The spawner's own reasons are believed. */
		{-EFBIG, NAMED_IT(UNPACK_CLIMBS, "a"), "QUOTA_EXCEEDED", "*more room*disk_class*"},
		{-EOVERFLOW, {0}, "QUOTA_EXCEEDED", "*more files*"},
		{-ENAMETOOLONG, {0}, "NAME_TOO_LONG", "*nested deeper*"},
		{-EDQUOT, {0}, "NO_SPACE", "*"},
		{-ETIMEDOUT, {0}, "TIMEOUT", "*minutes*"},
		{-EBUSY, {0}, "BUSY", "*try again later"},
		{-SPAWNER_REFUSAL, {0}, "FORBIDDEN", "The files were not copied: read a tree"},
		{-EPERM, {0}, "EXECUTION_ERROR", "Could not read a tree: Operation not permitted"},
	};
	struct house *house = *state;
	char answer[512];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct fake_asked *asked = begin_to_unpack(house);

		report(asked, &table[i].report, 0);
		fake_spawner_fail(
			house->fake->spawner, asked, table[i].error, TEXT_LITERAL("read a tree"));
		hears_refusal(&house->admin, table[i].code, table[i].words);
		snprintf(answer, sizeof(answer), ACT("template.import", "t", "%s"), table[i].code);
		is_audited(house, answer);
		assert_int_equal(house->usage->copies, 0);
		assert_int_equal(
			strncmp(fake_spawner_dropped(house->fake->spawner), "one/.unfinished-", 16),
			0);
	}
	assert_false(is_there(house, "templates/one/t"));
	assert_int_equal(house->usage->imports, 0);
}

/* A process that was taken over writes half a report, a fault that there is none of, or nothing. */
TEST(test_reports_that_are_none)
{
	static const struct unpack_report climbs = NAMED_IT(UNPACK_CLIMBS, "a"),
					  unknown = {.fault = UNPACK_FAULT_END};
	struct house *house = *state;

	for (int i = 0; i < 3; i++) {
		struct fake_asked *asked = begin_to_unpack(house);

		if (i < 2)
			report(asked, i == 0 ? &climbs : &unknown, i == 0);
		fake_spawner_fail(house->fake->spawner, asked, -EBADMSG, (struct text){NULL, 0});
		fake_client_hears(&house->admin, REFUSED("EXECUTION_ERROR", "*did not say why*"));
	}
}

TEST(test_paths_that_are_not_found)
{
	static const struct {
		int error;
		const char *code, *words;
	} table[] = {
		{-ENOENT, "NOT_FOUND", "There is nothing at this path*"},
		{-ENOTDIR, "NOT_A_DIRECTORY", "The path leads through a file*"},
		{-EACCES, "PERMISSION_DENIED", "*chmod go+x*"},
		{-ETIMEDOUT, "EXECUTION_ERROR", "The file system's server does not answer*"},
		{-EBUSY, "BUSY", "*"},
	};
	struct house *house = *state;

	house->fake->spawner_waits = true;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		fake_client_says(&house->admin, MAKE("t", "@/root/x"), NULL);
		fake_spawner_fail(house->fake->spawner, fake_spawner_asked(house->fake->spawner),
			table[i].error, (struct text){NULL, 0});
		hears_refusal(&house->admin, table[i].code, table[i].words);
	}
	/* A request that cannot be sent. */
	fake_spawner_break(house->fake->spawner, -ENOBUFS);
	fake_client_says(&house->admin, MAKE("t", "@/root/tree"), REFUSED("BUSY", "*"));
	/* Nor the second one, after the look-up. */
	fake_spawner_break(house->fake->spawner, 0);
	fake_client_says(&house->admin, MAKE("t", "@/root/tree"), NULL);
	fake_spawner_break(house->fake->spawner, -ENOSPC);
	fake_spawner_answer(house->fake->spawner, fake_spawner_asked(house->fake->spawner));
	fake_client_hears(&house->admin, REFUSED("NO_SPACE", "*"));
	assert_int_equal(house->usage->copies, 0);
}

TEST(test_what_is_wrong)
{
	static const struct fake_exchange exchanges[] = {
		{LIST("{\"tenant\":1}"), WRONG("tenant must be*")},
		{LIST("{\"tenant\":\"x\"}"), REFUSED("NOT_FOUND", "there is no such tenant*")},
		{LIST("{\"tenant\":\"one\\u0000\"}"), REFUSED("NOT_FOUND", "*no such tenant*")},
		{REMOVE("{}"), WRONG("template must be*")},
		{REMOVE("{\"template\":1}"), WRONG("template must be*")},
		{REMOVE("{\"template\":\"t\"}"), WRONG("there are several tenants*")},
		{REMOVE("{\"template\":\"t\",\"tenant\":\"one\"}"), REFUSED("NOT_FOUND", "*")},
		{REMOVE("{\"template\":\"../t\",\"tenant\":\"one\"}"), REFUSED("NOT_FOUND", "*")},
		{IMPORT("{\"template\":\"t\"}"), WRONG("template must be the name that*")},
		{IMPORT("{\"path\":\"/x\"}"), WRONG("template must be*")},
		{IMPORT("{\"template\":\"t\",\"path\":\"/x\"}"),
			WRONG("there are several tenants*")},
		{IMPORT("{\"template\":\"t\",\"path\":\"/x\",\"tenant\":\"three\"}"),
			REFUSED("FORBIDDEN", "This tenant may not have managed workspaces*")},
		{MAKE("t", ""), WRONG("path must be the absolute path*")},
		{MAKE("t", "x"), WRONG("path must be the absolute path*")},
		{MAKE("t", "/x\\u0000y"), WRONG("path must be*")},
		{MAKE(".t", "/x"), WRONG("template must be a name of*")},
		{MAKE("a/b", "/x"), WRONG("template must be a name of*")},
		{MAKE("t", "@/root/tree"), MADE("t", "")},
		{MAKE("t", "@/root/tree"), REFUSED("FORBIDDEN", "There is a template of this*")},
		{IMPORT("{\"template\":\"t\",\"path\":\"/x\",\"tenant\":\"one\",\"replace\":1}"),
			WRONG("replace must be true or false")},
		{MAKE("u", "@/root/tree"), MADE("u", "")},
		{MAKE("v", "@/root/tree"), MADE("v", "")},
		{MAKE("w", "@/root/tree"), REFUSED("QUOTA_EXCEEDED", "The tenant has 3*")},
		{REMOVE("{\"template\":\"v\",\"tenant\":\"one\"}"),
			RESULT("1", "{\"tenant\":\"one\",\"removed\":\"v\"}")},
		{NOTIFICATION("template.remove", "{\"template\":\"u\",\"tenant\":\"one\"}"), NULL},
		{LIST("{}"), LISTED(ROW("one", "t"))},
	};
	struct house *house = *state;
	char line[LIMIT_PATH_BYTES + 256];

	fake_client_talk(&house->admin, exchanges, ARRAY_SIZE(exchanges));
	snprintf(line, sizeof(line), MAKE("x", "/%0*d"), LIMIT_PATH_BYTES, 0);
	fake_client_says(&house->admin, line, WRONG("path must be*"));
	(void)fake_audit_take();
	fake_client_says(&house->admin, REMOVE("{\"template\":\"t\",\"tenant\":\"one\"}"),
		RESULT("1", "{*}"));
	is_audited(house, ACT("template.remove", "t", "done"));
	fake_client_says(&house->admin, REMOVE("{\"template\":\"t\",\"tenant\":\"one\"}"),
		REFUSED("NOT_FOUND", "*"));
	is_audited(house, ACT("template.remove", "t", "NOT_FOUND"));
	/* Another generation keeps them now. */
	house->fake->service.retiring = true;
	fake_client_says(&house->admin, REMOVE("{\"template\":\"t\"}"),
		REFUSED("BUSY", "*connect again, and repeat the request there"));
	fake_client_says(
		&house->admin, MAKE("t", "@/root/tree"), REFUSED("BUSY", "*connect again*"));
}

TEST(test_many_at_once)
{
	struct house *house = *state;
	struct fake_client second = fake_client_connect(house->fake, &control_endpoint, 1, ADMINS);
	struct spawner_link *spawner = house->fake->spawner;

	house->fake->spawner_waits = true;
	fake_client_says(&house->admin, MAKE("a", "@/root/tree"), NULL);
	fake_client_says(&second, MAKE("b", "@/root/tree"), NULL);
	fake_client_says(&house->admin, MAKE("c", "@/root/tree"),
		REFUSED("BUSY", "2 requests of the tenant are copying files*"));
	/* A client that leaves is not answered, and its template is made even so. */
	fake_client_close(&second);
	(void)fake_audit_take();
	house->fake->spawner_waits = false;
	fake_service_run(house->fake);
	fake_client_hears(&house->admin, MADE("a", ""));
	assert_true(is_there(house, "templates/one/a") && is_there(house, "templates/one/b"));
	is_audited(house,
		ACT("template.import", "a", "done") "\n*"
						    "\"act\":\"template.import\",\"target\":\"b\","
						    "\"outcome\":\"done\"");
	assert_null(fake_spawner_asked(spawner));
}

/* A list has a bound, and counts what it leaves out. */
TEST(test_a_long_list)
{
	enum { MANY = LIMIT_CONTROL_LIST_BYTES / LIMIT_CONTROL_ENTRY_BYTES + 7 };
	struct house *house = *state;
	char path[64];

	assert_int_equal(mkdirat(house->fake->scratch.fd, "templates/two", 0700), 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "templates/two/t%d", i);
		assert_int_equal(mkdirat(house->fake->scratch.fd, path, 0700), 0);
	}
	/* A copy that is not finished is none. */
	assert_int_equal(mkdirat(house->fake->scratch.fd, "templates/two/.unfinished-1", 0700), 0);
	fake_client_says(&house->observer, LIST("{}"),
		RESULT("1", "{\"templates\":[*],\"templates_omitted\":7}"));
}
