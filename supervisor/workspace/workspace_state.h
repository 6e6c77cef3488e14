/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of a workspace, for workspace_*.c: workspace_calls.c has its calls, workspace_life.c
 * its cell; and for workspaces.c, the set of workspaces.
 */

#include "common/budget.h"
#include "common/layer_stack.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/cell/cell.h"
#include "supervisor/cell/cell_usage.h"
#include "supervisor/workspace/disk_use.h"
#include "supervisor/workspace/managed/properties.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_entry.h"

/* Commands are stopped while the workspace is measured: workspace_pause.h. */
struct workspace_pause {
	enum {
		PAUSE_NONE,
		PAUSE_ASKED,  /* the worker has not said that commands are stopped */
		PAUSE_WRITES, /* they are; calls that write are waited for */
		PAUSE_ON,     /* the files process measures */
	} state;
	uint64_t number;
	int64_t began;      /* as clock_now() */
	int64_t stopped_ns; /* by all that are over */
	struct timer timer;
};

/* The changes of a call are to be decided on: workspace_preview.h. */
struct workspace_preview {
	enum {
		PREVIEW_MAKING,
		PREVIEW_OPEN,
		PREVIEW_ENDING,
		PREVIEW_FAILED,
	} state;
	bool unwanted; /* it is undone as soon as it is OPEN */
	/* of one that is unwanted */
	void (*undone)(void *context, enum tool_error error, const char *why);
	void *context;
	enum tool_error error; /* of one that has FAILED */
	char *why;
};

struct workspace {
	LIST_ENTRY(workspace) entry;
	struct workspaces *all;
	struct workspace_root root;
	enum workspace_kind kind;
	bool as_root;          /* a managed one that is a whole root */
	struct tenant *tenant; /* held */
	char *name;
	size_t users;
	size_t attended;          /* connections that have it open */
	int64_t unattended_since; /* as clock_now(), if there are none */
	struct cell *cell;
	struct shared_fd_sum *fd_sum;          /* for what its processes share with cloisterd */
	struct layer_stack layers;             /* that its cell shows; empty: its directory alone */
	struct workspace_swap *swap;           /* its cell is being exchanged; NULL: it is not */
	struct workspace_freeze *freeze;       /* a template is made of it; NULL: none is */
	struct workspace_preview *preview;     /* NULL: no changes are to be decided on */
	TAILQ_HEAD(, workspace_entry) entries; /* in the order in which they came */
	/* Begun calls by number, so that a frame costs the same however many calls wait. */
	LIST_HEAD(, workspace_entry) begun[WORKSPACE_BEGUN_LISTS];
	unsigned running[CALL_CLASSES];
	struct sched_queues queues;
	struct timer idle;
	TAILQ_ENTRY(workspace) idle_link;    /* if it is_idle: its cell is open for no call */
	bool is_idle, leaves;                /* leaves: its idle cell is to end for others */
	bool starves;                        /* commands wait for tasks */
	enum cell_status descriptors_status; /* of its cell, when descriptors were counted */
	uint64_t descriptors;                /* that it is counted with: workspace_room.h */
	uint64_t tasks; /* that it holds while commands run: workspace_tasks.h */
	TAILQ_ENTRY(workspace) starving_link; /* if it starves */
	int64_t last_used;                    /* as clock_now() */
	int64_t made_ms; /* birth of its directory, since the epoch; 0: not known */
	struct cell_look look;
	struct disk_use disk;
	struct workspace_pause pause; /* of its commands, for disk */
	size_t disk_counted;          /* of disk's bytes, in its tenant's use */
	/* bytes of streams that write, and of those that ended since the last measurement */
	uint64_t streaming, streamed;
	uint64_t ended_cpu_us;        /* CPU time of its commands that have ended */
	unsigned unknown_call_frames; /* in a row, since a frame of a call that has begun */
	struct properties properties; /* of a managed one */
	bool expired;                 /* its lease has ended, and what uses it ends */
	bool removing;
	bool swap_holds;               /* its cell is being exchanged, and no call begins */
	bool lingers;                  /* workspace_lingers() */
	uint64_t moved;                /* workspace_moved() */
	char *allow;                   /* rules that its network is narrowed to; NULL: it is not */
	struct egress_cell *network;   /* of its cell; NULL: it has none */
	LIST_HEAD(, forward) forwards; /* of its worker */
	size_t n_forwards;
	struct listening *listening; /* of its cell; NULL: which ports listen is not told */
};

struct workspace_room {
	uint64_t most; /* descriptors that all workspaces may hold */
	/* the same; 0: the tenants may not have enough in use for that to matter */
	uint64_t limit;
	uint64_t used;
	uint64_t refused; /* openings, of workspaces and of cells */
	bool is_shared;   /* among tenants */
};

/* The refusal of operations that would wait for calls while workspaces_settle() is in force. */
#define WORKSPACE_SETTLES                                                                         \
	"Another generation of the service takes over, which does not wait for calls: try again " \
	"in a moment"

struct workspaces {
	struct event_base *base;
	struct spawner_link *spawner;
	struct spare_cells *spares;
	struct scheduler *scheduler;
	const char *const *own_directories;
	int managed_fd;
	struct egress_link *egress; /* NULL: no workspace has a network */
	size_t count;
	uint64_t idle_ms;             /* 0: a cell stays while its workspace is used */
	uint64_t cells_kept;          /* cells that stay open without a call; 0: all */
	TAILQ_HEAD(, workspace) idle; /* these, the longest unused first */
	size_t n_idle;
	struct workspace_room room;
	struct budget tasks;
	bool tasks_are_few; /* fewer than the tenants may have */
	TAILQ_HEAD(, workspace) starving;
	struct loop_turn_task feed;
	struct cell_counts counts;
	int cgroups;          /* the directory of the cells' cgroups; -1: none */
	int64_t looks_second; /* of clock_now() */
	unsigned looks;       /* in this second */
	LIST_HEAD(, workspace) list;
	LIST_HEAD(, forking) forking; /* forks that are being made */
	LIST_HEAD(, workspaces_walk) walks;
	struct leases *leases;
	bool retiring; /* workspaces_retire() */
	bool settling; /* workspaces_settle() */
	/* directories that another generation of cloisterd uses; NULL: there is none */
	const struct elsewhere *elsewhere;
	/* one that lingers is freed; NULL: nobody is told */
	void (*left)(void *context, struct workspace *workspace);
	void *left_context;
};
