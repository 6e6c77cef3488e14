// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterctl, perhaps as root and on another machine. The files are not trusted: it prints
 * only numbers and hashes from them.
 */
#include "client/ctl/ctl_audit.h"

#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/terminal_text.h"
#include "common/chain/audit_chain.h"
#include "common/cleanup.h"
#include "json/json_read.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The chain is intact, but its last line is incomplete. */
#define STATUS_TORN 4

struct verification {
	const char *file;
	unsigned long line;
	struct audit_chain last; /* the last complete line */
	bool any;                /* there was a complete line */
	/*
	 * Fragments between complete lines. They are harmless if the next line says how many bytes
	 * were torn and no line is missing.
	 */
	unsigned fragments;
	uint64_t torn; /* bytes in those fragments */
	const char *torn_file;
	unsigned long torn_line;
	const char *contains;
	bool found;
	uint64_t lines, wrong, torn_told, lost;
	bool json;
};

static void print_json(struct json_object *document)
{
	terminal_put_json(json_object_to_json_string_ext(
		document, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(document);
}

static void put_audit_number(struct json_object *document, const char *name, uint64_t number)
{
	json_object_object_add(document, name, json_object_new_uint64(number));
}

/* Prints a finding about a line. */
static void say(const struct verification *run, const char *file, unsigned long line,
	bool is_mistake, const char *what)
{
	struct json_object *document;

	if (!run->json) {
		printf("%s:%lu: %s\n", file, line, what);
		return;
	}
	document = json_object_new_object();
	json_object_object_add(document, "file", json_object_new_string(file));
	put_audit_number(document, "line", line);
	json_object_object_add(document, "mistake", json_object_new_boolean(is_mistake));
	json_object_object_add(document, "message", json_object_new_string(what));
	print_json(document);
}

static void wrong(struct verification *run, const char *file, unsigned long line, const char *what)
{
	run->wrong++;
	say(run, file, line, true, what);
}

/* Reads a number from a line whose hash is right. Its other members may be anything. */
static uint64_t number_in(struct json_object *object, const char *name)
{
	return json_object_get_uint64(field(object, name));
}

static void torn_is_over(struct verification *run, uint64_t told)
{
	char what[128];

	if (run->fragments == 0 && told == 0)
		return;
	if (told > 0 && run->torn == told) {
		run->torn_told++;
		snprintf(what, sizeof(what),
			"%" PRIu64 " bytes of an unfinished line; the next line accounts for it",
			told);
		say(run, run->torn_file, run->torn_line, false, what);
	} else if (run->fragments > 0) {
		wrong(run, run->torn_file, run->torn_line,
			"not a line of an audit log: it was changed or added");
	} else {
		wrong(run, run->file, run->line, "mentions an unfinished line, which is missing");
	}
	run->torn = 0;
	run->fragments = 0;
}

/* Checks that @link follows the last complete line. */
static void check_place(struct verification *run, const struct audit_link *link, bool new_chain)
{
	bool follows =
		strcmp(link->prev, run->last.hash) == 0 && link->self.seq == run->last.seq + 1;
	char what[160];

	if (!run->any || follows)
		return;
	if (new_chain)
		snprintf(what, sizeof(what),
			"a new chain begins: the log cannot show what came between it and line "
			"%" PRIu64 " of the chain before",
			run->last.seq);
	else if (link->self.seq > run->last.seq + 1)
		snprintf(what, sizeof(what),
			"%" PRIu64 " lines are missing before this one (%" PRIu64 " to %" PRIu64
			")",
			link->self.seq - run->last.seq - 1, run->last.seq + 1, link->self.seq - 1);
	else if (link->self.seq == run->last.seq && strcmp(link->self.hash, run->last.hash) == 0)
		snprintf(what, sizeof(what), "a copy of the line before it (%" PRIu64 ")",
			link->self.seq);
	else if (link->self.seq <= run->last.seq)
		snprintf(what, sizeof(what),
			"out of order: line %" PRIu64 " of the chain comes after line %" PRIu64,
			link->self.seq, run->last.seq);
	else
		snprintf(what, sizeof(what),
			"does not continue the line before it: one of the two was rewritten");
	wrong(run, run->file, run->line, what);
}

static void whole_line(struct verification *run, const struct audit_link *link, const char *line)
{
	const struct json_bounds bounds = json_request_bounds(strlen(line));
	struct json_report report;
	struct json_object *object = NULL;
	char what[128];
	bool opened;

	(void)json_read(text_from(line), &bounds, &object, &report);
	opened = field_is(object, "event", "audit.opened");
	if (!json_object_is_type(object, json_type_object))
		wrong(run, run->file, run->line, "is not JSON");
	torn_is_over(run, opened ? number_in(object, "torn_bytes") : 0);
	check_place(run, link, opened && field_is(object, "chain", "new"));
	if (field_is(object, "event", "audit.lost")) {
		run->lost += number_in(object, "lines");
		snprintf(what, sizeof(what), "says that %" PRIu64 " lines could not be written",
			number_in(object, "lines"));
		say(run, run->file, run->line, false, what);
	}
	run->last = link->self;
	run->any = true;
	run->lines++;
	run->found |= run->contains && strcmp(run->contains, link->self.hash) == 0;
	json_object_put(object);
}

/* A line that lacks only its newline is complete. */
static void check_line(struct verification *run, const char *line, size_t len, bool ended)
{
	struct audit_link link;
	int r = audit_link_read((struct text){line, len}, &link);

	run->line++;
	if (r == 0) {
		whole_line(run, &link, line);
		return;
	}
	if (r == -EILSEQ && ended) {
		torn_is_over(run, 0);
		wrong(run, run->file, run->line, "changed: its hash does not match its content");
		/*
		 * Go on from the position that the line claims, so that one change is reported
		 * once.
		 */
		run->last = link.self;
		run->any = true;
		return;
	}
	if (run->fragments == 0) {
		run->torn_file = run->file;
		run->torn_line = run->line;
	}
	run->torn += len + (run->fragments > 0);
	run->fragments++;
}

static int check_file(struct verification *run, const char *path)
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int r;

	run->file = path;
	run->line = 0;
	if (!file) {
		complain("%s: %s", path, strerror(errno));
		return -EIO;
	}
	errno = 0;
	while ((len = getline(&line, &size, file)) >= 0) {
		bool ended = len > 0 && line[len - 1] == '\n';

		if (ended)
			line[--len] = '\0';
		check_line(run, line, (size_t)len, ended);
	}
	r = ferror(file) || !feof(file) ? -EIO : 0;
	if (r < 0)
		complain("%s: %s", path, strerror(errno));
	free(line);
	if (file != stdin)
		fclose(file);
	return r;
}

static void print_sum(const struct verification *run)
{
	struct json_object *document;

	if (!run->json) {
		printf("%" PRIu64 " lines, %" PRIu64 " mistakes, %" PRIu64
		       " torn lines accounted for, %" PRIu64
		       " lines lost by its own account; last line %" PRIu64 ", hash %s\n",
			run->lines, run->wrong, run->torn_told, run->lost, run->last.seq,
			run->last.hash);
		return;
	}
	document = json_object_new_object();
	put_audit_number(document, "lines", run->lines);
	put_audit_number(document, "mistakes", run->wrong);
	put_audit_number(document, "torn", run->torn_told);
	put_audit_number(document, "lost", run->lost);
	put_audit_number(document, "last_line", run->last.seq);
	json_object_object_add(document, "hash", json_object_new_string(run->last.hash));
	json_object_object_add(
		document, "last_line_torn", json_object_new_boolean(run->fragments > 0));
	print_json(document);
}

static int conclude(struct verification *run)
{
	bool torn = run->fragments > 0;
	char what[128];

	if (torn) {
		snprintf(what, sizeof(what),
			"the last line is unfinished: %" PRIu64 " bytes of it exist", run->torn);
		say(run, run->torn_file, run->torn_line, false, what);
	}
	if (run->contains && !run->found) {
		run->wrong++;
		if (run->json)
			complain_code("NOT_FOUND", "no line has the hash %s", run->contains);
		else
			printf("no line has the hash %s\n", run->contains);
	}
	print_sum(run);
	if (run->wrong > 0)
		return STATUS_TOOL_FAILED;
	return torn ? STATUS_TORN : STATUS_OK;
}

int audit_verify(int argc, char **argv, const char *contains, bool json)
{
	struct verification run = {.contains = contains, .last = audit_chain_new(), .json = json};

	for (int i = 0; i < argc; i++)
		if (check_file(&run, argv[i]) < 0)
			return STATUS_NO_SERVICE;
	if (run.lines == 0 && run.wrong == 0 && run.fragments == 0 && !json)
		puts("the files are empty");
	return conclude(&run);
}
