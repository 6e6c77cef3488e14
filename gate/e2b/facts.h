/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The labels and the lease that cloisterd keeps of a sandbox, which is a managed workspace. The
 * gate keeps none of it. A sandbox runs while its lease lasts. A lease that ended with
 * "close" is a pause, and one that ended with "remove" is a removal that cloisterd has not
 * finished. Pure functions, but for the JSON objects that they make; the labels may be any of the
 * tenant's.
 */

#include "gate/e2b/sandbox_id.h"

#include <stdbool.h>
#include <stdint.h>

struct json_object;

/* Names of labels. Those of a client's metadata follow FACTS_METADATA. */
#define FACTS_ID         "e2b.id"
#define FACTS_TEMPLATE   "e2b.template"
#define FACTS_GENERATION "e2b.generation"
#define FACTS_STARTED    "e2b.started"    /* milliseconds since the epoch */
#define FACTS_OPEN       "e2b.open"       /* "yes": no access token is needed */
#define FACTS_PRIVATE    "e2b.private"    /* "yes": ports need a traffic token */
#define FACTS_ON_TIMEOUT "e2b.on-timeout" /* "pause" or "kill" */
#define FACTS_RESUME     "e2b.resume"     /* "yes": a request resumes it */
#define FACTS_NETWORK    "e2b.network"    /* JSON text, as the client gave it */
#define FACTS_ALLOW      "e2b.allow"      /* the same as the parameter network of workspace.open */
#define FACTS_INTERNET   "e2b.internet"   /* "no" */
#define FACTS_METADATA   "e2b.m."

/*
 * The shortest lease that cloisterd takes: a sandbox that must end now gets it. A request may come
 * before it ends, so a sandbox counts as ended once its lease has no more left than this.
 */
#define FACTS_END_MS 1

enum facts_state { FACTS_RUNNING, FACTS_PAUSED, FACTS_KILLED };

struct facts {
	struct text id, generation, workspace, template_name;
	struct json_object *labels; /* borrowed, as the texts */
	int64_t started_ms, ends_ms;
	enum facts_state state;
	bool open, private_ports, pauses, resumes;
};

/** Writes the name of the workspace of the sandbox @id, as workspace.fork gives it to the first
 * fork. */
void facts_workspace(struct text id, char ret_name[static SANDBOX_ID_LETTERS + 3]);

/** Returns the element of @rows, those of workspace.list, that is of the sandbox @id; NULL: none.
 */
struct json_object *facts_row(struct json_object *rows, struct text id);

/** Reads @row, an element of workspace.list. Returns false if it is no sandbox. */
bool facts_read(struct json_object *row, int64_t now_ms, struct facts *ret);

/** Returns what a client is told of a sandbox; with @detail what only its own page has. */
struct json_object *facts_show(const struct facts *facts, bool detail);

/** Returns a lease for workspace.open and workspace.update. */
struct json_object *facts_lease(int64_t ms, bool pauses);

/** Parses a time as RFC 3339 has it, in UTC. Returns milliseconds since the epoch, or -1. */
int64_t facts_time(struct text text);

/** Writes a time as RFC 3339 has it, or the nearest from 1970 to 9999: labels may say any. */
void facts_time_write(int64_t ms, char ret_text[static 32]);

/** Returns the parameters by which workspace.open opens the sandbox's @workspace, which exists. */
struct json_object *facts_opening(const struct facts *facts, struct text workspace);

/** Now, in milliseconds since the epoch. */
int64_t facts_now(void);
