/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The result of a tool call. A failure of a tool is an observation, not a protocol error.
 */

#include "common/tools.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/result/ended_by.h"

struct key_result;
struct evbuffer;
struct network_use;
struct notes;
struct shown;

/* Everything is borrowed while observation_write() runs. */
struct observation {
	struct text tool; /* as the caller named it */
	enum tool_error error;
	struct text message;       /* for a failure; empty: the code's own sentence */
	int64_t retry_after_ms;    /* for a failure: when to try again; 0: not given */
	const char *node;          /* with MOVED: the host to go to; otherwise NULL */
	const struct notes *notes; /* about the arguments; NULL: none */
	uint64_t offered;          /* the set of tools that the client is offered (enum tool_set) */
	const struct tool_args *args; /* NULL if they could not be decoded */
	uint64_t wall_us;
	uint64_t disk_bytes,
		disk_limit; /* of the workspace, for a call that wrote; limit 0: none */
	/* For a file tool that succeeded. */
	const struct files_end *files;
	struct evbuffer *
		/*
		 * JSON: the content as a string, or the array of entries or matches; it is emptied
		 */
		items;
	const char *encoding; /* of the content */
	/* What the reader is shown of it; NULL: everything, and the next five members are not
	 * set. */
	const struct shown *shown;
	struct evbuffer *text; /* the items once more as plain text, see model_text.h; emptied */
	uint64_t total;        /* entries or matches that came, shown or not */
	const struct files_totals *totals; /* of workspace.diff; otherwise NULL */
	bool cut;                          /* there are lines that are not shown */
	bool lines_cut;                    /* of some lines only the beginning is shown */
	bool more;                         /* even more entries or matches exist */
	struct evbuffer *image; /* JSON: the base64 of the image as a string; NULL: none; emptied */
	struct evbuffer *data;  /* JSON: why an edit was not made; NULL: nothing; emptied */
	struct evbuffer *diff;  /* JSON: the changes of a preview; NULL: it is none; emptied */
	/* For a command that has run. */
	struct command_io *io;
	const struct command_ended *command; /* NULL: its report was lost */
	const struct network_use *network;   /* NULL: its workspace has no network */
	enum ended_by ended_by;
	bool apart;          /* its output is read apart, and only counted here: of a session */
	const char *session; /* it goes on as this session; NULL: it has ended */
	const char *session_name; /* NULL: that has none */
	bool base64;
	/* For a call with a key. */
	int64_t key_horizon_ms;        /* how long its result is kept; 0: it has none */
	const struct key_result *kept; /* the result of another call, and nothing else is set */
	bool replayed;
	bool resolved; /* the call was found done; nothing was run */
	bool made;     /* it has changed files: it must not be answered BUSY */
};

/* The sentence that replaces the result of a change if the result finds no room. */
#define OBSERVATION_UNTOLD "The change was made, but there is no room to tell its result; look"

/**
 * Whether @observation has a result: that of a command that was ended is kept; a file call that
 * failed has none.
 */
static inline bool observation_has_output(const struct observation *observation)
{
	return observation->io || observation->error == TOOL_OK;
}

/** How a command ended by itself: "SIGKILL", in @buffer; NULL if no signal ended it. */
const char *observation_signal(const struct observation *observation, char *buffer, size_t size);
/** Returns whether a command exited, and its exit code. */
bool observation_exit(const struct observation *observation, int *ret_code);

/** Returns the sentence of a failure. */
struct text observation_message(const struct observation *observation);

#define OBSERVATION_ENDING_SIZE 768
/**
 * Writes "exit 1 after 3.2 s", "ended by SIGSEGV", "stopped after 2 min" or, where a limit ended
 * it, the error's code and sentence. Returns @buffer, of @size bytes.
 */
const char *observation_ending(const struct observation *observation, char *buffer, size_t size);
