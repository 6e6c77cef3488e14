/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Measures what a workspace's files take on disk, with its checkpoints and without its template.
 * The files process measures it in a job, when the workspace is opened and some time after calls
 * that may have written. Measuring takes at most a twentieth of the time, at idle priority. If the
 * kernel has a quota for the workspace, its count is used instead of the walk's sum. Where nothing
 * but this bounds the workspace (workspace_disk.h), it measures at once after such calls, and every
 * LIMIT_MEASURE_RUNNING_MS while commands run. Commands can delay a measurement by keeping the
 * processors busy. So a measurement that takes LIMIT_MEASURE_LATE_MS is repeated at their priority,
 * and the next one comes after LIMIT_MEASURE_REST_MS at the latest, unless measuring itself takes
 * the CPU time.
 *
 * A command can follow a measurement and move its files out of the way. If commands can be stopped,
 * one measurement is made while they are stopped, when they have run for LIMIT_MEASURE_EXACT_MS
 * since the last exact one. It is as exact as one of a workspace in which nothing runs.
 */

#include "common/wire/wire_files.h"
#include "supervisor/base/timer.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The use of disk by a workspace: bytes, and names of files and directories. As a bound, 0 is none.
 */
struct disk_size {
	uint64_t bytes, files;
};

/* Use of disk beyond a bound, found by an exact measurement or by two in a row. */
enum disk_growth {
	DISK_GROWTH_NONE,
	DISK_GROWTH_WRITTEN,
	DISK_GROWTH_UNHIDDEN, /* or a part of the workspace could not be measured before */
};

enum disk_ask {
	DISK_ASK_IDLE,    /* measure at idle priority */
	DISK_ASK_PROMPT,  /* measure as commands run */
	DISK_ASK_FROZEN,  /* measure so while they are stopped, for pause_ms at most */
	DISK_ASK_NO_MORE, /* end the measurement, which is answered with an error */
};

struct disk_use {
	bool known;
	bool partial;   /* some directories could not be read: there is more */
	uint64_t bytes; /* on disk; each of a file's names has its part */
	uint64_t files; /* names of other things than directories */
	uint64_t directories;
	/* a part of the workspace could not be read */
	bool hidden;
	bool limited; /* set by the owner: the workspace is bounded by nothing else */
	bool pauses;  /* set by the owner: commands can be stopped */
	int64_t pause_ms;
	/* The rest belongs to disk_use.c. */
	bool (*ask)(void *context, enum disk_ask what);
	void *context;
	bool stale, asked, running;
	bool late;            /* it got no CPU time, and is repeated at the priority of commands */
	bool frozen;          /* this measurement is made while commands are stopped */
	bool ran;             /* one ran since it was asked for */
	bool unsure;          /* one has run since the last exact measurement, or could */
	int64_t unsure_since; /* as clock_now(), if unsure */
	int64_t pause_earliest;
	bool exact; /* the last answer was measured while they were stopped */
	struct disk_before {
		bool known, hidden;
		struct disk_size size;
	} before;     /* the last measurement but one, or the one before growth that is in doubt */
	bool doubted; /* growth was seen once */
	bool fresh;   /* the last answer was a measurement */
	int64_t grown_at;                /* when growth was seen first, as clock_now() */
	int64_t asked_at, earliest, due; /* as clock_now(); due while the timer is set */
	struct timer timer;
};

/**
 * Initialises @use, which knows nothing. @ask starts a measurement, whose result comes by
 * disk_use_answer(), and returns false if the workspace is closed or is being measured.
 */
void disk_use_init(
	struct disk_use *use, bool (*ask)(void *context, enum disk_ask what), void *context);

/** The workspace was opened, for the first time or after a death: measures it. */
void disk_use_opened(struct disk_use *use);

/**
 * A call that may have written has ended: measures LIMIT_MEASURE_PAUSE_MS later, or later still; a
 * limited workspace as soon as it may.
 */
void disk_use_changed(struct disk_use *use);

/**
 * For a reader: measures at once if something may have changed, as often as allowed. @writing: a
 * call that may write runs now.
 */
void disk_use_look(struct disk_use *use, bool writing);

/** Commands run, or none does any more. */
void disk_use_runs(struct disk_use *use, bool running);

/** A write has reported the present count of the kernel's quota. */
void disk_use_told(struct disk_use *use, uint64_t bytes);

/**
 * The answer to the measurement. @frozen: commands were stopped all the time. Returns -EBADMSG if
 * there was none.
 */
int disk_use_answer(struct disk_use *use, const struct files_end *end, bool frozen);

/** Returns what was measured last. */
struct disk_size disk_use_size(const struct disk_use *use);

/**
 * After an answer: returns whether the workspace takes more than @hard and more than before, in
 * bytes or in files. Names that are removed or renamed during a walk can be counted twice, so a
 * workspace that has grown is measured again at once before it is reported. A measurement while
 * commands were stopped needs no second one. @ret_ms: how long a command has run at least that may
 * have written it.
 */
enum disk_growth disk_use_growth(
	struct disk_use *use, const struct disk_size *hard, uint64_t *ret_ms);

/** The process that measured has gone. */
void disk_use_lost(struct disk_use *use);

/** Cancels the timer. */
void disk_use_stop(struct disk_use *use);
