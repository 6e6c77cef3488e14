/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Every bound that a client, a model or a workspace can drive cloister against, by name. Reaching
 * one is answered with a typed error, never with a crash or a silent cut. What the configuration
 * may set has its default in supervisor/config/config_keys.c or config_defaults.h; what only tunes
 * one file stands in that file.
 */

#define KIB (1024ULL)
#define MIB (1024ULL * 1024ULL)
#define GIB (1024ULL * 1024ULL * 1024ULL)

/* Agent socket (supervisor/rpc/agent_conn.c, supervisor/rpc/jsonrpc.c). */
#define LIMIT_LINE_BYTES  (32 * MIB) /* one JSON-RPC message */
#define LIMIT_JSON_DEPTH  32
#define LIMIT_JSON_VALUES 16384 /* values in one message */
/* members of one object, because names may be chosen to collide */
#define LIMIT_JSON_MEMBERS      512
#define LIMIT_JSON_NUMBER_BYTES 256 /* digits of one number */
/* memory for one message's values beyond its length */
#define LIMIT_JSON_MEMORY_BYTES         (4 * MIB)
#define LIMIT_REQUEST_ID_BYTES          256 /* an id that is a string */
#define LIMIT_CALLS_PER_CONNECTION      256
#define LIMIT_WORKSPACES_PER_CONNECTION 256
/*
 * Memory, not length (json/json_read.h), of requests that are not answered yet and of incomplete
 * lines. Beyond the bound of a connection, the connection is not read. Beyond those of a tenant and
 * of all, a connection gets only LIMIT_PENDING_OWN_BYTES, and BUSY for the rest.
 */
#define LIMIT_PENDING_BYTES        (40 * MIB)
#define LIMIT_PENDING_TENANT_BYTES (40 * MIB)
#define LIMIT_PENDING_TOTAL_BYTES  (72 * MIB) /* enough for a line of 32 MiB and its values */
#define LIMIT_PENDING_OWN_BYTES    (12 * KIB)
/* For a process that does not read: the requests that a tenant may leave there, and one more. */
#define LIMIT_PROCESS_LINK_WAITING_BYTES (56 * MIB)
#define LIMIT_READ_LEAST_BYTES           (4 * KIB) /* likewise, beyond the limits above */
/*
 * Incomplete results of all workspaces' processes: the process whose result began first is killed.
 */
#define LIMIT_FRAMES_HELD_BYTES (8 * MIB)
/* unread answers of a connection, beyond which it is not read */
#define LIMIT_OUTPUT_PENDING_BYTES (4 * MIB)
/*
 * Answers of all connections that are not read, and the results of calls so far:
 * supervisor/schedule/unread.h.
 */
#define LIMIT_UNREAD_BYTES            (72 * MIB)
#define LIMIT_UNREAD_TENANT_BYTES     (64 * KIB) /* for a tenant in any case */
#define LIMIT_UNREAD_LINE_BYTES       (16 * KIB) /* no request is accepted with less room */
#define LIMIT_UNREAD_CALL_BYTES       (1 * KIB)  /* for the answer of a call, in any case */
#define LIMIT_UNREAD_SHORT_CALLS      32         /* of a connection, running at once */
#define LIMIT_UNREAD_RESULT_BYTES     (8 * KIB)  /* of one that runs, beside its result */
#define LIMIT_WORKSPACES              4096
#define LIMIT_UNAUTHORIZED_CLIENTS    16         /* peers of no tenant that wait to be told so */
#define LIMIT_UNAUTHORIZED_LINE_BYTES (64 * KIB) /* of their one request */
/* to the control socket; observers may have half of them */
#define LIMIT_CONTROL_CONNECTIONS      64
#define LIMIT_SELFTEST_INTERVAL_MAX_MS (30ULL * 24 * 3600 * 1000)
#define LIMIT_CONTROL_LINE_BYTES       (64 * KIB) /* one message to it */
#define LIMIT_CONTROL_TEXT_BYTES       160        /* of a command, in a list of calls */
#define LIMIT_CONTROL_SHOWN_BYTES      4096       /* of a command that is shown by itself */
/* approximate size of a list: further entries are only counted */
#define LIMIT_CONTROL_LIST_BYTES  (512 * KIB)
#define LIMIT_CONTROL_ENTRY_BYTES 512       /* size of a list's entry beside its text */
#define LIMIT_MEMORY_KEPT_BYTES   (8 * MIB) /* freed memory that malloc(3) keeps */
/* a larger block is a mapping that free(3) returns to the kernel */
#define LIMIT_MEMORY_HEAP_BYTES      (1 * MIB)
#define LIMIT_DESCRIPTORS_KEPT       64  /* of RLIMIT_NOFILE, not available to connections */
#define LIMIT_DESCRIPTORS_MIN        256 /* least RLIMIT_NOFILE; commands have a quarter of it */
#define LIMIT_RETRY_MIN_MS           50  /* least retry_after_ms */
#define LIMIT_RETRY_MAX_MS           60000
#define LIMIT_COMMANDS_MAX           4096
#define LIMIT_JOBS_MAX               4096
#define LIMIT_COMMANDS_PER_WORKSPACE 64
#define LIMIT_SPARE_CELLS_MAX        64
#define LIMIT_INITS_AHEAD            2 /* inits made before there is a command */
/* searches, deep listings and long reads at once in a workspace */
#define LIMIT_FILE_JOBS           8
#define LIMIT_FILE_WRITES         64   /* writes whose content is still coming */
#define LIMIT_UNKNOWN_CALL_FRAMES 4096 /* of a cell in a row, with no call of theirs begun */

/* Tool arguments (common/tools.c, common/path_rules.c). */
#define LIMIT_PATH_BYTES    4096 /* PATH_MAX, path_resolution(7) */
#define LIMIT_NAME_BYTES    255  /* NAME_MAX */
#define LIMIT_PATTERN_BYTES 8192
#define LIMIT_COMMAND_BYTES 131071 /* MAX_ARG_STRLEN less its NUL, execve(2) */
#define LIMIT_CONTENT_BYTES (16 * MIB)
#define LIMIT_SYMLINKS      40 /* path_resolution(7) */

#define LIMIT_CONTENT_TEXT_BYTES ((LIMIT_CONTENT_BYTES + 2) / 3 * 4) /* content as base64 */

/* Tool results. */
#define LIMIT_READ_BYTES         (1 * MIB) /* content of one read_file */
#define LIMIT_BINARY_PROBE_BYTES (8 * KIB) /* a NUL in here makes a file binary */
#define LIMIT_LIST_ENTRIES       10000
#define LIMIT_SEARCH_RESULTS     50
#define LIMIT_SEARCH_LINE_BYTES  2000 /* text of one match, longer lines are cut around it */
#define LIMIT_SEARCH_FILE_BYTES  (64 * MIB)
#define LIMIT_RESULT_BYTES       (16 * MIB) /* JSON of one listing; further entries are cut off */
#define LIMIT_STDIN_BYTES        (16 * MIB)
#define LIMIT_INPUT_BYTES        (1 * MIB)  /* sent to a running call and not taken yet */
#define LIMIT_INPUTS             64         /* likewise, in messages */
#define LIMIT_INPUTS_BYTES       (16 * MIB) /* likewise, of all calls of a connection */

/* Time, in milliseconds. */
#define LIMIT_COMMAND_MAX_MS  3600000 /* the longest that a call may ask for */
#define LIMIT_TERM_GRACE_MS   5000    /* from SIGTERM to SIGKILL */
#define LIMIT_KILL_REPORT_MS  5000    /* from SIGKILL to the report of the end */
#define LIMIT_FILES_REPORT_MS 5000    /* from a file call's cancel to its end */
/* for its processes to become ready, after the spawner has started them */
#define LIMIT_WORKSPACE_OPEN_MS 10000
/* that the spawner waits for the two processes of a new cell */
#define LIMIT_CELL_START_MS  5000
#define LIMIT_FILES_START_MS 5000 /* likewise for a new files process */
/* a spawner that answers nothing for so long hangs, and the service ends */
#define LIMIT_SPAWNER_SILENT_MS 20000
#define LIMIT_LOOK_UP_MS        5000 /* for a look-up of a directory */
#define LIMIT_LOOK_UP_SILENT_MS 100  /* after this time its file system may be one that hangs */
/* spare cells are ended after this time without an opening */
#define LIMIT_SPARE_CELLS_MS  600000
#define LIMIT_UNAUTHORIZED_MS 5000 /* for the request of a peer of no tenant */

/* MCP (supervisor/agent/mcp_progress.c, client/cmd_mcp.c). */
#define LIMIT_PROGRESS_LINE_BYTES 160 /* of the command's last line in progress */

/* cloister put and get (client/tar_read.c, client/tree_extract.c, client/cmd_put.c). */
#define LIMIT_TAR_EXTENDED_BYTES (64 * KIB)  /* of one extended header */
#define LIMIT_TREE_DEPTH         256         /* directories held open on the way to a file */
#define LIMIT_GET_BYTES          (16 * GIB)  /* size of all files, unless --max-size is given */
#define LIMIT_GET_FILES          1000000     /* their number, unless --max-files is given */
#define LIMIT_GET_NAMES_BYTES    (256 * MIB) /* of their names, in a temporary file */
#define LIMIT_PUT_KNOWN          (1 << 21)   /* unchanged files that are left out */
#define LIMIT_RELAYED_LOG_BYTES  (256 * KIB) /* of a cloisterd's log that root is shown */
#define LIMIT_TRANSFER_IDLE_MS   60000       /* without a byte in either direction */
#define LIMIT_INPUT_WINDOW       (512 * KIB) /* sent by a client and not taken yet */

/* What a workspace may use (worker/commands/worker_setup.c), setrlimit(2), tmpfs(5). */
#define LIMIT_TMP_INODES     200000
#define LIMIT_PROCESSES      1024
#define LIMIT_OPEN_FILES_MIN 64
#define LIMIT_OPEN_FILES_MAX 1048576
/*
 * What each workspace may take of the resources that the kernel counts for cloister's user, and so
 * for all workspaces together. supervisor/host/shared_budgets.h compares them with what the host
 * gives that user.
 */
#define LIMIT_INOTIFY_INSTANCES 16          /* inotify(7) */
#define LIMIT_INOTIFY_WATCHES   8192        /* likewise */
#define LIMIT_PENDING_SIGNALS   1024        /* POSIX timers too: timer_create(2) */
#define LIMIT_QUEUE_BYTES       (256 * KIB) /* POSIX message queues: mq_overview(7) */
/* The pipes of 64 commands, each as large as fs.pipe-max-size permits. pipe(7) */
#define LIMIT_PIPE_PAGES (3ULL * LIMIT_COMMANDS_PER_WORKSPACE * 256)
#define LIMIT_TERMINALS  64 /* pty(7) */
/* One for each command; those of ended commands count a little longer. namespaces(7) */
#define LIMIT_COMMAND_NAMESPACES 1024

/* Limits where cgroups are delegated (supervisor/host/cgroup.c), cgroups(7). */
#define LIMIT_MEMORY_MIN_BYTES      (16 * MIB) /* with less, even a shell could not start */
#define LIMIT_WEIGHT_MAX            10000      /* cpu.weight and io.weight, cgroups(7) */
#define LIMIT_MOUNTINFO_BYTES       (4 * MIB)
#define LIMIT_CGROUPS_PER_WORKSPACE 128 /* twice what 64 commands and the cell need */
#define LIMIT_CGROUP_DEPTH          1   /* below a workspace's group; a worker makes none deeper */

/* A tool call's options (supervisor/call/args_decode.c). */
#define LIMIT_ENV_COUNT 256
#define LIMIT_ENV_BYTES (32 * KIB) /* names and values of one call, with "=" and NUL */
/* The variables of a tenant's environment; and of both together, as the worker gets them. */
#define LIMIT_TENANT_ENV_COUNT  64
#define LIMIT_TENANT_ENV_BYTES  (8 * KIB)
#define LIMIT_COMMAND_ENV_COUNT (LIMIT_TENANT_ENV_COUNT + LIMIT_ENV_COUNT)
#define LIMIT_COMMAND_ENV_BYTES (LIMIT_TENANT_ENV_BYTES + LIMIT_ENV_BYTES)

/*
 * Parsing commands for the blocked ones (supervisor/config/command_line.c,
 * supervisor/config/command_policy.c).
 */
#define LIMIT_COMMAND_NESTING  16 /* $(...), `...`, sh -c, eval, and wrappers such as env */
#define LIMIT_COMMAND_HEREDOCS 16 /* of a line; the bodies of further ones are read as commands */
/* Of one pattern on one command, pcre2_set_match_limit(3). */
#define LIMIT_BLOCKED_MATCH_STEPS 1000000

/* Resolving and reading files (worker/files). */
#define LIMIT_PATH_DEPTH   256        /* directories held open by one walk, see path_walk.h */
#define LIMIT_OPEN_RETRIES 16         /* of one open or write that renames keep disturbing */
#define LIMIT_COUNT_BYTES  (64 * MIB) /* lines behind a range are counted up to here */

/* Listing and searching files (worker/files/glob.c, gitignore.c, tree_walk.c, pattern_scan.c). */
#define LIMIT_GLOB_ALTERNATIVES 256       /* patterns that one {a,b} pattern expands to */
#define LIMIT_GITIGNORE_BYTES   (1 * MIB) /* of one ignore file; a larger one is not read */
#define LIMIT_GIT_INDEX_BYTES \
	(32 * MIB)               /* of an index, and of the names in it; a larger one is not read */
#define LIMIT_GIT_REPOSITORIES 4 /* nested repositories whose index is used */
/* of all directories that a walk is in, with their rules */
#define LIMIT_GITIGNORE_HELD_BYTES (64 * MIB)
/* together with a link's target it fits one frame */
#define LIMIT_WALK_PATH_BYTES  (56 * KIB)
#define LIMIT_WALK_OPEN_LEVELS 256        /* directory descriptors that a walk holds */
#define LIMIT_WALK_NAMES_BYTES (64 * MIB) /* names that a walk holds in memory */
/* deeper directories are moved up before they are cleared */
#define LIMIT_CLEAR_DEPTH            200
#define LIMIT_SEARCH_MATCH_STEPS     10000000   /* pcre2_set_match_limit(3) */
#define LIMIT_SEARCH_DEPTH_STEPS     1000000    /* pcre2_set_depth_limit(3) */
#define LIMIT_SEARCH_HEAP_BYTES      (32 * MIB) /* pcre2_set_heap_limit(3) */
#define LIMIT_SEARCH_JIT_STACK_BYTES (1 * MIB)  /* pcre2_jit_stack_create(3) */

/* Threads and engines of a search (worker/files/search_pool.c, search_batch.c, pattern_scan.c). */
#define LIMIT_SEARCH_THREADS       4           /* of one search */
#define LIMIT_SEARCH_BUFFERS_BYTES (128 * MIB) /* large files that all threads hold together */

/* The audit log (supervisor/audit/audit.c, supervisor/audit/audit_writer.c). */
#define LIMIT_AUDIT_QUEUE_BYTES \
	(8 * MIB) /* lines that wait for the disk; further ones are lost \ */
#define LIMIT_AUDIT_LINE_BYTES    (32 * KIB)  /* of one line's own members */
#define LIMIT_AUDIT_TEXT_BYTES    4096        /* of a name in a line */
#define LIMIT_AUDIT_RESERVE_BYTES (4 * KIB)   /* the most that a call's end takes of the queue */
#define LIMIT_AUDIT_TAIL_BYTES    (256 * KIB) /* searched for the last complete line */
#define LIMIT_AUDIT_UNAUTHORIZED  16          /* lines a second; further ones are only counted */
#define LIMIT_AUDIT_END_MS        3000        /* to write the queue when cloisterd ends */

/* cloisterd's log (supervisor/base/log.c, supervisor/base/log_writer.c,
 * supervisor/base/log_relay.c). */
#define LIMIT_LOG_QUEUE_BYTES (256 * KIB) /* lines that wait for the reader of stderr */
#define LIMIT_LOG_LINE_BYTES  2048        /* of one line */
#define LIMIT_LOG_END_MS      1000        /* to write the queue, at the start and at the end */

/* Reading the configuration (common/config/config_file.c, config_load.c). */
#define LIMIT_CONFIG_FILE_BYTES   (1 * MIB)
#define LIMIT_CONFIG_LINE_BYTES   4096
#define LIMIT_CONFIG_DROP_INS     256
#define LIMIT_CONFIG_LIST         256  /* values of one key */
#define LIMIT_READONLY_PATHS      16   /* of a tenant */
#define LIMIT_READONLY_BYTES      4096 /* of their names, one a line */
#define LIMIT_CONFIG_TENANTS      1024
#define LIMIT_CONFIG_NAME_BYTES   40   /* of a tenant */
#define LIMIT_CONFIG_LOGGED       100  /* mistakes of one reload that are logged; all are counted */
#define LIMIT_ROOT_PARENTS        2048 /* parents of a requested directory */
#define LIMIT_ACCOUNTS_REMEMBERED 4096 /* names that were resolved at start */

/* Looking up directories (worker/spawner/looker.c). */
#define LIMIT_LOOKERS                64  /* processes, including late ones */
#define LIMIT_LOOKERS_PER_TENANT     8   /* of them */
#define LIMIT_LOOKERS_IDLE           2   /* idle ones that are kept */
#define LIMIT_LOOK_UPS_AT_ONCE       2   /* of a tenant, not counting silent ones */
#define LIMIT_LOOK_UPS_WAITING       512 /* of a tenant; further ones are refused */
#define LIMIT_LOOK_UPS_WAITING_TOTAL 2048

/* System mode (supervisor/host/id_range.c, worker/spawner/). 65534 stands for what is not mapped.
 */
#define LIMIT_FILES_STARTS    256   /* of files processes in existing cells, at the same time */
#define LIMIT_IDS             60000 /* of a subordinate range */
#define LIMIT_REFUSALS_LOGGED 1000  /* of a cloisterd that has been taken over */

/*
 * What the configuration may set at most (supervisor/config/config_keys.c), where that is not a
 * limit above.
 */
#define LIMIT_CONNECTIONS_MAX        4096
#define LIMIT_TENANT_CALLS_MAX       65536
#define LIMIT_TENANT_COMMANDS_MAX    4096
#define LIMIT_TENANT_QUEUE_MAX       65536
#define LIMIT_TENANT_EXISTING_MAX    1000000
#define LIMIT_WORKSPACE_IDLE_MAX_MS  (24 * 3600000ULL)
#define LIMIT_DRAIN_MAX_MS           (3600000ULL)
#define LIMIT_STREAM_KEPT_MAX_BYTES  (8 * MIB)
#define LIMIT_STREAM_TOTAL_MAX_BYTES (16 * GIB)
#define LIMIT_MEMORY_MAX_BYTES       (16384 * GIB)
#define LIMIT_PROCESSES_MAX          1048576
#define LIMIT_CPU_QUOTA_MAX_PERCENT  1000000
#define LIMIT_TMP_MIN_BYTES          (1 * MIB) /* of tmp_size and file_size */
#define LIMIT_TMP_MAX_BYTES          (1024 * GIB)
#define LIMIT_FILE_SIZE_MAX_BYTES    (16384 * GIB)

/*
 * What libcloister accepts of a service that it does not trust. A line is at most LIMIT_LINE_BYTES.
 */
#define LIMIT_CLIENT_VALUES       (2 * MIB)   /* in one message */
#define LIMIT_CLIENT_MEMORY_BYTES (256 * MIB) /* for the values of one message */
#define LIMIT_CLIENT_UNSENT_BYTES (64 * MIB)
#define LIMIT_CLIENT_TURN_BYTES   (1 * MIB) /* read before the user's event loop has its turn */
#define LIMIT_CLIENT_CONNECT_MS   10000
