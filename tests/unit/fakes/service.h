/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The serving part of cloisterd in the test's own process. Connections, sessions, methods, calls
 * and workspaces are real. The test plays the spawner, workers and files processes (spawner_link.h,
 * workers.h), and time stands still until the test lets it pass.
 *
 * In configurations, requests and answers '@' stands for the scratch directory, which has the
 * directories "root" and "state".
 */

#include "supervisor/call/call.h"
#include "supervisor/call/service.h"
#include "supervisor/connection/endpoint.h"
#include "tests/lib/scratch.h"
#include "tests/unit/fakes/spawner_link.h"

#define FAKE_CLIENT_BYTES (1 << 20)
#define FAKE_OWN_PATH     "/opt" /* cloister's own directory, besides "@/state" */

struct fake_service {
	struct service service; /* the first member: the code under test gets its address */
	struct scratch scratch;
	const char *own[3]; /* "@/state" and FAKE_OWN_PATH */
	int managed_fd;
	struct config_source *source;
	struct spawner_link *spawner;
	struct call_observer observers[2];
	bool spawner_waits; /* the test itself answers the spawner's requests */
	bool workers_wait;  /* workers and files processes do not act; the test does */
	bool stopped;       /* the loop was told to end */
	unsigned idle;      /* how often service->idle was called */
};

struct fake_client {
	struct fake_service *service;
	int fd;
	bool ended; /* cloisterd has closed the connection */
	size_t len;
	char *got; /* answers that the test has not taken */
};

/** Starts with the configuration @config; NULL: user mode for the user 1000 without a file. */
struct fake_service *fake_service_new(const char *config);
void fake_service_free(struct fake_service *fake);

/** A fixture of such a service for the user 1000; *state is it. */
int fake_service_set_up(void **state);
int fake_service_tear_down(void **state);

/** Replaces the configuration by @config, like a reload. */
void fake_service_reconfigure(struct fake_service *fake, const char *config);

/** Keeps the keys of calls from now on, in a journal whose writes take no time. */
void fake_service_keep_keys(struct fake_service *fake);

/** Runs everything that can run before time passes. */
void fake_service_run(struct fake_service *fake);

/** Lets @ms milliseconds pass, then does fake_service_run(). */
void fake_service_pass(struct fake_service *fake, int64_t ms);

/** Lets the sessions and tasks end that nobody has open any more, and be forgotten. */
void fake_service_forget(struct fake_service *fake);

/** Connects a client of the user @uid, whose only group is @gid. */
struct fake_client fake_client_connect(
	struct fake_service *fake, const struct endpoint *endpoint, uid_t uid, gid_t gid);
void fake_client_close(struct fake_client *client);

/** Connects a client of the user @uid to @endpoint, and opens its managed workspace @name. */
struct fake_client fake_client_open(
	struct fake_service *fake, const struct endpoint *endpoint, uid_t uid, const char *name);

/** Sends @text unchanged. */
void fake_client_send(struct fake_client *client, const char *text);

/** Returns the lines since the last call, without the last newline; valid until the next call. */
const char *fake_client_take(struct fake_client *client);

/* What a client says and its answers; '*' is any text, NULL nothing. */
struct fake_exchange {
	const char *says, *answer;
};

/** Plays the exchanges one after the other. */
void fake_client_talk(struct fake_client *client, const struct fake_exchange *exchanges, size_t n);

/** Plays one exchange. */
void fake_client_says(struct fake_client *client, const char *line, const char *answer);

/** Checks what has come since the last call. */
void fake_client_hears(struct fake_client *client, const char *answer);

/** Fails the test unless @text matches @pattern, with '*' for any characters and '@' as above. */
void fake_service_match(struct fake_service *fake, const char *text, const char *pattern);
