/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces supervisor/cell/spawner_link.c; requests wait until the test answers them. */

#include "common/unpack_report.h"
#include "supervisor/cell/spawner_ask.h"
#include "tests/unit/fakes/process.h"

/* A request to the spawner. */
struct fake_asked {
	uint8_t type; /* SPAWNER_OPEN, _OPEN_FILES, _PREPARE, _ASSIGN or _LOOK_UP */
	uint64_t number;
	struct spawner_open request;
	/* Of a look-up the first one: the directory where it starts. Of an import the source, and
	 * the pipe to which cloister-unpack writes. */
	int fds[SPAWNER_OPEN_FDS];
	unsigned n_fds;
	char *path; /* of a look-up */
	bool below, file;
	spawner_answer answer;
	spawner_looked looked;
	spawner_copied copied;
	char *template, *target; /* of a copy, whose tenant is in path */
	void *context;
	struct fake_asked *next;
};

/* The two processes of a cell that the spawner has made. */
struct fake_cell {
	struct fake_process worker, files;
	struct fake_cell *next;
};

struct spawner_link *fake_spawner_new(void);
/** Frees the link with all cells that it made. */
void fake_spawner_free(struct spawner_link *link);

/** Returns the oldest unanswered request, or NULL. */
struct fake_asked *fake_spawner_asked(struct spawner_link *link);

/** From now on all requests are refused with @error; 0: none is. */
void fake_spawner_refuse(struct spawner_link *link, int error);
/** From now on cells with @count layers are refused with @error; 0: none is for them. */
void fake_spawner_refuse_layers(struct spawner_link *link, uint32_t count, int error);
/** From now on spawner_link_open() returns @error, as if requests could not be sent; 0: they can.
 */
void fake_spawner_break(struct spawner_link *link, int error);

/** From now on a template is loaded into memory, 0, or not; at first there is no memory for any. */
void fake_spawner_load(struct spawner_link *link, int error);
/** Returns "TENANT/NAME" of the template that was to be loaded last. */
const char *fake_spawner_loaded(const struct spawner_link *link);

/**
 * Answers @asked with success and frees it: a cell has processes that have sent nothing yet, or a
 * directory has been looked up. Returns the cell, or NULL if none was made.
 */
struct fake_cell *fake_spawner_answer(struct spawner_link *link, struct fake_asked *asked);

/** Answers @asked with @error and @step, and frees it. */
void fake_spawner_fail(
	struct spawner_link *link, struct fake_asked *asked, int error, struct text step);

/**
 * Plays path resolver, copier and cloister-unpack for the archive or directory at @path of the
 * host. Returns 0 or the -errno of the copy, and what is reported. NULL: paths are looked up as
 * they are, and all is copied.
 */
extern int (*fake_spawner_imports)(const char *path, struct unpack_report *ret_report);

/** Returns the cells that were made, the latest first. */
struct fake_cell *fake_spawner_cells(struct spawner_link *link);

/** From now on cells have a socket for ports: one that tells of the test's own network namespace.
 */
void fake_spawner_tell_ports(struct spawner_link *link);

/** Tells cloisterd of the spawner's own work. */
void fake_spawner_work(struct spawner_link *link, const struct spawner_worked *message);

/** Returns how often spawner_link_reload() was called. */
unsigned fake_spawner_reloads(const struct spawner_link *link);

/** Whether the last spawner_link_dropped() was about a template. */
bool fake_spawner_dropped_template(const struct spawner_link *link);

/** Whether spawner_link_let_go() was called with @number, which is below 64. */
bool fake_spawner_has_let_go(const struct spawner_link *link, uint64_t number);
/** Returns TENANT/PATH of the last spawner_link_dropped(), or "". */
const char *fake_spawner_dropped(const struct spawner_link *link);
/** Returns TENANT/NAME of the last spawner_link_measure(), or "". */
const char *fake_spawner_measuring(const struct spawner_link *link);
/** Returns TENANT/PATH of the last spawner_link_fold(), or "". */
const char *fake_spawner_folding(const struct spawner_link *link);
/** Returns TENANT/NAME of the last spawner_link_removed(), or "". */
const char *fake_spawner_removed(const struct spawner_link *link);
