/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The named limits that a client, a model or a workspace can reach. Reaching one gives a typed
 * error, never a crash or a silent cut. Limits that the configuration can set have their defaults
 * in supervisor/config/config_keys.c or common/config_defaults.h. A constant that only tunes one
 * file is defined in that file.
 */

#define KIB (1024ULL)
#define MIB (1024ULL * 1024ULL)
#define GIB (1024ULL * 1024ULL * 1024ULL)

/* Agent socket (supervisor/connection/agent_conn.c, supervisor/connection/jsonrpc.c). */
#define LIMIT_LINE_BYTES  (32 * MIB) /* one JSON-RPC message */
#define LIMIT_JSON_DEPTH  32
#define LIMIT_JSON_VALUES 16384 /* values in one message */
/* members of one object: a client may choose names whose hashes collide */
#define LIMIT_JSON_MEMBERS      512
#define LIMIT_JSON_NUMBER_BYTES 256 /* digits of one number */
/* memory of one message's values, in addition to the message's length */
#define LIMIT_JSON_MEMORY_BYTES         (4 * MIB)
#define LIMIT_REQUEST_ID_BYTES          256 /* a request id that is a string */
#define LIMIT_CALLS_PER_CONNECTION      256
#define LIMIT_WORKSPACES_PER_CONNECTION 256
/*
 * Memory, not length (json/json_read.h), of unanswered requests and incomplete lines. A connection
 * above its limit has no further lines handled. A tenant may have as much as it leaves free of all
 * tenants' (common/budget.h). When a tenant or all tenants together have reached their
 * limit, each connection may still use LIMIT_PENDING_OWN_BYTES, and larger requests get BUSY.
 */
#define LIMIT_PENDING_BYTES        (40 * MIB) /* of a connection */
#define LIMIT_PENDING_TENANT_BYTES (40 * MIB)
#define LIMIT_PENDING_TOTAL_BYTES  (88 * MIB) /* the largest call, beside a tenant at its limit */
#define LIMIT_PENDING_OWN_BYTES    (12 * KIB)
/*
 * Requests that one worker or files process has not read: all that a tenant may have pending and
 * one more file's content. cloisterd kills a process that leaves more unread.
 */
#define LIMIT_PROCESS_LINK_WAITING_BYTES (56 * MIB)
/* room for one read(2) of a connection whose requests have reached LIMIT_PENDING_* */
#define LIMIT_READ_LEAST_BYTES (4 * KIB)
/*
 * Incomplete frames from all workers and files processes together. Beyond it, cloisterd kills the
 * process whose frame has been incomplete for the longest time.
 */
#define LIMIT_FRAMES_HELD_BYTES (8 * MIB)
/* unread answers of a connection; cloisterd does not read a connection that has more */
#define LIMIT_OUTPUT_PENDING_BYTES (4 * MIB)
/*
 * Memory of answers that clients have not read and of the results of running calls:
 * supervisor/schedule/unread.h.
 */
#define LIMIT_UNREAD_BYTES        (72 * MIB) /* of all connections */
#define LIMIT_UNREAD_TENANT_BYTES (64 * KIB) /* of a tenant, even if others use up the rest */
#define LIMIT_UNREAD_LINE_BYTES   (16 * KIB) /* a connection handles no request with less room */
#define LIMIT_UNREAD_CALL_BYTES   (1 * KIB)  /* counted for each call's answer from its start */
#define LIMIT_UNREAD_SHORT_CALLS  32         /* short file calls of a connection that run at once */
/* counted for each call that runs, in addition to its result */
#define LIMIT_UNREAD_RESULT_BYTES (8 * KIB)
/* of the result of a change, which is sent even without room: the change has been made */
#define LIMIT_UNREAD_CHANGE_BYTES (32 * KIB)
#define LIMIT_WORKSPACES          12288
#define LIMIT_WORKSPACES_ALONE    4096 /* of a user without a configuration */
/* Properties that a managed workspace is opened or forked with
 * (supervisor/workspace/managed/properties.h). */
#define LIMIT_LABELS            64
#define LIMIT_LABEL_NAME_BYTES  128
#define LIMIT_LABEL_VALUE_BYTES 1024
#define LIMIT_LABELS_BYTES      (16 * KIB) /* names and values */
#define LIMIT_SHOWN_AT_BYTES    255
#define LIMIT_SPACE_ENV_COUNT   64
#define LIMIT_SPACE_ENV_BYTES   (8 * KIB)    /* as LIMIT_ENV_BYTES counts */
#define LIMIT_PROPERTIES_BYTES  (256 * KIB)  /* of the record of them, as JSON text */
#define LIMIT_LEASE_MS          316224000000 /* ten years, from now on */
#define LIMIT_LEASE_RETRY_MS    200 /* between tries to end a lease whose workspace cannot end yet */
#define LIMIT_LEASE_CLOCK_MS    10000 /* between looks at whether the host's clock was set */
/* in one slice of the loop for workspace.list: workspaces that it lists, and names and others' */
#define LIMIT_LISTED_A_TURN 32
#define LIMIT_LISTED        10000 /* in one answer; and its bytes, if it has more than one */
#define LIMIT_LISTED_BYTES  (4 * MIB)
#define LIMIT_PASSED_A_TURN 1024
/* No further line of a connection, or frame of a process, is handled in a slice of this long. */
#define LIMIT_SLICE_US 1000
/* connections of clients that are not admitted, each kept until its first request is refused */
#define LIMIT_UNAUTHORIZED_CLIENTS    16
#define LIMIT_UNAUTHORIZED_LINE_BYTES (64 * KIB) /* the first request of such a client */
/* connections to the control socket; observers may have half of them */
#define LIMIT_CONTROL_CONNECTIONS      64
#define LIMIT_SELFTEST_INTERVAL_MAX_MS (30ULL * 24 * 3600 * 1000)
#define LIMIT_CONTROL_LINE_BYTES       (64 * KIB) /* one message to the control socket */
#define LIMIT_CONTROL_TEXT_BYTES       160        /* of a command, in a list of calls */
#define LIMIT_CONTROL_SHOWN_BYTES      4096       /* of a command that is shown by itself */
/* approximate size of a list; further entries are only counted */
#define LIMIT_CONTROL_LIST_BYTES  (512 * KIB)
#define LIMIT_CONTROL_ENTRY_BYTES 512 /* size of a list's entry without its text */
/* workspaces whose cgroups are read for observers in a second; others keep what was read before */
#define LIMIT_USAGE_LOOKS 256
/* from the end of a call that may have written until the workspace's size is measured */
#define LIMIT_MEASURE_PAUSE_MS 10000
/* How often a workspace that has a disk class and no quota is measured while its commands run. */
#define LIMIT_MEASURE_RUNNING_MS 2000
/* A measurement that takes longer is repeated without idle priority. */
#define LIMIT_MEASURE_LATE_MS 10000
/* until the next measurement, unless the measurement itself used the processor */
#define LIMIT_MEASURE_REST_MS 60000
/* A measurement is exact if no command could write meanwhile. When commands have run for so long
 * without one, the next is made while they are stopped. */
#define LIMIT_MEASURE_EXACT_MS 10000
/* They are stopped for so long at most; the next time for longer, if the measurement was not done.
 */
#define LIMIT_PAUSE_MS     1000
#define LIMIT_PAUSE_MAX_MS 60000
/* commands that have run for this long are ended when a part of it cannot be measured */
#define LIMIT_DISK_HIDDEN_MS 10000
#define LIMIT_DISK_OVER_PART 8 /* commands are ended this part of the class beyond its size */
/* refusals of a tenant that become events in a second; further ones are only counted */
#define LIMIT_REFUSALS_TOLD     8
#define LIMIT_MEMORY_KEPT_BYTES (8 * MIB) /* freed memory that malloc(3) keeps */
/* a larger block is a mapping that free(3) returns to the kernel */
#define LIMIT_MEMORY_HEAP_BYTES (1 * MIB)
#define LIMIT_DESCRIPTORS_KEPT  64  /* part of RLIMIT_NOFILE that connections may not use */
#define LIMIT_DESCRIPTORS_MIN   256 /* least RLIMIT_NOFILE; commands get a quarter of it */
/* that a workspace with its cell holds in cloisterd, also with network = egress */
#define LIMIT_DESCRIPTORS_WORKSPACE 8
#define LIMIT_DESCRIPTORS_NETWORK   14
/* that are no tenant's, LIMIT_DESCRIPTORS_KEPT among them */
#define LIMIT_DESCRIPTORS_OWN 128
/* part of the others that workspaces leave to connections and commands */
#define LIMIT_DESCRIPTORS_OTHERS_PART 4
/* parts of what workspaces may hold: the least that a tenant has left before idle cells end, and a
 * spare cell for each so many */
#define LIMIT_DESCRIPTORS_AHEAD_PART  16
#define LIMIT_DESCRIPTORS_SPARES_PART 64
#define LIMIT_RETRY_MIN_MS            50 /* least retry_after_ms */
#define LIMIT_RETRY_MAX_MS            60000
/* of commands, and of file_jobs, a place in so many is kept for tenants that run none */
#define LIMIT_PLACES_KEPT_PART       8
#define LIMIT_COMMANDS_MAX           4096
#define LIMIT_COMMANDS_PER_CPU_MAX   1024
#define LIMIT_JOBS_MAX               4096
#define LIMIT_COMMANDS_PER_WORKSPACE 64
#define LIMIT_SESSIONS_PER_WORKSPACE 16
/* commands that one worker has at once, those of sessions among them */
#define LIMIT_COMMANDS_AT_ONCE (LIMIT_COMMANDS_PER_WORKSPACE + LIMIT_SESSIONS_PER_WORKSPACE)
/* layers of a managed workspace; it has one checkpoint fewer */
#define LIMIT_LAYERS              64
#define LIMIT_LAYERS_FOLD         16    /* of more layers, some are merged with the one above */
#define LIMIT_LAYERS_NEWEST       8     /* checkpoints that stay as they are */
#define LIMIT_LAYERS_FOLDS        64    /* waiting merges of a tenant; others ask again */
#define LIMIT_LAYERS_FOLD_CPU_S   60    /* CPU time of a merge */
#define LIMIT_LAYERS_FOLD_LATE_MS 60000 /* one that takes longer delays its tenant only */
/*
 * for clearing what a tenant has dropped, before another tenant's turn: CPU time, and time in all
 */
#define LIMIT_SWEEP_CPU_S   1
#define LIMIT_SWEEP_TURN_S  2
#define LIMIT_SWEEP_LATE_MS 10000 /* a home cleaner that runs for longer delays its tenant only */
/* As many wait until home cleaners no longer wait for an idle processor. */
#define LIMIT_SWEEP_IDLE 64
/* Private tmpfs that no workspace has any more (worker/spawner/cell/cell_private.c). */
#define LIMIT_FD_CLOSERS       256   /* threads that close clients' sockets: fd_closer.c */
#define LIMIT_FD_CLOSERS_USER  16    /* of them, for the sockets of one user */
#define LIMIT_CLOSERS          4     /* that remove files at once, each of another tenant */
#define LIMIT_CLOSER_MS        10000 /* after this time a closer does not count any more */
#define LIMIT_PRIVATE_AWAIT_MS 100   /* for a taker: cell_private.c */
#define LIMIT_PRIVATES_GONE    32    /* of a tenant whose files are not removed yet */
/* up to which the spawner removes them itself: that takes no longer than to start a tmpfs closer */
#define LIMIT_PRIVATE_SMALL_FILES 256
#define LIMIT_PRIVATE_SMALL_BYTES (4 * MIB)
/* Templates of a tenant whose size the spawner has yet to measure, and for one of them. */
#define LIMIT_TEMPLATES_MEASURED LIMIT_TEMPLATES_MAX
#define LIMIT_MEASURE_CPU_S      60
#define LIMIT_MEASURE_TREE_MS    60000     /* one that takes longer delays its tenant only */
#define LIMIT_LAYER_NUMBER       999999999 /* each checkpoint and rollback takes a number */
/* dropped layers of a workspace, and removed workspaces of a tenant, that are not cleared yet */
#define LIMIT_LAYERS_DROPPED         64
#define LIMIT_LAYERS_REMOVED         1024
#define LIMIT_CHECKPOINT_LABEL_BYTES 80
/* templates of managed workspaces, and copies of trees (worker/spawner/job/tree_copy.h) */
#define LIMIT_TEMPLATE_NAME_BYTES 64     /* as a managed workspace's */
#define LIMIT_TEMPLATE_TREES      999999 /* that a template is replaced by, one after the other */
/* The name of the directory of a template's tree: is_template_tree(). */
#define LIMIT_TEMPLATE_TREE_BYTES (LIMIT_TEMPLATE_NAME_BYTES + sizeof("~999999") - 1)
#define LIMIT_TEMPLATES_MAX       1024 /* of a tenant */
#define LIMIT_FORKS_AT_ONCE       256  /* made by one request */
#define LIMIT_FORKS_A_TURN        4    /* made, or taken back, in one slice of the loop */
/* Templates in memory (worker/spawner/job/template_memory.h): on the host, and loads at once. */
#define LIMIT_TEMPLATES_IN_MEMORY  256
#define LIMIT_TEMPLATES_OF_TENANT  64
#define LIMIT_TEMPLATES_FLOOR      2                /* that each tenant may have in any case */
#define LIMIT_TEMPLATE_WAITS       LIMIT_WORKSPACES /* requests for one that is being loaded */
#define LIMIT_TEMPLATE_TRIES       8                /* loads of one template, each with more room */
#define LIMIT_TEMPLATE_LOADS       4                /* of different tenants */
#define LIMIT_TEMPLATE_LEAST_BYTES (1 * MIB)        /* below this room, others are dropped first */
#define LIMIT_TEMPLATE_FILE_BYTES  1024             /* what a file takes beside its pages */
#define LIMIT_TEMPLATE_WHY_BYTES   256    /* of the sentence that says why one is not there */
#define LIMIT_TEMPLATE_ASKED_MS    5000   /* a template that was asked for stays so long */
#define LIMIT_COPIES               16     /* copies of trees that run at once, */
#define LIMIT_COPIES_KEPT          8      /* of them for tenants that have none, */
#define LIMIT_COPIES_OF_TENANT     2      /* and of one tenant; also requests for them */
#define LIMIT_COPY_LATE_MS         30000  /* one that takes longer delays its tenant only, */
#define LIMIT_COPY_MS              600000 /* and is ended after this time */
#define LIMIT_COPY_BYTES           (1024ULL * GIB) /* of one tree, where nothing smaller bounds it */
#define LIMIT_COPY_FILES           4000000
#define LIMIT_COPY_ATTRIBUTES      (64 * KIB) /* names, or a value, of extended attributes */
/* archives and images that become templates (worker/unpack) */
#define LIMIT_UNPACKERS           2 /* that run at once, one of a tenant; as late as a copy */
#define LIMIT_UNPACK_MEMORY_BYTES (512 * MIB)  /* address space of one */
#define LIMIT_UNPACK_FILE_BYTES   (1024 * GIB) /* length of a file, its holes among it */
#define LIMIT_UNPACK_FILES        2000000      /* entries, where nothing smaller bounds them */
#define LIMIT_UNPACK_PATHS_BYTES  (64 * MIB)   /* paths of directories that are kept */
/* An import ends when less than this is free on the state's disk, or than a part of the disk. */
#define LIMIT_UNPACK_FREE_BYTES (1 * GIB)
#define LIMIT_UNPACK_FREE_FILES 100000
#define LIMIT_UNPACK_FREE_PART  20
#define LIMIT_UNPACK_LOOK_MS    1000 /* between two looks at that */
/* the unpacked bytes may be this many times the archive's, or the next limit if that is more */
#define LIMIT_UNPACK_RATIO         200
#define LIMIT_UNPACK_SMALL_BYTES   (1 * GIB)
#define LIMIT_UNPACK_JSON_BYTES    (4 * MIB) /* an index or a manifest of an image */
#define LIMIT_UNPACK_MANIFESTS     256       /* of an index */
#define LIMIT_UNPACK_LAYERS        128       /* of an image */
#define LIMIT_UNPACK_NAME_BYTES    1024      /* of the name in a refusal */
#define LIMIT_SPARE_CELLS_MAX      64
#define LIMIT_INPUT_WAIT_PROCESSES 256 /* in a workspace whose commands are looked at */
#define LIMIT_INPUT_WAIT_MAX_MS    3600000
#define LIMIT_INITS_AHEAD          2 /* inits that a worker makes ahead of commands */
/* searches, deep listings and long reads at once in a workspace */
#define LIMIT_FILE_JOBS    8
#define LIMIT_FILE_WRITES  64 /* unfinished writes in a workspace */
#define LIMIT_FILE_STREAMS 16 /* files that a workspace's methods read and write as streams */
/* file.watch, inotify(7): commands keep half of the workspace's LIMIT_INOTIFY_INSTANCES */
#define LIMIT_FILE_WATCHES           8          /* in a workspace; each is a process */
#define LIMIT_FILE_WATCHES_TENANT    64         /* of a tenant */
#define LIMIT_FILE_WATCH_WINDOW      (64 * KIB) /* of events that were asked for */
#define LIMIT_FILE_WATCH_DIRECTORIES 4096       /* of one watch */
#define LIMIT_FILE_EDITS             8 /* those of them that are edits, which are held in memory */
#define LIMIT_FILE_PATCHES           2 /* those of them that are patches */
/* frames in a row from a cell's processes that belong to no running call */
#define LIMIT_UNKNOWN_CALL_FRAMES 4096
/* frames of a process that cloisterd handles before others have their turn */
#define LIMIT_SLICE_FRAMES 256

/* Tool arguments (common/tools.c, common/path_rules.c). */
#define LIMIT_PATH_BYTES    4096 /* PATH_MAX, path_resolution(7) */
#define LIMIT_NAME_BYTES    255  /* NAME_MAX */
#define LIMIT_PATTERN_BYTES 8192
#define LIMIT_COMMAND_BYTES 131071 /* MAX_ARG_STRLEN less its NUL, execve(2) */
#define LIMIT_CONTENT_BYTES (16 * MIB)
#define LIMIT_SYMLINKS      40 /* path_resolution(7) */
/* edit_file */
#define LIMIT_EDITS       64        /* of one call */
#define LIMIT_EDIT_BYTES  (4 * MIB) /* all old and new texts of one call */
#define LIMIT_EDIT_PLACES 100000    /* occurrences that one call replaces */
#define LIMIT_EDIT_LINES  10        /* lines that a failure names */
#define LIMIT_EDIT_DIFF   (4 * KIB) /* of the diff in the answer */
/* file that is searched for why an old text does not stand in it */
#define LIMIT_EDIT_EXPLAINED (4 * MIB)

/* apply_patch */
#define LIMIT_PATCH_FILES   64         /* of one call */
#define LIMIT_PATCH_BYTES   (16 * MIB) /* each: the text, the old files, the new files */
#define LIMIT_PATCH_HUNKS   1024       /* each is searched for in its whole file */
#define LIMIT_PATCH_ANCHORS 8          /* lines @@ of one hunk */
/* headers, @@ lines, and runs of lines with one sign, each of which is sent with its length */
#define LIMIT_PATCH_PARTS 100000

#define LIMIT_CONTENT_TEXT_BYTES ((LIMIT_CONTENT_BYTES + 2) / 3 * 4) /* content as base64 */

/* Tool results. */
#define LIMIT_READ_BYTES         (1 * MIB) /* content of one read_file */
#define LIMIT_BINARY_PROBE_BYTES (8 * KIB) /* a NUL in here makes a file binary */
#define LIMIT_LIST_ENTRIES       10000
#define LIMIT_SURVEY_SMALL       20 /* entries of a directory that is never collapsed */
#define LIMIT_SURVEY_DEPTH       64 /* of a recursive listing for a model */
#define LIMIT_SEARCH_RESULTS     50
#define LIMIT_SEARCH_MOST        1000      /* matches with the argument limit */
#define LIMIT_SEARCH_OFFSET      10000     /* matches that are passed over */
#define LIMIT_SEARCH_CONTEXT     10        /* lines on each side of a match */
#define LIMIT_SEARCH_AROUND      500       /* bytes of such a line */
#define LIMIT_SEARCH_BATCH_BYTES (2 * MIB) /* texts of a batch; further lines are cut there */
#define LIMIT_SEARCH_LINE_BYTES  2000      /* text of one match, longer lines are cut around it */
#define LIMIT_SEARCH_FILE_BYTES  (64 * MIB)
#define LIMIT_RESULT_BYTES       (16 * MIB) /* JSON of one listing; further entries are cut off */
/*
 * The most that is shown to a model (supervisor/call/result/shown.h). Harnesses cut an answer after
 * 2,000 lines or 50,000 characters, so that its end is lost: an answer has fewer lines with all
 * that stands around these, and output_shown, by default 46 KiB, is for an answer as a whole.
 */
#define LIMIT_SHOWN_LINES      1980      /* of a file, or of both streams of a command */
#define LIMIT_SHOWN_REST_BYTES (4 * KIB) /* of an answer, for what stands around the result */
#define LIMIT_SHOWN_SLACK      512       /* by which the last line may go beyond it */
#define LIMIT_SHOWN_WORD_BYTES 1024      /* of an argument that the structured content repeats */
#define LIMIT_SHOWN_ENTRIES    500       /* of a directory */
#define LIMIT_SHOWN_LINE_BYTES 2000      /* of one line of a file */
#define LIMIT_IMAGE_BYTES      (1 * MIB) /* an image that is shown as one */
#define LIMIT_STDIN_BYTES      (16 * MIB)
/* file.read: bytes that the files process has been asked for, and a connection has not been sent */
#define LIMIT_FILE_STREAM_WINDOW (256 * KIB)
/* workspace.diff */
#define LIMIT_DIFF_CHANGES     10000      /* that are listed; further ones are counted */
#define LIMIT_DIFF_FILE_BYTES  (1 * MIB)  /* of a file that has its place in a patch */
#define LIMIT_DIFF_PATCH_BYTES (4 * MIB)  /* of one patch; further files are counted */
#define LIMIT_INPUT_BYTES      (1 * MIB)  /* input that a running call has not read yet */
#define LIMIT_INPUTS           64         /* unanswered tool.input requests of a call */
#define LIMIT_INPUTS_BYTES     (16 * MIB) /* input that a connection's calls have not read yet */

/*
 * Cells that nobody uses and that are killed at once. Each has two system call filters, and one CPU
 * of Linux 6.12 frees at most 256 at once (doc/kernel-filter-fault.md).
 */
#define LIMIT_CELLS_ENDING 64

/* Sockets of NETLINK_ROUTE that the commands of a workspace have at once. */
#define LIMIT_NETLINK_SOCKETS 32

/* Time, in milliseconds. */
#define LIMIT_COMMAND_MAX_MS     3600000 /* the longest deadline of a call */
#define LIMIT_TERM_GRACE_MS      5000    /* from SIGTERM to SIGKILL */
#define LIMIT_LAST_MS            20      /* for processes to end by themselves after the shell */
#define LIMIT_LEFT_OVER_MS       200     /* from SIGTERM to SIGKILL of the processes left then */
#define LIMIT_KILL_REPORT_MS     5000    /* from SIGKILL to the report that the process has ended */
#define LIMIT_FILES_REPORT_MS    5000    /* for a files process to end a cancelled call */
#define LIMIT_CHECKPOINT_WAIT_MS 10000   /* of a checkpoint or rollback, for calls in flight */
#define LIMIT_LAYERS_MOUNT_MS    5000    /* for the layers of a workspace to be mounted */
/* for a workspace's processes to become ready after the spawner has started them */
#define LIMIT_WORKSPACE_OPEN_MS 10000
/* for the two processes of a new cell to start */
#define LIMIT_CELL_START_MS  5000
#define LIMIT_FILES_START_MS 5000 /* for a new files process in an existing cell to start */
/* without any answer of the spawner to pending requests; then cloisterd ends */
#define LIMIT_SPAWNER_SILENT_MS 20000
#define LIMIT_LOOK_UP_MS        5000 /* for one look-up of a directory */
#define LIMIT_LOOK_UP_SILENT_MS 100  /* after this time the file system is suspected to hang */
/* spare cells are ended if no workspace is opened for this time */
#define LIMIT_SPARE_CELLS_MS  600000
#define LIMIT_UNAUTHORIZED_MS 5000 /* for the first request of a client that is not admitted */

/* MCP (supervisor/agent/mcp/mcp_progress.c, supervisor/agent/mcp/mcp_ext_task.c,
 * client/cmd/cmd_mcp.c). */
#define LIMIT_PROGRESS_LINE_BYTES 160 /* of the command's last line, in a progress notification */
/* tasks, with those that are over and kept */
#define LIMIT_TASKS_TENANT       256
#define LIMIT_TASKS_TENANT_BYTES (16 * MIB) /* of their results; a part of LIMIT_UNREAD_BYTES */
#define LIMIT_TASK_RESULT_BYTES  (32 * KIB) /* reserved for each from its start */
#define LIMIT_TASK_TTL_MS        3600000    /* the longest time that a task is kept */
#define LIMIT_TASK_FETCH_MS      60000      /* the shortest time that its result is kept */
#define LIMIT_TASK_OFFER_MS      2000       /* how long a call takes before it becomes one */

/* cloister put and get (client/tar/tar_read.c, client/transfer/tree_extract.c,
 * client/cmd/cmd_put.c). */
#define LIMIT_TAR_EXTENDED_BYTES (64 * KIB)  /* of one extended header */
#define LIMIT_TREE_DEPTH         256         /* directories held open on the way to a file */
#define LIMIT_GET_BYTES          (16 * GIB)  /* size of all files, if --max-size is not given */
#define LIMIT_GET_FILES          1000000     /* number of files, if --max-files is not given */
#define LIMIT_GET_NAMES_BYTES    (256 * MIB) /* of the files' names, in a temporary file */
#define LIMIT_PUT_KNOWN          (1 << 21)   /* unchanged files that put can leave out */
/* of the log of a user's cloisterd that the client shows root */
#define LIMIT_RELAYED_LOG_BYTES (256 * KIB)
#define LIMIT_TRANSFER_IDLE_MS  60000 /* without a byte in either direction */
/* input that the client has sent and the service has not answered */
#define LIMIT_INPUT_WINDOW (512 * KIB)

/* Limits inside a workspace (worker/commands/worker_setup.c), setrlimit(2), tmpfs(5). */
#define LIMIT_TMP_INODES 200000
/* of an extended attribute that a command sets: an ACL of 124 entries, in 1 KiB of the kernel's */
#define LIMIT_ATTRIBUTE_BYTES 1000
#define LIMIT_PROCESSES       1024
#define LIMIT_OPEN_FILES_MIN  64
#define LIMIT_OPEN_FILES_MAX  1048576
#define LIMIT_WATCHES_MIN     128 /* of inotify(7), of one workspace */
#define LIMIT_WATCHES_MAX     1048575
/*
 * Shares of the resources that the kernel counts for cloister's user, and so for all workspaces
 * together. Each workspace gets one share. supervisor/host/shared_budgets.h compares the shares
 * with that user's limits.
 */
#define LIMIT_INOTIFY_INSTANCES 16          /* inotify(7) */
#define LIMIT_INOTIFY_WATCHES   8192        /* unless the key watches says otherwise */
#define LIMIT_PENDING_SIGNALS   1024        /* POSIX timers too: timer_create(2) */
#define LIMIT_QUEUE_BYTES       (256 * KIB) /* POSIX message queues: mq_overview(7) */
/* The pipes of 64 commands, each as large as fs.pipe-max-size permits. pipe(7) */
#define LIMIT_PIPE_PAGES (3ULL * LIMIT_COMMANDS_AT_ONCE * 256)
#define LIMIT_TERMINALS  64 /* pty(7) */
/* One for each command, and more, because those of ended commands count a little longer.
 * namespaces(7) */
#define LIMIT_COMMAND_NAMESPACES 1024

/* Limits where cgroups are delegated (supervisor/host/cgroup.c), cgroups(7). */
#define LIMIT_MEMORY_MIN_BYTES      (16 * MIB) /* with less, not even a shell starts */
#define LIMIT_WEIGHT_MAX            10000      /* cpu.weight and io.weight, cgroups(7) */
#define LIMIT_MOUNTINFO_BYTES       (4 * MIB)
#define LIMIT_CGROUPS_PER_WORKSPACE 162 /* of 80 commands and the cell, and as many more */
#define LIMIT_CGROUP_DEPTH          1   /* levels below a workspace's group; a worker needs one */

/* Workspaces with network = egress (supervisor/workspace/network/). */
#define LIMIT_PROXY_PORT_MIN       1024 /* lower ports are those of services that commands start */
#define LIMIT_ALLOW_NET            64   /* hosts that a private instance is started with */
#define LIMIT_NETWORK_DENIALS      32 /* kinds of refusals in an observation; others are counted */
#define LIMIT_DENIALS_KEPT         64 /* kinds of recent refusals of a tenant, for denials */
#define LIMIT_EGRESS_WAITING_BYTES (1 * MIB)  /* that cloister-egress has not read */
#define LIMIT_EGRESS_TOLD_BYTES    (64 * KIB) /* of these; with more it is told of no further cell */
/* variables that lead programs to cloister-egress */
#define LIMIT_NETWORK_ENV_COUNT 32
#define LIMIT_NETWORK_ENV_BYTES (4 * KIB)
#define LIMIT_NETWORK_SUM_MS    5000 /* for cloister-egress to tell what an ended command did */
#define LIMIT_PROXY_BACKLOG                                                  \
	1024 /* connections that cloister-egress has not accepted, listen(2) \
	      */

/* A tool call's options (supervisor/call/request/args_decode.c). */
#define LIMIT_NOTES                                                                  \
	12 /* sentences about one call's arguments (supervisor/call/request/notes.h) \
	    */
#define LIMIT_ENV_COUNT 256
#define LIMIT_ENV_BYTES (32 * KIB) /* names and values of one call, with "=" and NUL */
/* Variables that the configuration sets for a tenant; and these with the call's own. */
#define LIMIT_TENANT_ENV_COUNT 64
#define LIMIT_TENANT_ENV_BYTES (8 * KIB)
#define LIMIT_COMMAND_ENV_COUNT \
	(LIMIT_NETWORK_ENV_COUNT + LIMIT_TENANT_ENV_COUNT + LIMIT_SPACE_ENV_COUNT + LIMIT_ENV_COUNT)
#define LIMIT_COMMAND_ENV_BYTES \
	(LIMIT_NETWORK_ENV_BYTES + LIMIT_TENANT_ENV_BYTES + LIMIT_SPACE_ENV_BYTES + LIMIT_ENV_BYTES)

/*
 * Parsing commands for the blocked ones (supervisor/config/command_line.c,
 * supervisor/config/command_policy.c).
 */
#define LIMIT_COMMAND_NESTING  16 /* $(...), `...`, sh -c, eval, and wrappers such as env */
#define LIMIT_COMMAND_HEREDOCS 16 /* in a line; the bodies of further ones are read as commands */
/* for one pattern on one command, pcre2_set_match_limit(3) */
#define LIMIT_BLOCKED_MATCH_STEPS 1000000
#define LIMIT_BLOCKED_LINE_MS     20 /* of processor time, for all patterns on one line */
#define LIMIT_BLOCKED_NEXT_MS     5  /* likewise, until no further command of it is begun */

/* Resolving and reading files (worker/files). */
#define LIMIT_PATH_DEPTH   256        /* directories held open by one walk, see path_walk.h */
#define LIMIT_EDIT_TURN_MS 1000       /* for another edit of the same file to be made */
#define LIMIT_OPEN_RETRIES 16         /* of one open or write while others rename its path */
#define LIMIT_COUNT_BYTES  (64 * MIB) /* of a file whose lines after the range are counted */

/* Names similar to one that does not exist (worker/files/walk/near_paths.c, common/near_name.c). */
#define LIMIT_NEAR_ENTRIES    1000 /* of its directory that are compared */
#define LIMIT_NEAR_NAME_BYTES 64   /* longer names are not compared letter by letter */
#define LIMIT_NEAR_PATH_BYTES 256  /* longer paths are not suggested */

/* Listing and searching files (worker/files/walk/glob.c, gitignore.c, tree_walk.c, pattern_scan.c).
 */
#define LIMIT_GLOB_ALTERNATIVES 256       /* patterns from the braces {a,b} of one pattern */
#define LIMIT_GITIGNORE_BYTES   (1 * MIB) /* of one ignore file; a larger one is not read */
/* of an index, and of its names together; a larger index is not used */
#define LIMIT_GIT_INDEX_BYTES (32 * MIB)
#define LIMIT_GIT_INDEX_PIECE (64 * KIB) /* that are read of it at a time */
/* nested repositories whose index is used, and nested `.git` files and links that are followed */
#define LIMIT_GIT_REPOSITORIES 4
/* ignore rules that a walk holds for a directory and its parents */
#define LIMIT_GITIGNORE_HELD_BYTES (64 * MIB)
/* the path and a link's target fit one frame */
#define LIMIT_WALK_PATH_BYTES  (56 * KIB)
#define LIMIT_WALK_OPEN_LEVELS 256        /* directory descriptors that a walk holds */
#define LIMIT_WALK_NAMES_BYTES (64 * MIB) /* names that a walk holds in memory */
/* deeper directories are moved up before they are cleared */
#define LIMIT_CLEAR_DEPTH            200
#define LIMIT_SEARCH_MATCH_STEPS     10000000   /* pcre2_set_match_limit(3) */
#define LIMIT_SEARCH_DEPTH_STEPS     1000000    /* pcre2_set_depth_limit(3) */
#define LIMIT_SEARCH_HEAP_BYTES      (32 * MIB) /* pcre2_set_heap_limit(3) */
#define LIMIT_SEARCH_JIT_STACK_BYTES (1 * MIB)  /* pcre2_jit_stack_create(3) */

/* Threads and engines of a search (worker/files/search/search_pool.c, search_batch.c,
 * pattern_scan.c). */
#define LIMIT_SEARCH_THREADS       4           /* of one search */
#define LIMIT_SEARCH_BUFFERS_BYTES (128 * MIB) /* large files that all threads hold together */

/* The audit log (supervisor/audit/audit.c, supervisor/audit/audit_writer.c). */
#define LIMIT_AUDIT_QUEUE_BYTES    (8 * MIB)   /* lines that wait for the disk; others are lost */
#define LIMIT_AUDIT_LINE_BYTES     (32 * KIB)  /* of one line, without the chain's members */
#define LIMIT_AUDIT_TEXT_BYTES     4096        /* of one text in a line, such as a path */
#define LIMIT_AUDIT_RESERVE_BYTES  (4 * KIB)   /* room in the queue for the end of each call */
#define LIMIT_AUDIT_FLOOR_CALLS    4           /* calls for which each tenant always has room */
#define LIMIT_AUDIT_FILE_MIN_BYTES (64 * KIB)  /* of audit_size: at least one line has room */
#define LIMIT_AUDIT_FILES_MAX      10000       /* full files that are kept */
#define LIMIT_AUDIT_TAIL_BYTES     (256 * KIB) /* searched for the last complete line */
#define LIMIT_AUDIT_UNAUTHORIZED   16          /* refused clients in a second; others are counted */
#define LIMIT_AUDIT_END_MS         3000        /* for the queue to be written when cloisterd ends */

/* health: openings of workspaces that fail in a row, and for how long they count */
#define LIMIT_HEALTH_OPENINGS    3
#define LIMIT_HEALTH_OPENINGS_MS 60000
#define LIMIT_HEALTH_HELD        2 /* workspaces whose killed processes the kernel holds */

/* Lost cells (supervisor/cell/cell_trouble.c): lines about one tenant in the log, in a time.
 */
#define LIMIT_TROUBLE_LINES    16
#define LIMIT_TROUBLE_LINES_MS 3600000
#define LIMIT_TROUBLE_BYTES    512 /* of the line about one cell */

/* Free disk and memory (supervisor/host/headroom.c). */
#define LIMIT_HEADROOM_SILENT_MS \
	20000 /* without an answer, the state's file system counts as hung */
/* of the files that its file system can have: state_files_min keeps no larger part free */
#define LIMIT_STATE_FILES_PART 20
#define LIMIT_HEADROOM_END_MS  1000 /* for the thread to end; it may hang in the file system */

#define LIMIT_NODE_NAME_BYTES 253 /* of a host that work moves to, as in DNS */

/* Sessions: commands that belong to a workspace (supervisor/session/). */
#define LIMIT_SESSIONS              512         /* running ones, of all tenants */
#define LIMIT_SESSIONS_BYTES        (256 * MIB) /* output that may be kept, of all tenants */
#define LIMIT_SESSIONS_TENANT_BYTES (64 * MIB)  /* of one tenant */
#define LIMIT_SESSION_OUTPUT_BYTES  (16 * MIB)  /* of one session */
#define LIMIT_SESSION_DEFAULT_BYTES (1 * MIB)   /* where its client asks for none */
#define LIMIT_SESSION_READ_BYTES    (1 * MIB)   /* one answer of session.read */
#define LIMIT_SESSION_CHUNKS        1024        /* in one answer */
#define LIMIT_SESSION_NAME_BYTES    64
#define LIMIT_SESSION_UNTIL         4    /* conditions of one session.read */
#define LIMIT_SESSION_UNTIL_BYTES   256  /* of bytes to be found */
#define LIMIT_SESSION_WAITERS       16   /* requests that wait for one session */
#define LIMIT_SESSION_INPUTS        1024 /* parts of input that one command has not taken */
#define LIMIT_SESSION_SIGNALS       32   /* and sizes of terminals that its worker has not read */
#define LIMIT_TERMINAL_SIDE         4096 /* rows, and columns, of a terminal */
#define LIMIT_TERMINAL_REST_MS      2000 /* for room for the rest of its output after its end */
#define LIMIT_SESSION_WAIT_MS       300000
#define LIMIT_SESSION_GRACE_MS      60000 /* from SIGTERM to SIGKILL, where session.end gives it */
#define LIMIT_SESSION_TIME_MS       (7ULL * 24 * 3600000) /* of lifetime, idleness and the like */
#define LIMIT_SESSION_SHOWN_BYTES   4096                  /* of a command, in a list */
#define LIMIT_TOOL_INPUT_BYTES      (256 * KIB)           /* of one send_input */
#define LIMIT_TOOL_KEYS             16                    /* remembered by a session */
#define LIMIT_TOOL_LIST_BYTES       200                   /* of a command, in a list for a model */
#define LIMIT_TOOL_LIST_NAMES       8                     /* of commands, in a refusal */
/* How long the answer to run_command with background waits for the end, and send_input for output.
 */
#define LIMIT_TOOL_LOOK_MS   1000
#define LIMIT_TOOL_SETTLE_MS 200 /* silence after output, before a model is shown it */

/* Ports that listen in a workspace (supervisor/workspace/network/listening.h). */
#define LIMIT_PORT_ASK_MS    75  /* how long an answer about a port is valid */
#define LIMIT_PORT_QUESTIONS 16  /* about ports of one workspace, in that time */
#define LIMIT_PORTS_LIST_MS  200 /* how long a list is valid */
#define LIMIT_PORTS_LISTED   64  /* in one workspace */

/* Connections of clients to ports of a workspace (worker/commands/forward.h). */
#define LIMIT_FORWARD_PORT_MIN       1024
#define LIMIT_FORWARDS               256     /* of one tenant */
#define LIMIT_FORWARDS_PER_WORKSPACE 128     /* each is a process of the workspace */
#define LIMIT_FORWARD_IDLE_MS        3600000 /* without a byte either way */
#define LIMIT_FORWARD_CONNECT_MS     10000   /* for the server to take the connection */
#define LIMIT_RELAY_REMAINS_MS       5000    /* to deliver what a closed end had sent */

/* The self-test (supervisor/selftest/selftest_verdict.c). */
/* until a run that was not done is repeated; each time twice as long */
#define LIMIT_SELFTEST_RETRY_MIN_MS 1000
#define LIMIT_SELFTEST_RETRY_MAX_MS 60000
/*
 * after so many runs that ended at one step because the host may lack something, the step has
 * failed; runs that follow each other sooner than this count as one
 */
#define LIMIT_SELFTEST_DOUBTS   3
#define LIMIT_SELFTEST_DOUBT_MS 120000

/* Calls with a key (supervisor/journal/, supervisor/call/keys/keys.c). */
#define LIMIT_KEY_BYTES            128        /* of one key */
#define LIMIT_KEY_RESULT_BYTES     (64 * KIB) /* of a result that is kept, in each of its two forms */
#define LIMIT_KEY_COMMAND_BYTES    (4 * KIB)  /* of the command that a kept result repeats */
#define LIMIT_KEYS_TENANT_BYTES    (64 * MIB) /* of a tenant's records */
#define LIMIT_KEYS_MAX             1000000    /* of a tenant */
#define LIMIT_KEY_HORIZON_MIN_MS   1000
#define LIMIT_KEY_HORIZON_MAX_MS   (30ULL * 24 * 3600000)
#define LIMIT_JOURNAL_RECORD_BYTES (136 * KIB) /* of one record */
#define LIMIT_JOURNAL_FILE_BYTES                                         \
	(1 * GIB) /* of each of the two files; then keyed calls are BUSY \
		   */
/* bytes that a tenant writes to one file, needed or not */
#define LIMIT_KEYS_WRITTEN_BYTES         (256 * MIB)
#define LIMIT_JOURNAL_QUEUE_BYTES        (32 * MIB) /* records that wait for the disk */
#define LIMIT_JOURNAL_QUEUE_TENANT_BYTES (8 * MIB)  /* those of one tenant */
#define LIMIT_JOURNAL_END_MS             3000       /* for them to be written when cloisterd ends */
#define LIMIT_JOURNAL_RETRY_MS           5000       /* between attempts while none can be written */

/* cloisterd's log (supervisor/base/log.c, supervisor/base/log_writer.c,
 * supervisor/base/log_relay.c). */
#define LIMIT_LOG_QUEUE_BYTES (256 * KIB) /* lines that wait for the reader of stderr */
#define LIMIT_LOG_LINE_BYTES  2048        /* of one line */
#define LIMIT_LOG_END_MS      1000        /* for the queue to be written, at start and at the end */

/* Reading the configuration (common/config/config_file.c, config_load.c). */
#define LIMIT_CONFIG_FILE_BYTES   (1 * MIB)
#define LIMIT_CONFIG_LINE_BYTES   4096
#define LIMIT_CONFIG_DROP_INS     256
#define LIMIT_CONFIG_LIST         256  /* values of one key */
#define LIMIT_READONLY_PATHS      16   /* of a tenant */
#define LIMIT_READONLY_BYTES      4096 /* of these paths, one a line */
#define LIMIT_CONFIG_TENANTS      1024
#define LIMIT_CONFIG_NAME_BYTES   40   /* of a tenant */
#define LIMIT_CONFIG_LOGGED       100  /* mistakes of one reload in the log; all are counted */
#define LIMIT_ROOT_PARENTS        2048 /* parents of a requested directory */
#define LIMIT_ACCOUNTS_REMEMBERED 4096 /* names that were resolved at start */

/* Looking up directories (worker/spawner/job/path_resolver.c). */
#define LIMIT_PATH_RESOLVERS            64   /* processes, but for late ones, which are killed */
#define LIMIT_PATH_RESOLVERS_KEPT       16   /* of them for tenants that have none */
#define LIMIT_PATH_RESOLVERS_PER_TENANT 8    /* path resolvers of one tenant, with its late ones */
#define LIMIT_PATH_RESOLVERS_IDLE       2    /* idle path resolvers that are kept */
#define LIMIT_LOOK_UPS_AT_ONCE          2    /* of a tenant; silent ones are not counted */
#define LIMIT_LOOK_UPS_WAITING          512  /* of a tenant; further ones are refused */
#define LIMIT_LOOK_UPS_WAITING_TOTAL    2048 /* of all tenants */
#define LIMIT_LOOK_UPS_KEPT             256  /* of them for tenants that have none */

/*
 * Requests for cells, files processes and directories that the spawner has been sent and that cost
 * it time (supervisor/cell/spawner_link.c). The others wait in cloisterd.
 */
#define LIMIT_SPAWNER_REQUESTS           4
#define LIMIT_SPAWNER_REQUESTS_OF_TENANT 2

/* Kept homes (worker/spawner/job/home_sweep.c). */
#define LIMIT_HOME_FILES 1000000 /* files and directories of one */
#define LIMIT_HOMES_GONE 1024    /* former homes of a tenant that are not cleared yet */

/*
 * Files processes that start in existing cells at once (worker/spawner/cell/cell_starts.c), whose
 * workers can hold them up. Starts in new cells, where nothing hostile has run yet, need no place.
 */
#define LIMIT_FILES_STARTS           256
#define LIMIT_FILES_STARTS_KEPT      64 /* of them for tenants that have none */
#define LIMIT_FILES_STARTS_OF_TENANT 32 /* further requests must come again */

/*
 * System mode (supervisor/host/id_range.c, worker/spawner/). The ids stay below 65534, which the
 * kernel reports for ids that are not mapped: user_namespaces(7).
 */
#define LIMIT_IDS             60000 /* ids of a subordinate range that are used */
#define LIMIT_REFUSALS_LOGGED 1000  /* connections to the socket for cloister-egress */
/* lines of the log of cloister-spawner or cloister-egress about one tenant */
#define LIMIT_REFUSALS_LOGGED_OF_TENANT 100

/* where killed processes wait (worker/spawner/whereabouts.c): threads that are looked at */
#define LIMIT_WHEREABOUTS_TASKS 256
#define LIMIT_WHEREABOUTS_BYTES 128

/* Disk classes (common/config/disk_classes.c). */
#define LIMIT_DISK_CLASSES         32
#define LIMIT_DISK_CLASS_MIN_BYTES (1 * MIB) /* of a workspace */
#define LIMIT_DISK_CLASS_MIN_FILES 16        /* of a workspace */

/*
 * Largest and least values in the configuration (supervisor/config/config_keys.c), where they are
 * not one of the limits above.
 */
#define LIMIT_CONNECTIONS_MAX        4096
#define LIMIT_TENANT_CALLS_MAX       65536
#define LIMIT_TENANT_COMMANDS_MAX    4096
#define LIMIT_TENANT_QUEUE_MAX       65536
#define LIMIT_TENANT_EXISTING_MAX    1000000
#define LIMIT_WORKSPACE_IDLE_MAX_MS  (24 * 3600000ULL)
#define LIMIT_DRAIN_MAX_MS           (3600000ULL)
#define LIMIT_HANDOVER_PAUSE_MS      2000 /* in which no client is accepted, for all to settle */
#define LIMIT_RETIRE_MS              (30 * 60000ULL)
#define LIMIT_RETIRE_MAX_MS          (24 * 3600000ULL)
#define LIMIT_STREAM_KEPT_MAX_BYTES  (8 * MIB)
#define LIMIT_STREAM_TOTAL_MAX_BYTES (16 * GIB)
#define LIMIT_MEMORY_MAX_BYTES       (16384 * GIB)
#define LIMIT_PROCESSES_MAX          1048576
#define LIMIT_CPU_QUOTA_MAX_PERCENT  1000000
#define LIMIT_TMP_MIN_BYTES          (1 * MIB) /* least tmp_size and file_size */
#define LIMIT_TMP_MAX_BYTES          (1024 * GIB)
#define LIMIT_FILE_SIZE_MAX_BYTES    (16384 * GIB)

/*
 * Limits of libcloister, which does not trust the service. A line of the service has at most
 * LIMIT_LINE_BYTES.
 */
#define LIMIT_CLIENT_VALUES       (2 * MIB)   /* in one message */
#define LIMIT_CLIENT_MEMORY_BYTES (256 * MIB) /* for the values of one message */
#define LIMIT_CLIENT_UNSENT_BYTES (64 * MIB)  /* requests that wait to be sent */
#define LIMIT_CLIENT_TURN_BYTES   (1 * MIB)   /* read by one cloister_dispatch() */
#define LIMIT_CLIENT_CONNECT_MS   10000       /* for the service to accept the connection */

/* cloister-egress (egress/, common/wire/wire_egress.h). */
#define LIMIT_EGRESS_HOST_BYTES      253 /* of a host's name, without a trailing dot: RFC 1035 */
#define LIMIT_EGRESS_RULE_BYTES      300 /* of one rule as it was written */
#define LIMIT_EGRESS_REASON_BYTES    512 /* of the sentence in EGRESS_OPEN_FAILED */
#define LIMIT_EGRESS_NARROWED_BYTES  (16 * KIB) /* of the rules that one workspace asks for */
#define LIMIT_EGRESS_RULES           4096       /* of one list, with those of its sets */
#define LIMIT_EGRESS_HEAD_BYTES      (32 * KIB) /* of the first head of a proxy's client */
#define LIMIT_EGRESS_HELLO_BYTES     (16 * KIB) /* of a TLS ClientHello */
#define LIMIT_EGRESS_FIELDS          256        /* fields of that head */
#define LIMIT_EGRESS_HEAD_MS         10000      /* for that head, and for the ClientHello */
#define LIMIT_EGRESS_CONNECT_MS      10000      /* for a host to be found and to be connected to */
#define LIMIT_EGRESS_IDLE_MS         3600000    /* without a byte in either direction */
#define LIMIT_EGRESS_LINGER_MS       2000       /* for a client to read its refusal */
#define LIMIT_EGRESS_ADDRESSES       8          /* of a host that are tried */
#define LIMIT_EGRESS_CELLS           4096
#define LIMIT_EGRESS_FORMER          3 /* processes for generations of cloisterd before the newest */
#define LIMIT_EGRESS_CALLS           LIMIT_TENANT_CALLS_MAX /* of a cell */
#define LIMIT_EGRESS_EXTRA           64 /* connections of a tenant beyond its limit, to refuse */
#define LIMIT_EGRESS_BUFFER_BYTES    (128 * KIB) /* of a socket's buffers; the kernel doubles it */
#define LIMIT_EGRESS_WIDE            64   /* connections of a tenant to hosts without that bound */
#define LIMIT_EGRESS_SHOWN_BYTES     2048 /* of the rules that a refusal lists */
#define LIMIT_EGRESS_NETWORKS        256  /* of egress_private */
#define LIMIT_EGRESS_TRIED           1024 /* of these, of all tenants, for a filter that refuses */
#define LIMIT_EGRESS_SECRETS         64   /* of a tenant */
#define LIMIT_EGRESS_SECRET_BYTES    (8 * KIB)  /* of the content of a secret's file */
#define LIMIT_EGRESS_FIELD_BYTES     128        /* of its header's name, and of what is before it */
#define LIMIT_EGRESS_TLS_BYTES       (16 * KIB) /* of TLS read at once, and the rest of a record */
#define LIMIT_EGRESS_TLS_MESSAGES    64         /* of a secret's host that are no data */
#define LIMIT_EGRESS_PATH_BYTES      1024       /* of that file, and of the one of certificates */
#define LIMIT_EGRESS_QUEUE_BYTES     (64 * KIB) /* unread events, beyond which nothing is accepted */
#define LIMIT_EGRESS_CONNECTIONS_MAX 1000000    /* egress_connections and egress_connect_rate */

/* cloister-gate (gate/). */
#define LIMIT_KEY_ID_BYTES         64  /* of a key's id, in connection.bind and the audit log */
#define LIMIT_GATE_LISTENERS       16  /* addresses, and those of a proxy */
#define LIMIT_GATE_NAMES           256 /* hosts, and origins */
#define LIMIT_GATE_CONNECTIONS_MAX 65536
#define LIMIT_GATE_FAILED_KEYS_MAX 1000000
#define LIMIT_GATE_TIME_MAX_MS     3600000
#define LIMIT_GATE_HEAD_BYTES      (16 * KIB) /* memory of a connection, for a head and its parts */
#define LIMIT_GATE_HEAD_SLACK      1024       /* of it, for what libmicrohttpd adds */
#define LIMIT_GATE_FIELD_COST      64         /* of it, for a field of a request beside its text */
#define LIMIT_GATE_ANSWER_FIELDS   127        /* headers of an answer */
#define LIMIT_GATE_PORT_HEAD_BYTES (32 * KIB) /* of a server's head, with those of status 1xx */
#define LIMIT_GATE_PORT_IN_BYTES   (64 * KIB) /* of a body that its server has not taken yet */
#define LIMIT_GATE_PORT_OUT_BYTES \
	(512 * KIB) /* of an answer that begins before that body has come */
#define LIMIT_GATE_QUEUE_BYTES      (64 * KIB)  /* of an answer, beyond which its face waits */
#define LIMIT_GATE_BLOCK_BYTES      (2 * KIB)   /* sent at once of an answer of unknown length */
#define LIMIT_GATE_BIG_BLOCK_BYTES  (64 * KIB)  /* of an answer with a length */
#define LIMIT_GATE_SOCKET_BYTES     (128 * KIB) /* of a socket's buffers; the kernel doubles it */
#define LIMIT_GATE_DROPPED_BYTES    (16 * MIB)  /* of a body that nobody wants, before the end */
#define LIMIT_GATE_RELAY_BYTES      (64 * KIB)  /* read ahead in each direction of a relay */
#define LIMIT_GATE_BACKLOG          512         /* of its listening sockets */
#define LIMIT_GATE_BIND_MS          10000       /* for cloisterd to accept a connection's binding */
#define LIMIT_GATE_BIND_BYTES       4096        /* of its answer */
#define LIMIT_GATE_ADDRESSES        1024        /* with failed keys that are remembered */
#define LIMIT_GATE_KEYS             4096        /* in the file of keys */
#define LIMIT_GATE_KEYS_BYTES       (4 * MIB)   /* of that file */
#define LIMIT_GATE_LOOKUPS          4           /* of a tenant's sandboxes at once */
#define LIMIT_GATE_LOOKUPS_WAITING  256         /* for one of these to end */
#define LIMIT_GATE_JWT_BYTES        (8 * KIB)   /* of a token */
#define LIMIT_GATE_JWT_KEYS         64          /* in the file of its issuer's keys */
#define LIMIT_GATE_JWT_FILE_BYTES   (256 * KIB) /* of that file */
#define LIMIT_GATE_JWT_LEEWAY_S     30          /* that the issuer's clock may be ahead */
#define LIMIT_GATE_MEMORY_BYTES     (256 * MIB) /* of all requests (gate/tenant_share.h) */
#define LIMIT_GATE_MCP_SESSIONS     64          /* of a key, by MCP with sessions */
#define LIMIT_GATE_MCP_IDLE_MS      1800000     /* of such a session without a request or stream */
#define LIMIT_GATE_MCP_BEAT_MS      15000       /* between signs of life on a stream of events */
#define LIMIT_GATE_MCP_BODY_BYTES   (4 * MIB)   /* of a message; a longer one would stop the loop */
#define LIMIT_GATE_MCP_UNREAD_BYTES (1 * MIB)   /* unread answers of a session; then it waits */
#define LIMIT_GATE_MCP_REPLAY_BYTES \
	(1 * MIB) /* of a session's events that are kept for resumption */
#define LIMIT_GATE_MCP_REPLAY_TENANT_BYTES (16 * MIB) /* of those of a tenant's sessions */
#define LIMIT_GATE_REVOKE_MS               500 /* at most, until a changed file is read again */

/* A body of multipart/form-data (gate/multipart.h). */
#define LIMIT_MULTIPART_BOUNDARY_BYTES 200       /* RFC 2046 has 70 */
#define LIMIT_MULTIPART_HEAD_BYTES     (8 * KIB) /* of a part */

/* Descriptors that a tenant's processes share (supervisor/base/shared_fd.h). */
#define LIMIT_SHARED_FD_THREADS      4   /* of a tenant */
#define LIMIT_SHARED_FD_MORE_THREADS 64  /* of all tenants, beyond the first of each */
#define LIMIT_SHARED_FDS_CLOSING     512 /* of a tenant; with more its commands do not begin */
/* for a read or a write that does not wait, until the process that makes it wait is killed */
#define LIMIT_SHARED_FD_HELD_MS 20000

/* CPU time of system calls that wake a peer (common/wake_cost.h). */
#define LIMIT_WAKE_COST_US  5000 /* CPU time above which a call is expensive */
#define LIMIT_WAKE_FRESH_US 1000 /* error of that time, which may be too short by it */
#define LIMIT_WAKES_DEAR    3    /* expensive calls in a row that end the peer */
/* CPU time of expensive calls in so many milliseconds: of the pipes of a tenant's commands, of the
 * channel of a workspace's process, of the connections of a cell in cloister-egress */
#define LIMIT_WAKES_DEAR_US 1000000
#define LIMIT_WAKES_DEAR_MS 10000
/* the least part of it that a workspace of the tenant is ended for */
#define LIMIT_WAKES_DEAR_OWN_US 100000
/* for which such a client's user is refused, at first and at most: dear_users.h */
#define LIMIT_DEAR_USER_MS      10000
#define LIMIT_DEAR_USER_MOST_MS 640000
#define LIMIT_DEAR_CELL_MS      60000 /* for which such a cell has no connections */
#define LIMIT_DEAR_USERS        64    /* that are known at once */
