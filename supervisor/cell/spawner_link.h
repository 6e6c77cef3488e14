/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's connection to the spawner, the only peer that has never touched a workspace and the
 * only one whose descriptors are accepted. If the spawner dies or does not answer, cloisterd ends.
 */

#include "common/wire/wire_spawner.h"

struct event_base;
struct spawner_link;
struct spawner_start;

/* The answers to requests (spawner_ask.h). */

/*
 * @error is 0, with the descriptors, which the function takes, in the order of SPAWNER_OPENED; or
 * -errno, with the failed step (borrowed).
 */
typedef void (*spawner_answer)(
	void *context, int error, struct text step, int fds[SPAWNER_OPENED_MOST]);

/*
 * @error is 0, with the directory (O_PATH), which the function takes, and its facts (borrowed); or
 * -errno: -ETIMEDOUT if its file system does not answer, -EBUSY if too many look-ups wait.
 */
typedef void (*spawner_looked)(
	void *context, int error, int fd, const struct spawner_looked_up *where);

/* @error is 0, or -errno with the failed step (borrowed), which is a reason if it is
 * -SPAWNER_REFUSAL. */
typedef void (*spawner_copied)(void *context, int error, struct text step);

/**
 * Starts the spawner and waits until it is in its namespaces. Call it before lock-down: it is
 * cloisterd's only fork and exec. Returns 0, or -errno with a sentence in @ret_message (malloc'ed,
 * may be NULL) that says which step failed and what to do. In system mode cloisterd drops its
 * capabilities for the id maps here.
 */
int spawner_link_start(
	const struct spawner_start *start, struct spawner_link **ret, char **ret_message);

/**
 * Another generation of cloisterd uses the state too, or no longer does. Meanwhile the spawner
 * delays work that two spawners must not do at once.
 */
void spawner_link_beside(struct spawner_link *link, bool beside);

/** The configuration has changed: the spawner reads it again before it makes any later cell. */
void spawner_link_reload(struct spawner_link *link);

/**
 * A managed workspace was removed: the spawner removes its kept home, before it makes any later
 * cell, if there is one. If that message cannot be sent, the next start of the spawner does it.
 */
void spawner_link_removed(struct spawner_link *link, const char *tenant, const char *name);

/**
 * Layers or a tree were dropped as @path in the directory @tenant of the managed workspaces, or
 * with @template of the templates: the spawner clears them. If that message cannot be sent, the
 * next start of the spawner does it.
 */
void spawner_link_dropped(
	struct spawner_link *link, bool template, const char *tenant, const char *path);

/** Two layers are to become one: @path and @tenant as layer_folds_add() (worker/) has them. */
void spawner_link_fold(struct spawner_link *link, const char *tenant, const char *path);

/** The size of the template @name, in the directory @tenant of the templates, is asked for. */
void spawner_link_measure(struct spawner_link *link, const char *tenant, const char *name);

/** Passes the spawner's reports about work in the background to @worked from now on; the texts are
 * borrowed.
 */
void spawner_link_hear(struct spawner_link *link,
	void (*worked)(void *context, const struct spawner_worked *message), void *context);

/**
 * The private tmpfs that the cell @number has or had is not needed for another cell. If that
 * message cannot be sent, the spawner keeps it until it ends.
 */
void spawner_link_let_go(struct spawner_link *link, uint64_t number);

/**
 * Serves the link from @base. Calls @lost once if the spawner is gone, or was killed because it
 * answered nothing for LIMIT_SPAWNER_SILENT_MS. Returns 0 or -errno.
 */
int spawner_link_watch(struct spawner_link *link, struct event_base *base,
	void (*lost)(void *context), void *context);

/**
 * Drops the request @cell. If it waits for its turn it is not sent; otherwise its processes are
 * killed when the answer comes.
 */
void spawner_link_forget(struct spawner_link *link, uint64_t cell);

/**
 * Returns how many requests of @tenant for cells, files processes and directories wait for their
 * turn (common/fair_queue.h).
 */
size_t spawner_link_waiting(const struct spawner_link *link, const char *tenant);

/**
 * Closes the connection and waits until the spawner has ended, and with it every process that it
 * started.
 */
void spawner_link_free(struct spawner_link *link);
