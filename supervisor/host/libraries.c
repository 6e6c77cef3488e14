// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, once, at the start. Each check calls the library as cloisterd does and
 * compares the result. A check of the version would show what the library's authors intended, and
 * not what a distribution's build does.
 */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "supervisor/host/libraries.h"

#include "common/chain/audit_chain.h"
#include "common/cleanup.h"
#include "common/config/config_reader.h"
#include "supervisor/base/watch.h"

#include <errno.h>
#include <json-c/json.h>
#include <pcre2.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* json-c prints cloisterd's answers, and clients' tests compare them byte by byte. */
static bool json_prints_as_ever(void)
{
	static const char bytes[] = "\1\"\\\n/\xc3\xa9\0x";
	struct json_object *numbers = json_object_new_array(), *all = json_object_new_object();
	bool holds;

	json_object_array_add(numbers, json_object_new_int64(INT64_MIN));
	json_object_array_add(numbers, json_object_new_uint64(UINT64_MAX));
	json_object_array_add(numbers, json_object_new_double_s(1e5, "1.00E+5"));
	json_object_object_add(
		all, "a/b", json_object_new_string_len(bytes, (int)sizeof(bytes) - 1));
	json_object_object_add(all, "n", numbers);
	holds = strcmp(json_object_to_json_string_ext(
			       all, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
			"{\"a/b\":\"\\u0001\\\"\\\\\\n/\xc3\xa9\\u0000x\","
			"\"n\":[-9223372036854775808,18446744073709551615,1.00E+5]}") == 0;
	json_object_put(all);
	return holds;
}

/* A pattern that takes too long must end with an error: blocked commands are matched with it. */
static bool pcre2_keeps_limits(void)
{
	static const char text[] = "aaaaaaaaaaaaaab";
	PCRE2_SIZE offset;
	int error, r = 0;
	pcre2_code *code = pcre2_compile((PCRE2_SPTR) "^(a+)+$", PCRE2_ZERO_TERMINATED,
		PCRE2_NEVER_UTF, &error, &offset, NULL);
	pcre2_match_data *data = code ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
	pcre2_match_context *context = pcre2_match_context_create(NULL);

	if (data && context && pcre2_set_match_limit(context, 1000) == 0)
		r = pcre2_match(
			code, (PCRE2_SPTR)text, sizeof(text) - 1, 0, PCRE2_NO_JIT, data, context);
	pcre2_match_context_free(context);
	pcre2_match_data_free(data);
	pcre2_code_free(code);
	return r == PCRE2_ERROR_MATCHLIMIT;
}

/* Any other SHA-256 must be able to check the audit log. FIPS 180-4 has the digest of "abc". */
static bool nettle_hashes(void)
{
	struct audit_digest *digest = audit_digest_new();
	char hex[AUDIT_HASH_DIGITS + 1];

	if (!digest)
		return false;
	audit_digest_add(digest, TEXT_LITERAL("abc"));
	audit_digest_end(digest, hex);
	return strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0;
}

static void on_file(struct config_reader *reader)
{
	(void)reader;
}

static void on_section(struct config_reader *reader, const char *name)
{
	*(bool *)reader->context = name && strcmp(name, "tenant a") == 0;
}

static void on_setting(struct config_reader *reader, const char *name, const char *value)
{
	static const char *const values[] = {"1 ; 2", "3"};
	bool *holds = reader->context;

	*holds = *holds && reader->line >= 2 && reader->line <= 3 && strcmp(name, "key") == 0 &&
		 strcmp(value, values[reader->line - 2]) == 0;
	if (reader->line == 3)
		reader->mistakes++;
}

/* A distribution may build inih with other options, such as for lines that continue. */
static bool inih_reads_lines(void)
{
	static const struct config_handler handler = {on_file, on_section, on_setting};
	bool holds = false;
	struct config_reader reader = {.handler = &handler, .context = &holds};

	if (config_file_read(&reader, TEXT_LITERAL("[tenant a]\nkey = 1 ; 2\n  3\n")) < 0)
		return false;
	return holds && reader.mistakes == 1;
}

/* The header numbers calls that an architecture lacks. An older library has other numbers for
 * them. */
static bool libseccomp_is_not_older(void)
{
	const struct scmp_version *version = seccomp_version();

	return version->major > SCMP_VER_MAJOR ||
	       (version->major == SCMP_VER_MAJOR && version->minor >= SCMP_VER_MINOR);
}

static const struct {
	const char *library, *fault;
	bool (*holds)(void);
} checks[] = {
	{"json-c", "prints numbers or strings in another way", json_prints_as_ever},
	{"libevent", "does not report a descriptor that epoll(7) refuses",
		watch_learns_of_refusals},
	{"PCRE2", "does not keep the limits of a match", pcre2_keeps_limits},
	{"Nettle", "computes another SHA-256", nettle_hashes},
	{"inih", "reads the lines of a configuration in another way", inih_reads_lines},
	{"libseccomp", "is older than the one that cloister was built with",
		libseccomp_is_not_older},
};

int libraries_check(const char **ret_message)
{
	static char message[256];

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		if (checks[i].holds())
			continue;
		snprintf(message, sizeof(message),
			"the library %s that is installed here %s: install your distribution's, or "
			"build cloister with this one and run its unit tests; \"ldd %s/cloisterd\" "
			"says which file it is",
			checks[i].library, checks[i].fault, CLOISTER_SBINDIR);
		*ret_message = message;
		return -ELIBBAD;
	}
	return 0;
}
