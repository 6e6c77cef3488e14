// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. A model wrote the names. */
#include "supervisor/call/request/args_alias.h"

#include "common/near_name.h"

#include <assert.h>

#define FOLDED_SIZE 40 /* longer than every alias */

#define FILE_NAMES "filepath filename pathname targetfile targetfilepath relativepath absolutepath"
#define COMMAND_NAMES                                                                      \
	"session sessionid sessionname id commandid commandname bashid shellid processid " \
	"processname jobid taskid label"
#define DIRECTORY_NAMES \
	"directory directorypath dir dirpath dirname folder folderpath targetdirectory"

/*
 * For each parameter, in the order of the tools' table: names that can only mean it, and names that
 * probably mean it ("timeout" may be in seconds, "offset" may count from 0). The latter are
 * refused, with a message that gives the parameter's name. All are written without capitals, "_"
 * and "-".
 */
static const struct alias {
	const char *param;
	const char *names;
	const char *likely;
} aliases[TOOL_COUNT][TOOL_PARAMS_MAX] = {
	[TOOL_READ_FILE] =
		{
			{"path", FILE_NAMES, "file"},
			{"start_line",
				"start linestart fromline firstline beginline startlinenumber "
				"startlineoneindexed",
				"offset line from"},
			{"end_line",
				"end lineend toline lastline stopline endlinenumber "
				"endlineinclusive endlineoneindexedinclusive",
				"to"},
		},
	[TOOL_WRITE_FILE] =
		{
			{"path", FILE_NAMES, "file"},
			{"content",
				"contents text filecontent filecontents filetext newcontent "
				"filecontentstr",
				"data body code string"},
			{"create_dirs",
				"createdirectories createdirectory createdir createparents "
				"makedirs mkdirs createparentdirs createparentdirectories",
				"mkdir parents"},
			{"expect", "expectedversion expectversion", "version ifmatch"},
		},
	[TOOL_LIST_DIRECTORY] =
		{
			{"path",
				DIRECTORY_NAMES " pathname relativepath absolutepath "
						"relativeworkspacepath filepath",
				"root cwd"},
			{"recursive", "recurse isrecursive", "depth maxdepth"},
			{"pattern", "glob globpattern filepattern", "filter include"},
		},
	[TOOL_RUN_COMMAND] =
		{
			{"command", "cmd commandline shellcommand bashcommand cmdline",
				"script code"},
			{"timeout_ms", "timeoutmilliseconds timeoutmillis timeoutmsec timeoutinms",
				"timeout timeoutseconds timeoutsec"},
			{"background", "runinbackground inbackground isbackground detach detached",
				"async daemon bg"},
			{"name", "sessionname commandname processname label",
				"id session sessionid title"},
		},
	[TOOL_SEARCH_FILES] =
		{
			{"pattern",
				"query regex regexp regexpattern searchpattern searchquery "
				"searchterm searchstring searchregex",
				"text search term keyword string"},
			{"path", DIRECTORY_NAMES " " FILE_NAMES " searchpath searchdirectory",
				"root cwd"},
			{"file_pattern",
				"glob globpattern fileglob filesglob include includepattern "
				"filenamepattern",
				"file files type filetype"},
			{"max_results", "maxmatches maxcount resultlimit maxnumresults headlimit",
				"count max n"},
			{"context", "contextlines linesofcontext", "around before after"},
			{"offset", "skip", "from start"},
			{"limit", "", ""},
		},
	[TOOL_EDIT_FILE] =
		{
			{"path", FILE_NAMES, "file"},
			{"edits", "editlist editoperations",
				"edit changes replacements operations"},
			{"expect", "expectedversion expectversion", "version ifmatch"},
		},
	[TOOL_APPLY_PATCH] =
		{
			{"patch", "patchtext input patchinput patchcontent", "diff content"},
		},
	[TOOL_READ_OUTPUT] =
		{
			{"name", COMMAND_NAMES, "command pid"},
			{"wait_for", "waitfortext waituntil untiltext",
				"until pattern contains text"},
			{"wait_ms", "timeoutms waittimems maxwaitms yieldtimems", "timeout wait"},
			{"after", "cursor since afterbyte", "offset from start next"},
		},
	[TOOL_SEND_INPUT] =
		{
			{"name", COMMAND_NAMES, "command pid"},
			{"input", "text data chars stdin inputtext", "content line message keys"},
			{"newline", "enter pressenter appendnewline addnewline", "submit"},
			{"eof", "closestdin closeinput endinput", "close end"},
		},
	[TOOL_STOP_COMMAND] =
		{
			{"name", COMMAND_NAMES, "command pid"},
		},
	[TOOL_LIST_COMMANDS] = {{0}},
};

/* Writes @name without capitals, "_" and "-". Returns false if it is too long for an alias. */
static bool fold(const char *name, char *folded)
{
	size_t len = 0;

	for (; *name; name++) {
		if (*name == '_' || *name == '-')
			continue;
		if (len == FOLDED_SIZE - 1)
			return false;
		folded[len++] = *name >= 'A' && *name <= 'Z' ? (char)(*name | 0x20) : *name;
	}
	folded[len] = '\0';
	return len > 0;
}

static bool has_word(const char *words, struct text word)
{
	struct text rest = text_from(words);

	while (rest.len > 0)
		if (text_equal(text_take(&rest, ' '), word))
			return true;
	return false;
}

static const struct tool_param *find(const struct tool *tool, const char *name, bool likely)
{
	char folded[FOLDED_SIZE], own[FOLDED_SIZE];

	if (!fold(name, folded))
		return NULL;
	for (size_t i = 0; i < tool_param_count(tool); i++) {
		const struct alias *alias = &aliases[tool->id][i];
		const struct tool_param *param = &tool->params[i];

		assert(strcmp(alias->param, param->name) == 0);
		if ((fold(param->name, own) && strcmp(own, folded) == 0) ||
			has_word(likely ? alias->likely : alias->names, text_from(folded)))
			return param;
	}
	return NULL;
}

const struct tool_param *args_alias(const struct tool *tool, const char *name)
{
	return find(tool, name, false);
}

bool args_is_directory(const char *name)
{
	char folded[FOLDED_SIZE];

	return fold(name, folded) &&
	       has_word("cwd workdir workingdir workingdirectory currentdirectory directory dir",
		       text_from(folded));
}

const struct tool_param *args_nearest(const struct tool *tool, const char *name)
{
	const struct tool_param *nearest = find(tool, name, true);
	unsigned least = NEAR_NAME_FAR;

	if (nearest)
		return nearest;
	for (size_t i = 0; i < tool_param_count(tool); i++) {
		const struct tool_param *param = &tool->params[i];
		unsigned distance = near_name_distance(text_from(name), text_from(param->name));

		if (distance < least) {
			least = distance;
			nearest = param;
		}
	}
	return nearest;
}
