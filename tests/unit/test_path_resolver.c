/* links: cloister-spawner-core */
// SPDX-License-Identifier: Apache-2.0
/* Path resolvers are children of the spawner. They answer, or it is told that they do not, and none
 * is left when the spawner ends. */
#include "worker/spawner/job/path_resolver.h"

#include "common/monotonic.h"
#include "tests/lib/unit.h"

#include <pthread.h>

#define LOOK_UPS 2

static void count(void *context, int error, struct place *place)
{
	(void)error;
	(void)place;
	++*(int *)context;
}

TEST(test_none_is_left)
{
	struct path_resolvers resolvers;
	int answered = 0, root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct look_request request = {
		.kind = LOOK_UP, .fd = root, .tenant = "default", .path = "tmp"};

	path_resolvers_init(&resolvers);
	for (int i = 0; i < LOOK_UPS; i++)
		assert_int_equal(path_resolvers_ask(&resolvers, &request, count, &answered), 0);
	while (answered < LOOK_UPS) {
		static struct pollfd fds[LIMIT_PATH_RESOLVERS];
		int timeout_ms;
		size_t n;

		path_resolvers_serve(&resolvers);
		n = path_resolvers_poll(&resolvers, fds, &timeout_ms);
		if (answered < LOOK_UPS)
			assert_int_not_equal(poll(fds, n, timeout_ms), -1);
	}
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
	path_resolvers_end(&resolvers);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	close(root);
}

/* Serves until @n look-ups are answered, or for a moment longer than the path resolvers may be
 * silent. */
static void serve(struct path_resolvers *resolvers, const int *answered, int n)
{
	int64_t until = (int64_t)monotonic_ms() + 2 * LIMIT_LOOK_UP_SILENT_MS;

	while (*answered < n && (int64_t)monotonic_ms() < until) {
		static struct pollfd fds[LIMIT_PATH_RESOLVERS];
		int timeout_ms;

		path_resolvers_serve(resolvers);
		poll(fds, path_resolvers_poll(resolvers, fds, &timeout_ms), 10);
	}
	path_resolvers_serve(resolvers);
}

static struct asked {
	int answered, waits;
} asked[3];

static void note_waits(void *context)
{
	struct asked *of = context;

	assert_int_equal(of->answered, 0);
	of->waits++;
}

/* Returns the only child. */
static pid_t only_child(void)
{
	char path[64];
	FILE *file;
	int pid = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	fclose(file);
	return pid;
}

/* Who asked for a look-up is told once that it waits: one that has no answer, and the others below
 * the same mount point, which do not begin. One that is answered is not. */
TEST(test_those_that_wait_are_told_of)
{
	struct path_resolvers resolvers;
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), any = 0;
	struct look_request request = {
		.kind = LOOK_UP, .fd = root, .tenant = "default", .path = "usr"};
	pid_t resolver;

	memset(asked, 0, sizeof(asked));
	path_resolvers_init(&resolvers);
	assert_int_equal(path_resolvers_ask(&resolvers, &request, count, &any), 0);
	serve(&resolvers, &any, 1);
	resolver = only_child();
	assert_int_equal(kill(resolver, SIGSTOP), 0);
	request.waits = note_waits;
	assert_int_equal(path_resolvers_ask(&resolvers, &request, count, &asked[0]), 0);
	assert_int_equal(path_resolvers_ask(&resolvers, &request, count, &asked[1]), 0);
	serve(&resolvers, &asked[0].answered, 1);
	assert_int_equal(asked[0].answered, 0);
	assert_int_equal(asked[0].waits, 1);
	assert_int_equal(asked[1].answered, 1);
	assert_int_equal(asked[1].waits, 0);
	assert_int_equal(path_resolvers_ask(&resolvers, &request, count, &asked[2]), 0);
	path_resolvers_serve(&resolvers);
	path_resolvers_serve(&resolvers);
	assert_int_equal(asked[2].answered, 0);
	assert_int_equal(asked[2].waits, 1);
	assert_int_equal(kill(resolver, SIGCONT), 0);
	serve(&resolvers, &asked[2].answered, 1);
	assert_int_equal(asked[0].answered + asked[2].answered, 2);
	assert_int_equal(asked[0].waits + asked[2].waits, 2);
	path_resolvers_end(&resolvers);
	close(root);
}

static bool hangs;

static void hang_if_told(void)
{
	if (hangs)
		raise(SIGSTOP);
}

/* Tenants whose path resolvers all hang have not all places: another one's look-up begins at once.
 */
TEST(test_many_that_hang_leave_places)
{
	enum { HANGING = LIMIT_PATH_RESOLVERS };
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), hung = 0, answered = 0;
	char tenant[16];
	struct look_request request = {.kind = LOOK_UP, .fd = root, .path = "usr"};
	struct path_resolvers resolvers;
	pid_t pid;

	assert_int_equal(pthread_atfork(NULL, NULL, hang_if_told), 0);
	path_resolvers_init(&resolvers);
	hangs = true;
	for (int i = 0; i < HANGING; i++) {
		snprintf(tenant, sizeof(tenant), "t%d", i / LIMIT_LOOK_UPS_AT_ONCE);
		request.tenant = tenant;
		assert_int_equal(path_resolvers_ask(&resolvers, &request, count, &hung), 0);
	}
	path_resolvers_serve(&resolvers);
	hangs = false;
	request.tenant = "other";
	assert_int_equal(path_resolvers_ask(&resolvers, &request, count, &answered), 0);
	serve(&resolvers, &answered, 1);
	assert_int_equal(answered, 1);
	assert_int_equal(hung, 0);
	path_resolvers_end(&resolvers);
	while ((pid = waitpid(-1, NULL, 0)) > 0)
		path_resolvers_reaped(&resolvers, pid);
	close(root);
}

/* Nor have tenants with many look-ups all places in which they wait. */
TEST(test_look_ups_that_wait_leave_room)
{
	struct look_request request = {.kind = LOOK_UP, .fd = -1, .path = "usr"};
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), any = 0, n;
	struct path_resolvers resolvers;
	char tenant[16];

	request.fd = root;
	path_resolvers_init(&resolvers);
	for (int i = 0; i < 4 * LIMIT_LOOK_UPS_WAITING_TOTAL / LIMIT_LOOK_UPS_WAITING; i++) {
		snprintf(tenant, sizeof(tenant), "t%d", i);
		request.tenant = tenant;
		for (n = 0; path_resolvers_ask(&resolvers, &request, count, &any) == 0; n++)
			;
		assert_in_range(n, 1, LIMIT_LOOK_UPS_WAITING);
	}
	request.tenant = "other";
	assert_int_equal(path_resolvers_ask(&resolvers, &request, count, &any), 0);
	path_resolvers_end(&resolvers);
	close(root);
}
