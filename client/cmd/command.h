/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the parts of the `cloister` command: the decoded command line, the table entry of a
 * subcommand, and the exit statuses.
 */

#include "client/complain.h"
#include "client/help.h"
#include "common/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct json_object;

enum {
	STATUS_OK = 0,
	STATUS_TOOL_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_NO_SERVICE = 3, /* no service, or it refused */
	STATUS_DEADLINE = 124, /* for exec, as timeout(1) */
	STATUS_OWN_FAILURE = 125,
	STATUS_SIGNAL_BASE = 128, /* plus the signal's number, as sh(1) */
};

struct invocation {
	const char *workspace;       /* --workspace, or NULL */
	const char *socket_path;     /* --socket, or NULL */
	const char *format;          /* tools --format, or NULL */
	int64_t timeout_ms;          /* --timeout, 0: not given */
	struct json_object *options; /* call --option, exec --env: tool.call's options */
	bool help;                   /* --help, -h */
	bool private_only;           /* --private */
	bool use_stdin;              /* exec --stdin */
	bool no_stdin;               /* exec --no-stdin */
	bool blocked_list;           /* exec --blocked-list */
	bool limits;                 /* tools --limits */
	bool json;                   /* --json */
	bool preview;                /* --preview, of exec and run */
	bool rootfs;                 /* --rootfs */
	bool create;                 /* --create */
	const char *readonly_paths[LIMIT_READONLY_PATHS + 1]; /* --readonly-path, ended by NULL */
	const char *allow_net[LIMIT_ALLOW_NET + 1];           /* --allow-net, ended by NULL */
	const char *allow_private_net[LIMIT_ALLOW_NET + 1];   /* --allow-private-net, likewise */
	bool overwrite;                                       /* put --overwrite */
	bool any_links;                                       /* get --any-links */
	uint64_t max_size;                                    /* get --max-size, 0: not given */
	uint64_t max_files;                                   /* get --max-files, likewise */
	int64_t idle_ms;      /* put and get --idle-timeout, likewise */
	int64_t after;        /* session --after */
	int port;             /* session --port, 0: not given */
	const char *contains; /* session --contains, or NULL */
	const char *tools;    /* mcp and harness --tools, or NULL */
	bool text;            /* mcp --text */
	bool eof;             /* session --eof */
	bool recursive;       /* watch --recursive */
	bool all;             /* edit --all */
	const char *expect;   /* edit --expect, or NULL */
	const char *patch;    /* edit --patch, or NULL */
	int64_t since;        /* diff --since, 0: not given */
	bool as_patch;        /* diff --patch */
	int argc;             /* operands, after the subcommand and its options */
	char **argv;

	struct json_object *properties; /* workspace and fork: --label, --lease and so on */
	const char *state;              /* workspace --state, or NULL */
};

/* What models are offered by mcp in a private instance, and how a command line has fewer. */
#define MODELS_TOOLS "basic edit patch sessions"
#define TOOLS_OPTION                                                                  \
	{                                                                             \
		"tools", "LIST", 'L', "the tools: of basic, edit, patch and sessions" \
	}

struct command {
	struct command_help help;
	int least, most;       /* operands */
	bool stops_at_operand; /* words after the first operand are not options of cloister */
	int usage_status;      /* the exit status for a wrong command line; 0: STATUS_USAGE */
	int (*run)(const struct invocation *invocation);
};

extern const struct program cloister_program;
extern const struct command command_tools;
extern const struct command command_call;
extern const struct command command_edit;
extern const struct command command_exec;
extern const struct command command_run;
extern const struct command command_shell;
extern const struct command command_mcp;
extern const struct command command_forward;
extern const struct command command_watch;
extern const struct command command_gate;
extern const struct command command_session;
extern const struct command command_harness;
extern const struct command command_put;
extern const struct command command_get;
extern const struct command command_export;
extern const struct command command_import;
extern const struct command command_workspace;
extern const struct command command_checkpoint;
extern const struct command command_checkpoints;
extern const struct command command_diff;
extern const struct command command_rollback;
extern const struct command command_freeze;
extern const struct command command_fork;
extern const struct command command_template;
