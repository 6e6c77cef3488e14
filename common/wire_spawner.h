/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What cloisterd and cloister-spawner say to each other: fixed-size requests down with the
 * descriptors of one cell, one answer up with the pidfds of its processes. The header's call is the
 * request's number, and by SPAWNER_OPEN's the cell is known.
 */

#include "common/cell_limits.h"
#include "common/directory_parents.h"
#include "common/limits.h"
#include "common/text.h"
#include "common/wire.h"

#include <errno.h>

enum spawner_message {
	SPAWNER_OPEN = 1,   /* down: struct spawner_open, SPAWNER_OPEN_FDS descriptors */
	SPAWNER_OPEN_FILES, /* down: the same for a cell that has lost its own,
			       SPAWNER_OPEN_FILES_FDS */
	SPAWNER_PREPARE, /* down: a cell that waits; the limits may change. SPAWNER_PREPARE_FDS */
	SPAWNER_ASSIGN,  /* down: what a waiting one is for; SPAWNER_ASSIGN_FDS */
	SPAWNER_MAPPED,  /* down, system mode, once: its ids are mapped; no payload */
	SPAWNER_RELOAD,  /* down: the configuration has changed; no payload, no answer */
	SPAWNER_LOOK_UP, /* down: struct spawner_look_up, a directory to look up from */
	SPAWNER_READY = 32,   /* up: the spawner is in its namespace; no payload */
	SPAWNER_FAILED,       /* up: struct setup_failure: it could not get there */
	SPAWNER_OPENED,       /* up: no payload, SPAWNER_OPENED_FDS descriptors */
	SPAWNER_OPEN_FAILED,  /* up: struct setup_failure */
	SPAWNER_ASSIGNED,     /* up: no payload */
	SPAWNER_FILES_OPENED, /* up: no payload, one pidfd: the new files process */
	SPAWNER_UNSHARED,     /* up, system mode: it waits for its ids; no payload */
	SPAWNER_LOOKED_UP,    /* up: struct spawner_looked_up, the directory, O_PATH */
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
	SPAWNER_OPEN_FILES_ROOT,   /* as SPAWNER_OPEN_ROOT */
	SPAWNER_OPEN_FILES_WORKER, /* pidfd: whose namespaces the files process joins */
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
	SPAWNER_ASSIGN_WORKER, /* pidfd: the waiting cell's */
	SPAWNER_ASSIGN_FDS,
};

/* The order of the descriptors in SPAWNER_OPENED. */
enum {
	SPAWNER_OPENED_WORKER, /* pidfd */
	SPAWNER_OPENED_FILES,  /* pidfd */
	SPAWNER_OPENED_FDS,
};

/* No tenant of a configuration and no workspace can have this name. */
#define SELFTEST_TENANT ".selftest"

enum workspace_kind {
	WORKSPACE_MANAGED = 1, /* seen at /workspace */
	WORKSPACE_DIRECTORY,   /* seen at its own path */
	WORKSPACE_ROOTFS,      /* seen as / */
	WORKSPACE_KIND_END,
};

struct spawner_open {
	uint8_t kind; /* enum workspace_kind */
	struct workspace_limits limits;
	/* Whose workspace it is, NUL-terminated. Empty: nobody's in particular, and then nothing is
	 * shown to it that a tenant's configuration adds. */
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
};

/* The error of a cell that the spawner refuses because the configuration or the ids of others
 * forbid it: the step is the reason. No system call on its way fails with this one. */
#define SPAWNER_REFUSAL EKEYREJECTED

/* A directory to be looked up by somebody who can wait for its file system. */
struct spawner_look_up {
	bool below; /* no further than below the directory that came along; otherwise that is "/" */
	struct text tenant; /* for whom */
	struct text path;   /* from there */
};

/* What was found: which directories it is and lies in. */
struct spawner_looked_up {
	bool may_enter; /* the user that we are */
	size_t n_parents;
	struct directory_id parents[LIMIT_ROOT_PARENTS];
};

/* A set-up step that failed, in the spawner, worker or files process. */
struct setup_failure {
	struct text step;
	uint32_t error; /* errno, positive */
};

void spawner_open_put(struct wire_writer *writer, const struct spawner_open *message);
int spawner_open_get(struct text payload, struct spawner_open *ret);
void spawner_look_up_put(struct wire_writer *writer, const struct spawner_look_up *message);
int spawner_look_up_get(struct text payload, struct spawner_look_up *ret);
void spawner_looked_up_put(struct wire_writer *writer, const struct spawner_looked_up *message);
int spawner_looked_up_get(struct text payload, struct spawner_looked_up *ret);
void setup_failure_put(struct wire_writer *writer, const struct setup_failure *message);
int setup_failure_get(struct text payload, struct setup_failure *ret);

/** "managed", "directory" or "rootfs"; NULL for another number. */
const char *workspace_kind_name(enum workspace_kind kind);
/** Where a workspace of @kind at @path of the host is seen inside. Static storage or @path itself.
 */
const char *workspace_visible_root(enum workspace_kind kind, const char *path);
/** The kind called @name, or 0. */
enum workspace_kind workspace_kind_by_name(struct text name);
