/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All of cloisterd that serves, in the test's own process: connections, sessions, methods, calls
 * and workspaces are the real ones; the spawner and the processes of workspaces are played
 * (spawner_link.h, workers.h), and time stands still until the test lets it pass.
 *
 * In configurations, requests and answers '@' stands for the scratch directory, which has the
 * directories "root" and "state".
 */

#include "supervisor/call/call.h"
#include "supervisor/call/service.h"
#include "supervisor/rpc/endpoint.h"
#include "tests/lib/scratch.h"
#include "tests/unit/fakes/spawner_link.h"

#define FAKE_CLIENT_BYTES (1 << 20)
#define FAKE_OWN_PATH     "/opt" /* what is cloister's own, besides "@/state" */

struct fake_service {
	struct service service; /* first: what the code under test has */
	struct scratch scratch;
	const char *own[3]; /* "@/state" and FAKE_OWN_PATH */
	int managed_fd;
	struct config_source *source;
	struct spawner_link *spawner;
	struct call_observer observers[2];
	bool spawner_waits; /* the test answers for the spawner */
	bool workers_wait;  /* and for the cells' processes, which say nothing */
	bool stopped;       /* the loop was told to end */
	unsigned idle;      /* how often service->idle was called */
};

struct fake_client {
	struct fake_service *service;
	int fd;
	bool ended; /* cloisterd has hung up */
	size_t len;
	char *got; /* what has come and was not taken */
};

/** Serves the configuration @config, NULL: user mode without a file for the user 1000. */
struct fake_service *fake_service_new(const char *config);
void fake_service_free(struct fake_service *fake);

/** Reads @config as a reload does, in place of what there was. */
void fake_service_reconfigure(struct fake_service *fake, const char *config);

/** Everything that can happen at this moment happens. */
void fake_service_run(struct fake_service *fake);

/** So much time passes, and then the same. */
void fake_service_pass(struct fake_service *fake, int64_t ms);

/** A client of the user @uid, in the group @gid and no other. */
struct fake_client fake_client_connect(
	struct fake_service *fake, const struct endpoint *endpoint, uid_t uid, gid_t gid);
void fake_client_close(struct fake_client *client);

/** Sends @text as it is. */
void fake_client_send(struct fake_client *client, const char *text);

/** What has come since, borrowed until the next call: lines without the last newline. */
const char *fake_client_take(struct fake_client *client);

/* What a client says, a line, and what is then answered: lines, in which '*' stands for any
 * characters. NULL: nothing. */
struct fake_exchange {
	const char *says, *answer;
};

/** One after the other. */
void fake_client_talk(struct fake_client *client, const struct fake_exchange *exchanges, size_t n);

/** Fails the test unless @text is @pattern, with '*' for any characters and '@' as above. */
void fake_service_match(struct fake_service *fake, const char *text, const char *pattern);
