// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner: manages path resolvers and their deadlines. A path resolver is a fork whose
 * only descriptor is its socket. It dies with the spawner. The spawner trusts its answers, because
 * it runs only the code of place.c.
 */
#include "worker/spawner/job/path_resolver.h"

#include "common/array.h"
#include "common/budget.h"
#include "common/cleanup.h"
#include "common/links.h"
#include "common/monotonic.h"
#include "common/mountinfo.h"
#include "worker/spawner/job/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* A question to a path resolver; both paths follow it, each with a NUL. */
struct question {
	uint8_t kind; /* enum look_kind */
	bool below, file;
	size_t path_size;
};

struct look {
	struct fair_entry turn;  /* first; until its path resolver is reaped, if that is late */
	TAILQ_ENTRY(look) entry; /* while it waits */
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
	int fd; /* borrowed */
	int64_t deadline_ms;
	look_done done;
	void (*waits)(void *context); /* NULL once it has been called */
	void *context;
	char *point; /* the mount point at or above its path; NULL: not determined yet */
	struct question question;
	char *paths;
	size_t paths_size;
};

enum path_resolver_state { RESOLVER_IDLE, RESOLVER_BUSY, RESOLVER_LATE };

struct path_resolver {
	LIST_ENTRY(path_resolver) entry;
	pid_t pid;
	int socket; /* -1 once it is late */
	enum path_resolver_state state;
	int64_t begun_ms;
	struct look *look; /* when LATE, only the tenant and the mount point of the look are kept */
};

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE((1 + PLACE_TREES) * sizeof(int))];
};

void path_resolvers_init(struct path_resolvers *resolvers)
{
	*resolvers = (struct path_resolvers){0};
	fair_queue_init(&resolvers->turns, LIMIT_PATH_RESOLVERS, LIMIT_PATH_RESOLVERS_PER_TENANT,
		LIMIT_PATH_RESOLVERS_KEPT);
	TAILQ_INIT(&resolvers->waiting);
	LIST_INIT(&resolvers->list);
}

/* Messages with descriptors, in both directions. */

static int send_message(int to, struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds)
{
	union control control = {0};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = n_iov};

	if (n_fds > 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
		memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(int));
	}
	return sendmsg(to, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/*
 * Receives one message and stores its descriptors in @ret_fds. Returns its length, or 0 if the
 * other end is closed.
 */
static ssize_t receive_message(
	int from, struct iovec *iov, size_t n_iov, int flags, int *ret_fds, size_t *ret_n)
{
	union control control = {0};
	struct msghdr message = {.msg_iov = iov,
		.msg_iovlen = n_iov,
		.msg_control = &control,
		/* CMSG_SPACE may have room for one more than @ret_fds. */
		.msg_controllen = CMSG_LEN((1 + PLACE_TREES) * sizeof(int))};
	struct cmsghdr *header;
	ssize_t n;

	do
		n = recvmsg(from, &message, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && errno == EINTR);
	*ret_n = 0;
	if (n < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
		*ret_n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret_fds, CMSG_DATA(header), *ret_n * sizeof(int));
	}
	return n;
}

/* The path resolver's side. */

static void look_up_paths(
	struct place *place, const struct question *question, const char *paths, int fd)
{
	if (question->kind == LOOK_UP)
		place_look_up(place, fd, paths, question->below, question->file);
	else
		place_look_again(place, fd, paths + question->path_size, question->file);
}

static int serve_spawner(void *context)
{
	const struct forked *forked = context;
	int spawner = forked->kept[0];
	static char paths[PATH_MAX + LIMIT_READONLY_BYTES];
	static struct place place;
	struct question question;
	int fds[1 + PLACE_TREES];
	size_t n_fds;

	for (;;) {
		struct iovec asked[] = {{&question, sizeof(question)}, {paths, sizeof(paths)}};
		struct iovec answer = {&place, 0};
		ssize_t n = receive_message(spawner, asked, ARRAY_SIZE(asked), 0, fds, &n_fds);

		if (n <= (ssize_t)sizeof(question) || n_fds != 1)
			return 0;
		place_init(&place);
		look_up_paths(&place, &question, paths, fds[0]);
		close(fds[0]);
		n_fds = 0;
		if (place.root >= 0)
			fds[n_fds++] = place.root;
		for (size_t i = 0; i < PLACE_TREES && place.trees[i] >= 0; i++)
			fds[n_fds++] = place.trees[i];
		answer.iov_len = offsetof(struct place, parents) +
				 place.n_parents * sizeof(place.parents[0]);
		if (send_message(spawner, &answer, 1, fds, n_fds) < 0)
			return -EPIPE;
		place_done(&place);
	}
}

/* The kernel may keep this process alive longer than all others. */
static const struct setup_step steps[] = {
	{"die with the spawner", forked_die_with_spawner},
	{"close what it does not need", forked_close_others},
};

static const struct forked_kind looking = {
	"cloister-resolver", steps, ARRAY_SIZE(steps), serve_spawner};

/* Returns NULL without memory, descriptors or processes. */
static struct path_resolver *start_path_resolver(struct path_resolvers *resolvers)
{
	struct path_resolver *resolver = calloc(1, sizeof(*resolver));
	struct forked forked = {.n_kept = 1};
	int pair[2];

	if (!resolver || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(resolver);
		return NULL;
	}
	forked.kept[0] = pair[1];
	resolver->pid = forked_start(&looking, &forked);
	close(pair[1]);
	if (resolver->pid < 0) {
		close(pair[0]);
		free(resolver);
		return NULL;
	}
	resolver->socket = pair[0];
	LIST_INSERT_HEAD(&resolvers->list, resolver, entry);
	return resolver;
}

static void look_free(struct path_resolvers *resolvers, struct look *look)
{
	if (!look)
		return;
	fair_queue_end(&resolvers->turns, &look->turn, monotonic_ms());
	free(look->point);
	free(look->paths);
	free(look);
}

/* Ends a path resolver that is surplus or broken; path_resolvers_reaped() frees it. */
static void dismiss(struct path_resolver *resolver)
{
	close_fd(&resolver->socket);
	kill(resolver->pid, SIGKILL);
	resolver->state = RESOLVER_LATE;
}

void path_resolvers_reaped(struct path_resolvers *resolvers, pid_t pid)
{
	struct path_resolver *resolver;

	LIST_FOREACH (resolver, &resolvers->list, entry)
		if (resolver->pid == pid)
			break;
	if (!resolver)
		return;
	if (resolver->state == RESOLVER_BUSY) {
		resolver->look->done(resolver->look->context, -EIO, NULL);
		look_free(resolvers, TAKE_PTR(resolver->look));
	}
	close_fd(&resolver->socket);
	look_free(resolvers, resolver->look);
	LIST_REMOVE(resolver, entry);
	free(resolver);
}

/* Mount points. */

static bool point_is_at_or_below(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	return strcmp(directory, "/") == 0 ||
	       (strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0'));
}

/*
 * Returns the path as it is written. A link in it may lead to another mount point; then the wrong
 * limit applies, but only to the tenant that made the link.
 */
static int whole_path(const struct look *look, char ret[2 * PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", look->fd);
	n = readlink(link, ret, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	ret[n] = '/';
	memcpy(ret + n + 1, look->paths, look->question.path_size);
	return 0;
}

static char *find_point(const struct look *look)
{
	_cleanup_free_ char *best = strdup("/");
	struct mountinfo_entry entry;
	char path[2 * PATH_MAX];
	struct text text, left;

	if (whole_path(look, path) < 0 || mountinfo_read("/proc/self/mountinfo", &text) < 0)
		return TAKE_PTR(best);
	for (left = text; best && mountinfo_next(&left, &entry);)
		if (point_is_at_or_below(path, entry.point) &&
			strlen(entry.point) >= strlen(best)) {
			free(best);
			best = strdup(entry.point);
		}
	free((char *)text.data);
	return TAKE_PTR(best);
}

static bool is_same_mount(struct look *a, struct look *b)
{
	if (!a->point)
		a->point = find_point(a);
	if (!b->point)
		b->point = find_point(b);
	return a->point && b->point && strcmp(a->point, b->point) == 0;
}

/* Whether a look-up may begin. */

/* It is HELD_UP by file systems that do not answer, for longer than it takes to begin others. */
enum verdict { MAY_BEGIN, MUST_WAIT, IS_HELD_UP, IS_HOPELESS };

static bool is_silent(const struct path_resolver *resolver, int64_t now)
{
	return resolver->state == RESOLVER_LATE ||
	       now - resolver->begun_ms >= LIMIT_LOOK_UP_SILENT_MS;
}

static enum verdict judge_look(struct path_resolvers *resolvers, struct look *look, int64_t now)
{
	size_t young = 0, all = 0, late = 0;
	enum verdict verdict = MAY_BEGIN;
	struct path_resolver *resolver;

	LIST_FOREACH (resolver, &resolvers->list, entry) {
		if (!resolver->look || strcmp(resolver->look->tenant, look->tenant) != 0)
			continue;
		all++;
		late += resolver->state == RESOLVER_LATE;
		if (!is_silent(resolver, now))
			young++;
		else if (!is_same_mount(resolver->look, look))
			continue;
		else if (resolver->state == RESOLVER_LATE)
			return IS_HOPELESS;
		else
			verdict = IS_HELD_UP;
	}
	if (late >= LIMIT_PATH_RESOLVERS_PER_TENANT)
		return IS_HOPELESS;
	if (verdict == IS_HELD_UP || all - young >= LIMIT_PATH_RESOLVERS_PER_TENANT)
		return IS_HELD_UP;
	return young >= LIMIT_LOOK_UPS_AT_ONCE || all >= LIMIT_PATH_RESOLVERS_PER_TENANT
		       ? MUST_WAIT
		       : MAY_BEGIN;
}

/* Tells once that a file system holds up the look-up. */
static void tell_waits(struct look *look)
{
	void (*waits)(void *context) = TAKE_PTR(look->waits);

	if (waits)
		waits(look->context);
}

static struct path_resolver *find_idle(struct path_resolvers *resolvers)
{
	struct path_resolver *resolver;

	LIST_FOREACH (resolver, &resolvers->list, entry)
		if (resolver->state == RESOLVER_IDLE)
			return resolver;
	return NULL;
}

/* Gives the look-up, whose turn it is, to a path resolver. Returns 0 or -errno. */
static int begin_path_look(struct path_resolvers *resolvers, struct look *look, int64_t now)
{
	struct iovec asked[] = {
		{&look->question, sizeof(look->question)}, {look->paths, look->paths_size}};
	struct path_resolver *resolver = find_idle(resolvers);
	int r;

	if (!resolver)
		resolver = start_path_resolver(resolvers);
	if (!resolver)
		return -EAGAIN;
	r = send_message(resolver->socket, asked, ARRAY_SIZE(asked), &look->fd, 1);
	if (r < 0) {
		dismiss(resolver);
		return r;
	}
	resolver->state = RESOLVER_BUSY;
	resolver->look = look;
	resolver->begun_ms = now;
	return 0;
}

static void give_up_look(struct path_resolvers *resolvers, struct look *look, int error)
{
	TAILQ_UNLINK(&resolvers->waiting, look, entry);
	look->done(look->context, error, NULL);
	look_free(resolvers, look);
}

static bool may_begin(void *context, struct fair_entry *entry)
{
	return judge_look(context, (struct look *)entry, (int64_t)monotonic_ms()) == MAY_BEGIN;
}

static void begin_waiting(struct path_resolvers *resolvers, int64_t now)
{
	struct look *look, *next;

	for (look = TAILQ_FIRST(&resolvers->waiting); look; look = next) {
		enum verdict verdict = judge_look(resolvers, look, now);

		next = TAILQ_NEXT(look, entry);
		if (verdict == IS_HOPELESS || now >= look->deadline_ms)
			give_up_look(resolvers, look, -ETIMEDOUT);
		else if (verdict == IS_HELD_UP)
			tell_waits(look);
	}
	while ((look = (struct look *)fair_queue_next(
			&resolvers->turns, (uint64_t)now, may_begin, resolvers))) {
		/* Without a path resolver it is tried again soon. */
		if (begin_path_look(resolvers, look, now) < 0) {
			fair_queue_return(&resolvers->turns, &look->turn, (uint64_t)now);
			break;
		}
		TAILQ_UNLINK(&resolvers->waiting, look, entry);
	}
}

static int set_paths(struct look *look, const struct look_request *request)
{
	const char *path = request->path ? request->path : "";
	const char *readonly = request->readonly ? request->readonly : "";
	size_t path_size = strlen(path) + 1, readonly_size = strlen(readonly) + 1;

	if (path_size > PATH_MAX || readonly_size > LIMIT_READONLY_BYTES)
		return -ENAMETOOLONG;
	look->paths = malloc(path_size + readonly_size);
	if (!look->paths)
		return -ENOMEM;
	memcpy(look->paths, path, path_size);
	memcpy(look->paths + path_size, readonly, readonly_size);
	look->paths_size = path_size + readonly_size;
	look->question.kind = (uint8_t)request->kind;
	look->question.below = request->below;
	look->question.file = request->file;
	look->question.path_size = path_size;
	return 0;
}

int path_resolvers_ask(struct path_resolvers *resolvers, const struct look_request *request,
	look_done done, void *context)
{
	struct text tenant = text_from(request->tenant);
	uint64_t own = fair_queue_waiting(&resolvers->turns, tenant);
	struct look *look;
	int r;

	if (own >= LIMIT_LOOK_UPS_WAITING ||
		share_left(true, LIMIT_LOOK_UPS_WAITING_TOTAL - (own > 0 ? LIMIT_LOOK_UPS_KEPT : 0),
			resolvers->turns.n_waiting, own) == 0)
		return -EBUSY;
	look = calloc(1, sizeof(*look));
	if (!look)
		return -ENOMEM;
	look->fd = request->fd;
	look->done = done;
	look->waits = request->waits;
	look->context = context;
	look->deadline_ms = (int64_t)monotonic_ms() + LIMIT_LOOK_UP_MS;
	snprintf(look->tenant, sizeof(look->tenant), "%s", request->tenant);
	r = set_paths(look, request);
	if (r == 0)
		r = fair_queue_add(&resolvers->turns, &look->turn, tenant);
	if (r < 0) {
		look_free(resolvers, look);
		return r;
	}
	TAILQ_LINK_TAIL(&resolvers->waiting, look, entry);
	return 0;
}

size_t path_resolvers_poll(
	const struct path_resolvers *resolvers, struct pollfd *ret, int *ret_timeout)
{
	const struct look *first = TAILQ_FIRST(&resolvers->waiting);
	int64_t now = (int64_t)monotonic_ms(), next = first ? first->deadline_ms : INT64_MAX;
	const struct path_resolver *resolver;
	size_t n = 0;

	LIST_FOREACH (resolver, &resolvers->list, entry) {
		int64_t silent = resolver->begun_ms + LIMIT_LOOK_UP_SILENT_MS;

		if (resolver->state == RESOLVER_LATE)
			continue;
		ret[n++] = (struct pollfd){.fd = resolver->socket, .events = POLLIN};
		if (resolver->state == RESOLVER_BUSY && resolver->look->deadline_ms < next)
			next = resolver->look->deadline_ms;
		if (resolver->state == RESOLVER_BUSY && now < silent && silent < next)
			next = silent;
	}
	*ret_timeout = next == INT64_MAX ? -1 : next > now ? (int)(next - now) : 0;
	return n;
}

/* Returns how many descriptors are sent with @place. */
static size_t n_open(const struct place *place)
{
	size_t n = place->root >= 0;

	for (size_t i = 0; i < PLACE_TREES; i++)
		n += place->trees[i] >= 0;
	return n;
}

static bool is_whole(const struct place *place, size_t len, size_t n_fds)
{
	return len >= offsetof(struct place, parents) && place->n_parents <= LIMIT_ROOT_PARENTS &&
	       len == offsetof(struct place, parents) +
			       place->n_parents * sizeof(place->parents[0]) &&
	       n_fds == n_open(place);
}

/* Takes a path resolver's answer, or notices that it ended without one. */
static void take_answer(struct path_resolvers *resolvers, struct path_resolver *resolver)
{
	static struct place place;
	struct look *look = resolver->look;
	struct iovec answer = {&place, sizeof(place)};
	int fds[1 + PLACE_TREES] = {-1, -1, -1};
	size_t n_fds = 0, next = 0;
	ssize_t n = receive_message(resolver->socket, &answer, 1, MSG_DONTWAIT, fds, &n_fds);
	bool is_good;

	if (n == -EAGAIN)
		return;
	is_good = n > 0 && look && is_whole(&place, (size_t)n, n_fds);
	if (!is_good)
		place_init(&place);
	if (place.root >= 0)
		place.root = fds[next++];
	for (size_t i = 0; i < PLACE_TREES; i++)
		if (place.trees[i] >= 0)
			place.trees[i] = fds[next++];
	while (next < n_fds)
		close(fds[next++]);
	resolver->state = RESOLVER_IDLE;
	resolver->look = NULL;
	if (!is_good)
		dismiss(resolver);
	if (look)
		look->done(look->context, is_good ? 0 : n < 0 ? (int)n : -EIO, &place);
	place_done(&place);
	look_free(resolvers, look);
}

/*
 * Ends the look-up of a late path resolver. Its tenant and mount point are kept until the path
 * resolver is reaped.
 */
static void be_late(struct path_resolvers *resolvers, struct path_resolver *resolver)
{
	struct look *look = resolver->look;

	fair_queue_late(&resolvers->turns, &look->turn, monotonic_ms());
	if (!look->point)
		look->point = find_point(look);
	dismiss(resolver);
	look->done(look->context, -ETIMEDOUT, NULL);
	look->fd = -1;
}

static void dismiss_idle(struct path_resolvers *resolvers)
{
	struct path_resolver *resolver;
	size_t idle = 0;

	LIST_FOREACH (resolver, &resolvers->list, entry)
		if (resolver->state == RESOLVER_IDLE && ++idle > LIMIT_PATH_RESOLVERS_IDLE)
			dismiss(resolver);
}

void path_resolvers_serve(struct path_resolvers *resolvers)
{
	struct path_resolver *resolver;
	int64_t now;

	LIST_FOREACH (resolver, &resolvers->list, entry)
		if (resolver->state != RESOLVER_LATE)
			take_answer(resolvers, resolver);
	now = (int64_t)monotonic_ms();
	LIST_FOREACH (resolver, &resolvers->list, entry) {
		if (resolver->state != RESOLVER_BUSY)
			continue;
		if (is_silent(resolver, now))
			tell_waits(resolver->look);
		if (now >= resolver->look->deadline_ms)
			be_late(resolvers, resolver);
	}
	begin_waiting(resolvers, now);
	dismiss_idle(resolvers);
}

void path_resolvers_end(struct path_resolvers *resolvers)
{
	uint64_t deadline = monotonic_ms() + RESOLVERS_END_MS;
	struct path_resolver *resolver, *next;
	struct look *look;

	while ((look = TAILQ_FIRST(&resolvers->waiting))) {
		TAILQ_UNLINK(&resolvers->waiting, look, entry);
		look_free(resolvers, look);
	}
	LIST_FOREACH (resolver, &resolvers->list, entry)
		if (resolver->state != RESOLVER_LATE)
			dismiss(resolver);
	for (resolver = LIST_FIRST(&resolvers->list); resolver; resolver = next) {
		_cleanup_close_ int pidfd = pidfd_open(resolver->pid, 0);
		struct pollfd end = {.fd = pidfd, .events = POLLIN};

		(void)poll(&end, 1, monotonic_left_ms(deadline));
		next = LIST_NEXT(resolver, entry);
		if (waitpid(resolver->pid, NULL, WNOHANG) == resolver->pid)
			path_resolvers_reaped(resolvers, resolver->pid);
	}
}
