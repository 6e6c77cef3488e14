/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Every bound that a client, a model or a workspace can drive cloister against, by name. Reaching one is
 * answered with a typed error, never with a crash or a silent cut.
 */

#define KIB (1024ULL)
#define MIB (1024ULL * 1024ULL)
#define GIB (1024ULL * 1024ULL * 1024ULL)

/* Agent socket (supervisor/agent_conn.c, supervisor/jsonrpc.c). */
#define LIMIT_LINE_BYTES	      (32 * MIB) /* one JSON-RPC message */
#define LIMIT_JSON_DEPTH	      32
#define LIMIT_CONNECTIONS	      512
#define LIMIT_CALLS_PER_CONNECTION    256
#define LIMIT_OUTPUT_PENDING_BYTES    (4 * MIB) /* unread answers of a connection: stop reading it */
#define LIMIT_WORKSPACES	      4096
#define LIMIT_COMMANDS_PER_WORKSPACE  64

/* Tool arguments (common/tools.c, common/path_rules.c). */
#define LIMIT_PATH_BYTES	      4096 /* PATH_MAX, path_resolution(7) */
#define LIMIT_NAME_BYTES	      255  /* NAME_MAX */
#define LIMIT_PATTERN_BYTES	      8192
#define LIMIT_COMMAND_BYTES	      131071 /* MAX_ARG_STRLEN less its NUL, execve(2) */
#define LIMIT_CONTENT_BYTES	      (16 * MIB)
#define LIMIT_SYMLINKS		      40 /* path_resolution(7) */

/* Tool results. */
#define LIMIT_READ_BYTES	      (1 * MIB) /* content of one read_file */
#define LIMIT_BINARY_PROBE_BYTES      (8 * KIB) /* a NUL in here makes a file binary */
#define LIMIT_LIST_ENTRIES	      10000
#define LIMIT_SEARCH_RESULTS	      50
#define LIMIT_SEARCH_LINE_BYTES	      2000 /* text of one match, longer lines are cut around it */
#define LIMIT_SEARCH_FILE_BYTES	      (64 * MIB)
#define LIMIT_STREAM_KEPT_BYTES	      (256 * KIB) /* of stdout, and of stderr: head and tail */
#define LIMIT_STREAM_TOTAL_BYTES      (64 * MIB)  /* past it the command ends as output_limit */
#define LIMIT_STDIN_BYTES	      (16 * MIB)

/* Time, in milliseconds. */
#define LIMIT_FILE_CALL_MS	      30000
#define LIMIT_COMMAND_MS	      30000   /* default of run_command's timeout_ms */
#define LIMIT_COMMAND_MAX_MS	      3600000 /* the longest that may be asked for */
#define LIMIT_TERM_GRACE_MS	      5000    /* from SIGTERM to SIGKILL */
#define LIMIT_KILL_REPORT_MS	      5000    /* from SIGKILL to the report of the end */
#define LIMIT_WORKSPACE_OPEN_MS	      10000

/* What a workspace may use (worker/commands/worker_setup.c), setrlimit(2), tmpfs(5). */
#define LIMIT_TMP_BYTES		      (1 * GIB)
#define LIMIT_TMP_INODES	      200000
#define LIMIT_PROCESSES		      1024
#define LIMIT_OPEN_FILES	      4096
#define LIMIT_FILE_SIZE_BYTES	      (16 * GIB)
#define LIMIT_DATA_BYTES	      (8 * GIB)
