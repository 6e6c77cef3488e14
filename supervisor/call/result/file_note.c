// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/call/result/file_note.h"

#include "common/cleanup.h"
#include "common/image_types.h"
#include "common/limits.h"
#include "supervisor/call/request/args_decode.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/result/shown.h"

#include <inttypes.h>
#include <stdio.h>

/* Commands that read files of a type. The first row whose type is a prefix of the file's type
 * applies. */
static const struct {
	const char *type, *reader;
} readers[] = {
	{"application/pdf", "pdftotext -layout FILE - prints its text"},
	{"application/zip", "unzip -l FILE lists it and unzip -p FILE MEMBER prints a member; "
			    "office documents, .jar and .whl files are such archives"},
	{"application/gzip", "zcat FILE prints what it holds; for .tar.gz: tar -tzf FILE"},
	{"application/x-bzip2", "bzcat FILE prints what it holds"},
	{"application/x-xz", "xzcat FILE prints what it holds"},
	{"application/zstd", "zstdcat FILE prints what it holds"},
	{"application/x-7z-compressed", "7z l FILE lists it"},
	{"application/x-tar", "tar -tvf FILE lists it"},
	{"application/x-elf", "file, readelf -a, objdump -d or strings show parts of it"},
	{"application/vnd.sqlite3", "sqlite3 FILE .schema shows its tables"},
	{"application/wasm", "wasm-objdump -x FILE shows its parts"},
	{"application/java-vm", "javap -c FILE disassembles it"},
	{"text/plain; charset=utf-16le",
		"iconv -f UTF-16LE -t UTF-8 FILE prints it; to edit it, write that to a new file"},
	{"text/plain; charset=utf-16be",
		"iconv -f UTF-16BE -t UTF-8 FILE prints it; to edit it, write that to a new file"},
	{"text/plain; charset=utf-16",
		"iconv -f UTF-16 -t UTF-8 FILE prints it; to edit it, write that to a new file"},
	{"image/", "file FILE says its dimensions"},
	{"audio/", "ffprobe FILE describes it"},
	{"video/", "ffprobe FILE describes it"},
	{"font/", "fc-scan FILE describes it"},
	{"", "file FILE and xxd FILE | head -n 20 tell more"},
};

static size_t binary_note(const struct observation *observation, char *buffer, size_t size)
{
	struct text type = observation->files->type;
	const bool image = image_type_is_shown(type);
	size_t i = 0;

	if (image && observation->image)
		return 0;
	while (strlen(readers[i].type) > type.len ||
		memcmp(readers[i].type, type.data, strlen(readers[i].type)) != 0)
		i++;
	return (size_t)snprintf(buffer, size, "Not %s: with run_command, %s%s",
		strncmp(readers[i].type, "text/", 5) == 0 ? "UTF-8" : "text", readers[i].reader,
		image && observation->shown && observation->shown->images
			? "; read_file shows an image of at most 1 MiB, so make a smaller copy of "
			  "it"
			: "");
}

static size_t read_note(const struct observation *observation, char *buffer, size_t size)
{
	const struct files_end *end = observation->files;
	uint64_t first =
		observation->args->start_line > 0 ? (uint64_t)observation->args->start_line : 1;
	uint64_t next = first + end->lines, last = (uint64_t)observation->args->end_line;
	size_t len = 0;

	if (observation->cut && (last == 0 || last > end->total_lines))
		last = end->total_lines;
	if (observation->cut && last == next)
		len = (size_t)snprintf(buffer, size,
			"Line %" PRIu64 " is not shown; read_file with start_line=%" PRIu64
			" shows it",
			next, next);
	else if (observation->cut && last > 0)
		len = (size_t)snprintf(buffer, size,
			"Lines %" PRIu64 " to %" PRIu64 " are not shown; "
			"read_file with start_line=%" PRIu64 " shows the next ones",
			next, last, next);
	else if (observation->cut)
		len = (size_t)snprintf(buffer, size,
			"There are more lines; read_file with start_line=%" PRIu64 " shows them",
			next);
	if (observation->lines_cut)
		len += (size_t)snprintf(buffer + len, size - len,
			"%sLong lines are cut after %" PRIu64 " bytes; run_command with "
			"sed -n LINEp FILE | cut -c FROM-TO shows more of one",
			len > 0 ? ". " : "", observation->shown->line);
	return len;
}

/* Writes how many entries git ignores, and @how they are seen, after @len bytes. */
static size_t ignored_note(const struct observation *observation, const char *how, size_t len,
	char *buffer, size_t size)
{
	const uint64_t ignored = observation->files->ignored;
	char number[SHOWN_NUMBER_SIZE];

	if (ignored == 0)
		return len;
	return len + (size_t)snprintf(buffer + len, size - len,
			     "%s.gitignore hides %s file%s or director%s here; %s",
			     len > 0 ? ". " : "", shown_number(ignored, number),
			     ignored == 1 ? "" : "s", ignored == 1 ? "y" : "ies", how);
}

static size_t list_note(const struct observation *observation, char *buffer, size_t size)
{
	uint64_t left = observation->total - observation->files->count;
	char number[SHOWN_NUMBER_SIZE];
	size_t len = 0;

	if (observation->files->truncated)
		len = (size_t)snprintf(buffer, size,
			"%s%s more entries are not shown; list a directory below, or give a "
			"pattern",
			observation->more ? "At least " : "",
			shown_number(left > 0 ? left : 1, number));
	return ignored_note(observation, "run_command with ls -A shows them", len, buffer, size);
}

static size_t search_note(const struct observation *observation, char *buffer, size_t size)
{
	uint64_t left = observation->total - observation->files->count;
	char number[SHOWN_NUMBER_SIZE];
	char next[64] = "";
	size_t len = 0;

	if (observation->offered & TOOLS_EDIT)
		snprintf(next, sizeof(next), ", or give offset=%" PRIu64 " for the next ones",
			(uint64_t)observation->args->offset + observation->files->count);
	if (observation->files->truncated)
		len = (size_t)snprintf(buffer, size,
			"%s%s more matches are not shown; narrow pattern, path or file_pattern%s",
			observation->more || left == 0 ? "At least " : "",
			shown_number(left > 0 ? left : 1, number), next);
	if (observation->files->files_utf16 > 0)
		len += (size_t)snprintf(buffer + len, size - len,
			"%s%s of the skipped files %s text in UTF-16; run_command with iconv -f "
			"UTF-16 -t UTF-8 FILE | grep -n searches one",
			len > 0 ? ". " : "", shown_number(observation->files->files_utf16, number),
			observation->files->files_utf16 == 1 ? "is" : "are");
	return ignored_note(observation,
		"search_files with the path of one, or run_command with grep -rn, searches them",
		len, buffer, size);
}

const char *file_note(const struct observation *observation, char *buffer, size_t size)
{
	static size_t (*const notes[TOOL_COUNT])(const struct observation *, char *, size_t) = {
		[TOOL_READ_FILE] = read_note,
		[TOOL_LIST_DIRECTORY] = list_note,
		[TOOL_SEARCH_FILES] = search_note,
	};
	const struct tool *tool = tool_by_name(observation->tool);

	buffer[0] = '\0';
	if (!tool || !notes[tool->id] || !observation->shown || !observation->files)
		return buffer;
	if (observation->files->binary)
		binary_note(observation, buffer, size);
	else
		notes[tool->id](observation, buffer, size);
	return buffer;
}
