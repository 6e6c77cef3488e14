/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between cloisterd and the spawner. Down go fixed-size requests with the descriptors
 * of one cell (the worker and files process of a workspace); up comes one answer for each, with the
 * pidfds of the processes. The call field of the header is the number of the request, and the
 * number of SPAWNER_OPEN identifies the cell from then on.
 */

#include "common/cell_limits.h"
#include "common/directory_parents.h"
#include "common/layer_stack.h"
#include "common/limits.h"
#include "common/text.h"
#include "common/wire/wire.h"

#include <errno.h>

enum spawner_message {
	SPAWNER_OPEN = 1, /* down: struct spawner_open, SPAWNER_OPEN_FDS descriptors */
	/* down: a new files process for a cell that has lost its own; SPAWNER_OPEN_FILES_FDS */
	SPAWNER_OPEN_FILES,
	/*
	 * down: start a spare cell, without a workspace; the limits are provisional.
	 * SPAWNER_PREPARE_FDS
	 */
	SPAWNER_PREPARE,
	SPAWNER_ASSIGN, /* down: give a workspace to a spare cell; SPAWNER_ASSIGN_FDS */
	/* down, system mode, once: cloisterd has written the id maps; no payload */
	SPAWNER_MAPPED,
	SPAWNER_RELOAD,  /* down: the configuration has changed; no payload, no answer */
	SPAWNER_LOOK_UP, /* down: struct spawner_look_up, the directory to start from */
	/* down: struct spawner_look_up: the managed workspace "path" of "tenant" was removed */
	SPAWNER_REMOVED,
	/*
	 * down: struct spawner_look_up: clear the dropped layer or tree "path" in the directory
	 * "tenant" of managed workspaces ("below": of templates); no answer
	 */
	SPAWNER_DROPPED,
	/* down: struct spawner_copy: make a template of a workspace; SPAWNER_FREEZE_FDS */
	SPAWNER_FREEZE,
	SPAWNER_FORK, /* down: struct spawner_copy: make a workspace of a template; none */
	/*
	 * down: the private tmpfs of the cell in the header's call is not needed any more; no
	 * payload, no answer
	 */
	SPAWNER_LET_GO,
	/* down: struct spawner_copy: make a template of a directory, which comes with it */
	SPAWNER_IMPORT,
	/* down: struct spawner_copy: make a template of an archive or image; SPAWNER_UNPACK_FDS */
	SPAWNER_UNPACK,
	/*
	 * down: whether another generation of cloisterd uses the state too (1) or not (0) is in the
	 * header's call; no payload, no answer
	 */
	SPAWNER_BESIDE,
	/*
	 * down: struct spawner_look_up: two layers "path" in the directory "tenant" of managed
	 * workspaces become one; no answer
	 */
	SPAWNER_FOLD,
	/*
	 * down: struct spawner_look_up: measure the template "path" in the directory "tenant" of
	 * templates; no answer
	 */
	SPAWNER_MEASURE,
	/*
	 * down, system mode: struct spawner_look_up: load the template "path" in the directory
	 * "tenant" of templates into memory, for forks above it. The answer is SPAWNER_COPIED, with
	 * the errors of worker/spawner/job/template_memory.h
	 */
	SPAWNER_LOAD,
	/*
	 * down: pidfds of killed processes that have not ended; no payload. SPAWNER_WHERE_MOST
	 * descriptors at most. The answer is SPAWNER_COPIED, whose step says where they wait
	 */
	SPAWNER_WHERE,
	SPAWNER_READY = 32,   /* up: the spawner is in its namespace; no payload */
	SPAWNER_FAILED,       /* up: struct setup_failure: the spawner's set-up failed */
	SPAWNER_OPENED,       /* up: no payload, SPAWNER_OPENED_FDS, and the cell's sockets */
	SPAWNER_OPEN_FAILED,  /* up: struct setup_failure */
	SPAWNER_ASSIGNED,     /* up: no payload; the cell's sockets */
	SPAWNER_FILES_OPENED, /* up: no payload, one pidfd: the new files process */
	SPAWNER_UNSHARED,     /* up, system mode: the spawner waits for its id maps; no payload */
	SPAWNER_LOOKED_UP,    /* up: struct spawner_looked_up, the directory, O_PATH */
	SPAWNER_COPIED,       /* up: struct setup_failure; error 0: the tree is there */
	SPAWNER_WORKED,       /* up, unasked: struct spawner_worked */
	/*
	 * up: a request for a cell, a files process or a directory waits for something that a
	 * tenant can delay, a file system or a start, and costs the spawner no time meanwhile; no
	 * payload. Its answer follows
	 */
	SPAWNER_WAITS,
};

/* The order of the descriptors in SPAWNER_OPEN. */
enum {
	SPAWNER_OPEN_ROOT, /* O_PATH: the directory that cloisterd checked */
	SPAWNER_OPEN_WORKER_DOWN,
	SPAWNER_OPEN_WORKER_UP,
	SPAWNER_OPEN_FILES_DOWN,
	SPAWNER_OPEN_FILES_UP,
	SPAWNER_OPEN_FDS,
};

/* The order of the descriptors in SPAWNER_OPEN_FILES. */
enum {
	SPAWNER_OPEN_FILES_ROOT, /* as SPAWNER_OPEN_ROOT */
	/* pidfd of the worker whose namespaces the files process joins */
	SPAWNER_OPEN_FILES_WORKER,
	SPAWNER_OPEN_FILES_DOWN_AGAIN,
	SPAWNER_OPEN_FILES_UP_AGAIN,
	SPAWNER_OPEN_FILES_FDS,
};

/* The order of the descriptors in SPAWNER_PREPARE, whose answer is SPAWNER_OPENED. */
enum {
	SPAWNER_PREPARE_WORKER_DOWN,
	SPAWNER_PREPARE_WORKER_UP,
	SPAWNER_PREPARE_FILES_DOWN,
	SPAWNER_PREPARE_FILES_UP,
	SPAWNER_PREPARE_FDS,
};

/* The order of the descriptors in SPAWNER_ASSIGN. */
enum {
	SPAWNER_ASSIGN_ROOT,   /* as SPAWNER_OPEN_ROOT */
	SPAWNER_ASSIGN_WORKER, /* pidfd of the spare cell's worker */
	SPAWNER_ASSIGN_FDS,
};

/* The order of the descriptors in SPAWNER_FREEZE. */
enum {
	SPAWNER_FREEZE_ROOT,   /* as SPAWNER_OPEN_ROOT */
	SPAWNER_FREEZE_WORKER, /* pidfd of the worker of its cell, which is open */
	SPAWNER_FREEZE_FDS,
};

/* The pair of worker and files process. */
#define SPAWNER_WHERE_MOST 2

/* The order of the descriptors in SPAWNER_UNPACK. */
enum {
	SPAWNER_UNPACK_SOURCE, /* O_PATH: the archive, or the directory with the image */
	SPAWNER_UNPACK_REPORT, /* the pipe to which cloister-unpack writes (unpack_report.h) */
	SPAWNER_UNPACK_FDS,
};

/*
 * The sockets of a cell, all made in its network namespace before any program was executed there.
 * The sockets for cloister-egress, which a cell with a proxy_port has, are in the order of enum
 * egress_socket.
 */
enum cell_socket {
	CELL_SOCKET_PROXY,   /* TCP, listens at that port of every address */
	CELL_SOCKET_DNS,     /* UDP, 127.0.0.1:53 */
	CELL_SOCKET_HTTP,    /* TCP, listens at 127.1.0.1:80 */
	CELL_SOCKET_HTTPS,   /* TCP, listens at 127.1.0.1:443 */
	CELL_SOCKET_DNS_TCP, /* TCP, listens at 127.0.0.1:53 */
	/*
	 * NETLINK_SOCK_DIAG, by which cloister-egress asks whose a connection is. It is left out
	 * where commands have no cgroups, or the kernel or a filter around cloister gives none.
	 */
	CELL_SOCKET_DIAG,
	CELL_SOCKETS_EGRESS,
	/*
	 * NETLINK_SOCK_DIAG, by which cloisterd asks which ports listen. Every cell has it, unless
	 * the kernel or a filter around cloister gives none; then CELL_SOCKET_DIAG is left out,
	 * too.
	 */
	CELL_SOCKET_PORTS = CELL_SOCKETS_EGRESS,
	CELL_SOCKETS,
	CELL_SOCKETS_LEAST = CELL_SOCKET_DIAG, /* of those for cloister-egress */
};

/* The order of the descriptors in SPAWNER_OPENED. */
enum {
	SPAWNER_OPENED_WORKER, /* pidfd */
	SPAWNER_OPENED_FILES,  /* pidfd */
	SPAWNER_OPENED_FDS,
	/*
	 * Only for SPAWNER_OPEN: the cell's sockets, in the order of enum cell_socket without gaps;
	 * see cell_sockets_place(). A spare cell's come with SPAWNER_ASSIGNED.
	 */
	SPAWNER_OPENED_SOCKETS = SPAWNER_OPENED_FDS,
	SPAWNER_OPENED_MOST = SPAWNER_OPENED_SOCKETS + CELL_SOCKETS,
};

enum workspace_kind {
	WORKSPACE_MANAGED = 1, /* seen where its client wants */
	WORKSPACE_DIRECTORY,   /* seen at its own path */
	WORKSPACE_ROOTFS,      /* seen as / */
	WORKSPACE_KIND_END,
};

struct spawner_open {
	uint8_t kind; /* enum workspace_kind */
	struct workspace_limits limits;
	/*
	 * Port at which the cell's commands reach cloister-egress; 0: the cell has no network. A
	 * spare cell has the port that SPAWNER_PREPARE named.
	 */
	uint32_t proxy_port;
	/*
	 * An earlier cell of the workspace, whose private tmpfs this one gets, if the spawner has
	 * it; 0: none.
	 */
	uint64_t kept;
	/*
	 * The layers of a managed workspace with checkpoints; empty: only its directory is shown.
	 */
	struct layer_stack layers;
	/* Of a managed workspace: where it is seen; "": at SHOWN_AT_DEFAULT, or as_root. */
	char shown_at[LIMIT_SHOWN_AT_BYTES + 1];
	bool as_root;     /* of a managed workspace: it is a whole root, and seen as / */
	bool root_inside; /* of such a one: its id is 0 to commands (root_inside = yes) */
	/*
	 * Tenant of the workspace, NUL-terminated. Empty for a workspace without a tenant of the
	 * configuration, which gets nothing that such a tenant's section adds.
	 */
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
};

/*
 * The error in SPAWNER_OPEN_FAILED when the configuration, or the ids of other workspaces, forbid
 * the cell; the step gives the reason. No system call in the spawner fails with this errno.
 */
#define SPAWNER_REFUSAL EKEYREJECTED

/* The error when the cell can be made later, without a change of anybody's. As above. */
#define SPAWNER_NOT_NOW EALREADY

/* The error when the template of a fork is not in memory any more. As above. */
#define SPAWNER_NOT_LOADED ENOMEDIUM

/* Asks for a directory to be looked up by a process that may wait for its file system. */
struct spawner_look_up {
	/* stay below the directory that came with the request; otherwise that directory is "/" */
	bool below;
	bool file;          /* a regular file will do as well */
	struct text tenant; /* the tenant that asks */
	struct text path;   /* relative to that directory */
};

/* The result of a look-up. */
enum looked_up_kind {
	LOOKED_UP_DIRECTORY,
	LOOKED_UP_IMAGE, /* a directory with the file "oci-layout"; told only with "file" */
	LOOKED_UP_FILE,  /* a regular file, without its parents */
	LOOKED_UP_END,
};

/* The result: whether cloisterd's user may enter the directory, and its parents. */
struct spawner_looked_up {
	uint8_t kind;   /* enum looked_up_kind */
	bool may_enter; /* cloisterd's own user may search it */
	uint32_t n_parents;
	struct directory_id parents[LIMIT_ROOT_PARENTS];
};

/*
 * Asks for a tree to be copied. SPAWNER_FREEZE: from a workspace to @target in the templates of
 * @tenant; SPAWNER_IMPORT and SPAWNER_UNPACK: from the host to there; SPAWNER_FORK: from the
 * template
 * @template to @target in its managed workspaces. The target is an empty directory of cloisterd's,
 * whose name begins with TREE_UNFINISHED.
 */
struct spawner_copy {
	struct text tenant; /* the name of its directory */
	struct text template, target;
	uint64_t max_bytes, max_files;
};

/* A report of the spawner about work in the background. */
struct spawner_worked {
	/* SPAWNER_DROPPED: a removed workspace's own directory was cleared, or could not be;
	 * SPAWNER_FOLD: two layers were made one, or could not be; SPAWNER_MEASURE: a template was
	 * measured; SPAWNER_LOAD: it was loaded, or could not be, or with an empty path one was
	 * given up */
	uint8_t what;
	struct text tenant; /* the name of its directory */
	struct text path;   /* as it was told */
	uint32_t error;     /* errno, positive; 0: it is done */
	uint64_t us;        /* how long it took */
	/* that a template takes on disk; SPAWNER_LOAD: that all of the tenant's take in memory */
	uint64_t bytes;
};

/*
 * The error of a step that the workspace's files prevent; the step is a sentence that says what is
 * wrong and what to do. No system call in a set-up fails with this errno.
 */
#define SETUP_UNFIT EMEDIUMTYPE

/* A set-up step that failed in the spawner, worker or files process. */
struct setup_failure {
	struct text step;
	uint32_t error; /* errno, positive */
};

/* More than the longest struct spawner_open takes on the wire. */
#define SPAWNER_OPEN_BYTES                                                                  \
	(128 + LIMIT_CONFIG_NAME_BYTES + LIMIT_TEMPLATE_TREE_BYTES + LIMIT_SHOWN_AT_BYTES + \
		LIMIT_LAYERS * sizeof(uint32_t))

WIRE_MESSAGE(spawner_open);
WIRE_MESSAGE(spawner_look_up);
WIRE_MESSAGE(spawner_looked_up);
WIRE_MESSAGE(spawner_copy);
WIRE_MESSAGE(spawner_worked);
WIRE_MESSAGE(setup_failure);

/**
 * Puts the @n sockets of a cell, which came without gaps, in the places of enum cell_socket; -1:
 * the cell has no such socket. Returns false, with @ret untouched, if no cell has so many.
 */
bool cell_sockets_place(const int *fds, unsigned n, int ret[CELL_SOCKETS]);

/** Returns the kind by which the processes of the cell show the workspace. */
static inline enum workspace_kind spawner_open_shown(const struct spawner_open *message)
{
	return message->as_root ? WORKSPACE_ROOTFS : (enum workspace_kind)message->kind;
}

/** Returns "managed", "directory" or "rootfs"; NULL for another number. */
const char *workspace_kind_name(enum workspace_kind kind);
/**
 * Returns the path inside at which the workspace of @message, at @path of the host, is seen. Static
 * storage, or borrowed from one of them.
 */
const char *spawner_open_visible(const struct spawner_open *message, const char *path);
/** Returns the kind called @name, or 0. */
enum workspace_kind workspace_kind_by_name(struct text name);
