// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. No text of a workspace gets into a note. */
#include "supervisor/call/result/command_notes.h"

#include "common/cleanup.h"
#include "common/tools.h"
#include "common/wire/wire_commands.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/config/tenant.h"

#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#define END_BYTES 2048 /* how much of the end of a stream is looked at */

/* The end of a stream. */
struct end {
	char bytes[END_BYTES];
	size_t len;
};

static void take_end(struct end *end, struct text piece)
{
	size_t n = piece.len < END_BYTES - end->len ? piece.len : END_BYTES - end->len;

	end->len += n;
	if (n > 0)
		memcpy(end->bytes + END_BYTES - end->len, piece.data + piece.len - n, n);
}

/* Returns the last bytes of a stream, in @end. */
static struct text end_of(struct end *end, const struct stream_capture *capture)
{
	struct stream_pieces pieces = stream_capture_pieces(capture);

	end->len = 0;
	take_end(end, pieces.tail[1]);
	take_end(end, pieces.tail[0]);
	take_end(end, pieces.head);
	return (struct text){end->bytes + END_BYTES - end->len, end->len};
}

/* What programs write when they find no terminal, or the end of their input in place of an answer.
 */
static bool says_so(struct text end)
{
	static const char *const sentences[] = {
		"EOF when reading a line", /* input() of Python */
		"/dev/tty: No such device or address", "/dev/tty: Device not configured",
		"not a terminal", "not from a terminal", "not a tty", "not a TTY",
		"terminal is required", "Terminal is dumb, but EDITOR unset",
		"terminal prompts disabled", /* git that would ask for a name or a password */
		"ERR_USE_AFTER_CLOSE",       /* readline of Node.js */
	};

	for (size_t i = 0; i < ARRAY_SIZE(sentences); i++)
		if (end.len > 0 && memmem(end.data, end.len, sentences[i], strlen(sentences[i])))
			return true;
	return false;
}

/* Whether the output ends in a line that has no end and looks like a question. */
static bool is_question(struct text end)
{
	while (end.len > 0 && end.data[end.len - 1] == ' ')
		end.len--;
	return end.len > 0 && strchr(":?>])", end.data[end.len - 1]);
}

/* ssh, for one, mentions a terminal before it fails for want of a network. */
static bool wanted_input(const struct observation *observation)
{
	const bool may_say = !observation->command->network_tried;
	struct text text;
	struct end end;

	text = end_of(&end, command_io_capture(observation->io, COMMAND_STREAM_STDERR));
	if (may_say && says_so(text))
		return true;
	text = end_of(&end, command_io_capture(observation->io, COMMAND_STREAM_STDOUT));
	return (may_say && says_so(text)) || is_question(text);
}

/* What programs write when inotify watches are used up, for which the kernel says ENOSPC. */
#define NO_WATCHES "inotify watch limit", "number of file watchers", "inotify_add_watch"

/* After "the workspace's" and their number. */
static const char watches_note[] =
	"inotify watches (watches of the tenant) are used up: watch fewer files (not "
	"node_modules), or poll: CHOKIDAR_USEPOLLING=true, WATCHPACK_POLLING=true";

/*
 * What programs write when something is different here from what they expect, and what to do then.
 */
static const struct hint {
	const char *said[4];
	const char *note;
} hints[] = {
	/* pg_ctl(1) says so also of a server that runs in a session. */
	{{"No such process", "pg_ctl: no server running", "pg_ctl: another server might"},
		"a command sees only its own processes: process ids of other commands and "
		"sessions, also those in files, name nothing here"},
	{{"No usable sandbox!"},
		"Chromium's own sandbox needs namespaces, which commands cannot make: start it "
		"with --no-sandbox; the workspace confines it"},
	{{"Invalid cross-device link", "EXDEV"},
		"since a checkpoint, older directories cannot be renamed by rename(2), which git "
		"mv and "
		"most programs use; mv copies and removes instead"},
	{{"not a git repository: /"},
		"this is a linked git worktree, and commands do not see the repository that .git "
		"leads to: open the repository itself, or show its directory by readonly_paths "
		"(cloister --readonly-path), which lets git read but not commit"},
	{{"venv/bin/python: No such file", "venv/bin/python3: No such file",
		 "bad interpreter: No such", "required file not found"},
		"an interpreter or a link such as .venv/bin/python leads to a file that commands "
		"do not "
		"see: make the environment here (python3 -m venv), or show the file's directory by "
		"readonly_paths (cloister --readonly-path)"},
	{{NO_WATCHES}, watches_note},
	{{"Cannot open netlink socket"},
		"ss cannot ask the kernel here: /proc/net/tcp, tcp6 and unix, which netstat -tln "
		"reads, have the workspace's sockets"},
	{{"/sys/devices/system/memory"},
		"commands see no memory blocks of the host: free and /proc/meminfo say how much "
		"memory there is"},
};

static bool says(struct text end, const struct hint *hint)
{
	for (size_t i = 0; i < ARRAY_SIZE(hint->said) && hint->said[i]; i++)
		if (end.len > 0 && memmem(end.data, end.len, hint->said[i], strlen(hint->said[i])))
			return true;
	return false;
}

/* A program that fails may say why on its standard output. */
static void add_hints(
	const struct tenant *tenant, const struct observation *observation, struct notes *notes)
{
	const bool failed = observation->command->wait_status != 0;
	struct end ends[COMMAND_STREAMS];
	struct text errors =
		end_of(&ends[0], command_io_capture(observation->io, COMMAND_STREAM_STDERR));
	struct text output =
		end_of(&ends[1], command_io_capture(observation->io, COMMAND_STREAM_STDOUT));

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		if (!says(errors, &hints[i]) && !(failed && says(output, &hints[i])))
			continue;
		if (hints[i].note == watches_note)
			notes_add(notes, "the workspace's %" PRIu64 " %s", tenant->limits.watches,
				hints[i].note);
		else
			notes_add(notes, "%s", hints[i].note);
	}
}

/* Whether the shell has not found the program that the command begins with, a tool that is offered.
 */
static const struct tool *tool_of_command(const struct observation *observation, uint64_t offered)
{
	struct text word = observation->args->command;
	const struct tool *tool;
	size_t len = 0;

	while (len < word.len && !strchr(" \t\n<|&;", word.data[len]))
		len++;
	tool = tool_by_name((struct text){word.data, len});
	return tool && !(tool->set & ~offered) ? tool : NULL;
}

bool command_ends_with(const struct observation *observation, const char *const *sentences)
{
	for (size_t stream = 0; stream < COMMAND_STREAMS; stream++) {
		struct end end;
		struct text text = end_of(&end, command_io_capture(observation->io, stream));

		for (size_t i = 0; sentences[i]; i++)
			if (text.len > 0 &&
				memmem(text.data, text.len, sentences[i], strlen(sentences[i])))
				return true;
	}
	return false;
}

/* Says where the room is, if a program found none. */
static void add_room_note(
	const struct tenant *tenant, const struct observation *observation, struct notes *notes)
{
	static const char *const sentences[] = {"No space left on device", "ENOSPC", NULL};
	static const char *const watches[] = {NO_WATCHES, NULL};

	if (command_ends_with(observation, sentences) && !command_ends_with(observation, watches))
		notes_add(notes,
			"%s %" PRIu64
			" MiB; the workspace has the room of its disk: put large files "
			"and caches there",
			tenant->home == TENANT_HOME_KEPT ? "/tmp has"
							 : "HOME and /tmp together have",
			(uint64_t)(tenant->limits.tmp_bytes / MIB));
}

void command_notes_add(const struct tenant *tenant, uint64_t offered,
	const struct observation *observation, bool has_input, struct notes *notes)
{
	const struct command_ended *ended = observation->command;
	const bool by_itself = ended->end == COMMAND_END_EXIT;
	const struct tool *tool;

	if (ended->network_tried && tenant->network == TENANT_NETWORK_NONE)
		notes_add(notes, "no network in this workspace: look-ups and connections fail at "
				 "once; use what "
				 "is installed or in the workspace");
	if (by_itself && ended->wait_status != 0 && !has_input && wanted_input(observation))
		notes_add(notes, "it seems to have wanted a terminal or input; there is no "
				 "terminal: use -y or "
				 "give stdin");
	if (by_itself)
		add_hints(tenant, observation, notes);
	if (by_itself && ended->wait_status != 0)
		add_room_note(tenant, observation, notes);
	if (by_itself && WIFEXITED((int)ended->wait_status) &&
		WEXITSTATUS((int)ended->wait_status) == 127 &&
		(tool = tool_of_command(observation, offered)))
		notes_add(notes, "%s is a tool, not a program: call it with %s", tool->name,
			tool->params[0].name ? tool->params[0].name : "no arguments");
	if (by_itself && ended->left_over > 0)
		notes_add(notes, "%" PRIu32 " background process%s ended with this call%s",
			ended->left_over, ended->left_over == 1 ? "" : "es",
			offered & TOOLS_SESSIONS
				? "; run_command with background=true lets one run on, without &"
				: "");
}

void command_notes_go_on(
	const struct command_io *io, struct text command, bool has_input, struct notes *notes)
{
	const struct stream_capture *out = command_io_capture(io, COMMAND_STREAM_STDOUT);
	const struct stream_capture *err = command_io_capture(io, COMMAND_STREAM_STDERR);
	static const char follows[] = "tail -f";

	/* rg(1), for one, reads its input in place of the directory when it has one. */
	if (!has_input && stream_capture_total(out) + stream_capture_total(err) == 0)
		notes_add(notes,
			"it has written nothing yet; if it waits for input, send_input gives "
			"it some, and one that should read none takes </dev/null");
	if (memmem(command.data, command.len, follows, sizeof(follows) - 1))
		notes_add(notes,
			"write_file and edit_file replace a file by a new one: tail -F goes on "
			"with it, tail -f does not");
}
