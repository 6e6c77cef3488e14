// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Any local user may be one of these. */
#include "supervisor/connection/dear_users.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/base/log.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/call.h"
#include "supervisor/call/service.h"
#include "supervisor/config/peer_auth.h"
#include "supervisor/connection/jsonrpc.h"
#include "supervisor/schedule/usage.h"

#include <event2/buffer.h>

#include <stdlib.h>

struct dear_user {
	uid_t uid;
	int64_t until, for_ms; /* until: as clock_now(); for_ms is 0 in a free place */
};

static struct dear_user users[LIMIT_DEAR_USERS];
static unsigned n_users; /* places in use, from the first on */

static struct dear_user *find_user(uid_t uid)
{
	for (unsigned i = 0; i < n_users; i++)
		if (users[i].uid == uid)
			return &users[i];
	return NULL;
}

/* Returns a free place, or that of the user who may come back first. */
static struct dear_user *make_user(uid_t uid)
{
	struct dear_user *user = &users[0];

	if (n_users < ARRAY_SIZE(users))
		user = &users[n_users++];
	else
		for (unsigned i = 1; i < n_users; i++)
			if (users[i].until < user->until)
				user = &users[i];
	*user = (struct dear_user){.uid = uid};
	return user;
}

/* Whether it was refused lately. */
static bool is_known(const struct dear_user *user, int64_t now)
{
	return user->for_ms > 0 && now - user->until < LIMIT_DEAR_USER_MOST_MS * CLOCK_NS_PER_MS;
}

void dear_user_add(const struct peer_credentials *peer, struct tenant *tenant)
{
	struct dear_user *user = find_user(peer->uid);
	int64_t now = clock_now(), twice;

	if (tenant)
		tenant->usage->dear_peers++;
	if (!user)
		user = make_user(peer->uid);
	if (user->for_ms > 0 && now < user->until)
		return;
	twice = is_known(user, now) ? 2 * user->for_ms : LIMIT_DEAR_USER_MS;
	user->for_ms = twice < LIMIT_DEAR_USER_MOST_MS ? twice : LIMIT_DEAR_USER_MOST_MS;
	user->until = now + user->for_ms * CLOCK_NS_PER_MS;
	log_warning(
		"user %u, tenant %s: system calls on a connection took too much CPU time, since "
		"its client's end has too many waiters, such as watches of epoll(7); the "
		"connection is ended, and the user refused for %lld s",
		(unsigned)peer->uid, tenant ? tenant->name : "none",
		(long long)(user->for_ms / 1000));
}

/* Returns the answer to the client, or NULL if memory is out. */
static char *answer_of(const struct refusal *refusal)
{
	struct evbuffer *output = evbuffer_new();
	char *answer = NULL;
	size_t len;

	if (!output)
		return NULL;
	if (jsonrpc_busy(output, NULL, JSONRPC_SERVER_ERROR, refusal_text(refusal),
		    refusal->retry_after_ms) == 0) {
		len = evbuffer_get_length(output);
		answer = calloc(1, len + 1);
		if (answer)
			evbuffer_remove(output, answer, len);
	}
	evbuffer_free(output);
	return answer;
}

void dear_user_close(struct service *service, const struct peer_credentials *peer,
	const struct tenant *tenant, int fd, bool answer)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct refused refused = {.what = "connection", .peer = peer, .tenant = tenant};

	admission_refuse_dear_user(&service->admission, dear_user_left_ms(peer->uid), &refusal);
	refused.code = tool_error_name(refusal.error);
	refused.message = refusal_text(&refusal);
	call_tell_refused(service, &refused);
	fd_closer_end(fd, answer ? answer_of(&refusal) : NULL);
}

int64_t dear_user_left_ms(uid_t uid)
{
	const struct dear_user *user = find_user(uid);
	int64_t left = user ? user->until - clock_now() : 0;

	return left > 0 ? (left + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS : 0;
}
