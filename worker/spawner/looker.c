// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner: manages lookers and their deadlines. A looker is a fork whose only
 * descriptor is its socket. It dies with the spawner. The spawner trusts its answers, because it
 * runs only the code of place.c.
 */
#include "worker/spawner/looker.h"

#include "common/array.h"
#include "common/budget.h"
#include "common/cleanup.h"
#include "common/links.h"
#include "common/monotonic.h"
#include "common/mountinfo.h"
#include "worker/spawner/forked.h"

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

/* A question to a looker; both paths follow it, each with a NUL. */
struct question {
	uint8_t kind; /* enum look_kind */
	bool below, file;
	size_t path_size;
};

struct look {
	struct fair_entry turn;  /* first; until its looker is reaped, if that is late */
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

enum looker_state { LOOKER_IDLE, LOOKER_BUSY, LOOKER_LATE };

struct looker {
	LIST_ENTRY(looker) entry;
	pid_t pid;
	int socket; /* -1 once it is late */
	enum looker_state state;
	int64_t begun_ms;
	struct look *look; /* when LATE, only the tenant and the mount point of the look are kept */
};

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE((1 + PLACE_TREES) * sizeof(int))];
};

void lookers_init(struct lookers *lookers)
{
	*lookers = (struct lookers){0};
	fair_queue_init(
		&lookers->turns, LIMIT_LOOKERS, LIMIT_LOOKERS_PER_TENANT, LIMIT_LOOKERS_KEPT);
	TAILQ_INIT(&lookers->waiting);
	LIST_INIT(&lookers->list);
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

/* The looker's side. */

static void look(struct place *place, const struct question *question, const char *paths, int fd)
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
		look(&place, &question, paths, fds[0]);
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
	"cloister-looker", steps, ARRAY_SIZE(steps), serve_spawner};

/* Returns NULL without memory, descriptors or processes. */
static struct looker *start_looker(struct lookers *lookers)
{
	struct looker *looker = calloc(1, sizeof(*looker));
	struct forked forked = {.n_kept = 1};
	int pair[2];

	if (!looker || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(looker);
		return NULL;
	}
	forked.kept[0] = pair[1];
	looker->pid = forked_start(&looking, &forked);
	close(pair[1]);
	if (looker->pid < 0) {
		close(pair[0]);
		free(looker);
		return NULL;
	}
	looker->socket = pair[0];
	LIST_INSERT_HEAD(&lookers->list, looker, entry);
	return looker;
}

static void look_free(struct lookers *lookers, struct look *look)
{
	if (!look)
		return;
	fair_queue_end(&lookers->turns, &look->turn, monotonic_ms());
	free(look->point);
	free(look->paths);
	free(look);
}

/* Ends a looker that is surplus or broken; lookers_reaped() frees it. */
static void dismiss(struct looker *looker)
{
	close_fd(&looker->socket);
	kill(looker->pid, SIGKILL);
	looker->state = LOOKER_LATE;
}

void lookers_reaped(struct lookers *lookers, pid_t pid)
{
	struct looker *looker;

	LIST_FOREACH (looker, &lookers->list, entry)
		if (looker->pid == pid)
			break;
	if (!looker)
		return;
	if (looker->state == LOOKER_BUSY) {
		looker->look->done(looker->look->context, -EIO, NULL);
		look_free(lookers, TAKE_PTR(looker->look));
	}
	close_fd(&looker->socket);
	look_free(lookers, looker->look);
	LIST_REMOVE(looker, entry);
	free(looker);
}

/* Mount points. */

static bool is_at_or_below(const char *path, const char *directory)
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
		if (is_at_or_below(path, entry.point) && strlen(entry.point) >= strlen(best)) {
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

static bool is_silent(const struct looker *looker, int64_t now)
{
	return looker->state == LOOKER_LATE || now - looker->begun_ms >= LIMIT_LOOK_UP_SILENT_MS;
}

static enum verdict judge(struct lookers *lookers, struct look *look, int64_t now)
{
	size_t young = 0, all = 0, late = 0;
	enum verdict verdict = MAY_BEGIN;
	struct looker *looker;

	LIST_FOREACH (looker, &lookers->list, entry) {
		if (!looker->look || strcmp(looker->look->tenant, look->tenant) != 0)
			continue;
		all++;
		late += looker->state == LOOKER_LATE;
		if (!is_silent(looker, now))
			young++;
		else if (!is_same_mount(looker->look, look))
			continue;
		else if (looker->state == LOOKER_LATE)
			return IS_HOPELESS;
		else
			verdict = IS_HELD_UP;
	}
	if (late >= LIMIT_LOOKERS_PER_TENANT)
		return IS_HOPELESS;
	if (verdict == IS_HELD_UP || all - young >= LIMIT_LOOKERS_PER_TENANT)
		return IS_HELD_UP;
	return young >= LIMIT_LOOK_UPS_AT_ONCE || all >= LIMIT_LOOKERS_PER_TENANT ? MUST_WAIT
										  : MAY_BEGIN;
}

/* Tells once that a file system holds up the look-up. */
static void tell_waits(struct look *look)
{
	void (*waits)(void *context) = TAKE_PTR(look->waits);

	if (waits)
		waits(look->context);
}

static struct looker *find_idle(struct lookers *lookers)
{
	struct looker *looker;

	LIST_FOREACH (looker, &lookers->list, entry)
		if (looker->state == LOOKER_IDLE)
			return looker;
	return NULL;
}

/* Gives the look-up, whose turn it is, to a looker. Returns 0 or -errno. */
static int begin(struct lookers *lookers, struct look *look, int64_t now)
{
	struct iovec asked[] = {
		{&look->question, sizeof(look->question)}, {look->paths, look->paths_size}};
	struct looker *looker = find_idle(lookers);
	int r;

	if (!looker)
		looker = start_looker(lookers);
	if (!looker)
		return -EAGAIN;
	r = send_message(looker->socket, asked, ARRAY_SIZE(asked), &look->fd, 1);
	if (r < 0) {
		dismiss(looker);
		return r;
	}
	looker->state = LOOKER_BUSY;
	looker->look = look;
	looker->begun_ms = now;
	return 0;
}

static void give_up(struct lookers *lookers, struct look *look, int error)
{
	TAILQ_UNLINK(&lookers->waiting, look, entry);
	look->done(look->context, error, NULL);
	look_free(lookers, look);
}

static bool may_begin(void *context, struct fair_entry *entry)
{
	return judge(context, (struct look *)entry, (int64_t)monotonic_ms()) == MAY_BEGIN;
}

static void begin_waiting(struct lookers *lookers, int64_t now)
{
	struct look *look, *next;

	for (look = TAILQ_FIRST(&lookers->waiting); look; look = next) {
		enum verdict verdict = judge(lookers, look, now);

		next = TAILQ_NEXT(look, entry);
		if (verdict == IS_HOPELESS || now >= look->deadline_ms)
			give_up(lookers, look, -ETIMEDOUT);
		else if (verdict == IS_HELD_UP)
			tell_waits(look);
	}
	while ((look = (struct look *)fair_queue_next(
			&lookers->turns, (uint64_t)now, may_begin, lookers))) {
		/* Without a looker it is tried again soon. */
		if (begin(lookers, look, now) < 0) {
			fair_queue_return(&lookers->turns, &look->turn, (uint64_t)now);
			break;
		}
		TAILQ_UNLINK(&lookers->waiting, look, entry);
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

int lookers_ask(
	struct lookers *lookers, const struct look_request *request, look_done done, void *context)
{
	struct text tenant = text_from(request->tenant);
	uint64_t own = fair_queue_waiting(&lookers->turns, tenant);
	struct look *look;
	int r;

	if (own >= LIMIT_LOOK_UPS_WAITING ||
		share_left(true, LIMIT_LOOK_UPS_WAITING_TOTAL - (own > 0 ? LIMIT_LOOK_UPS_KEPT : 0),
			lookers->turns.n_waiting, own) == 0)
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
		r = fair_queue_add(&lookers->turns, &look->turn, tenant);
	if (r < 0) {
		look_free(lookers, look);
		return r;
	}
	TAILQ_LINK_TAIL(&lookers->waiting, look, entry);
	return 0;
}

size_t lookers_poll(const struct lookers *lookers, struct pollfd *ret, int *ret_timeout)
{
	const struct look *first = TAILQ_FIRST(&lookers->waiting);
	int64_t now = (int64_t)monotonic_ms(), next = first ? first->deadline_ms : INT64_MAX;
	const struct looker *looker;
	size_t n = 0;

	LIST_FOREACH (looker, &lookers->list, entry) {
		int64_t silent = looker->begun_ms + LIMIT_LOOK_UP_SILENT_MS;

		if (looker->state == LOOKER_LATE)
			continue;
		ret[n++] = (struct pollfd){.fd = looker->socket, .events = POLLIN};
		if (looker->state == LOOKER_BUSY && looker->look->deadline_ms < next)
			next = looker->look->deadline_ms;
		if (looker->state == LOOKER_BUSY && now < silent && silent < next)
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

/* Takes a looker's answer, or notices that it ended without one. */
static void take_answer(struct lookers *lookers, struct looker *looker)
{
	static struct place place;
	struct look *look = looker->look;
	struct iovec answer = {&place, sizeof(place)};
	int fds[1 + PLACE_TREES] = {-1, -1, -1};
	size_t n_fds = 0, next = 0;
	ssize_t n = receive_message(looker->socket, &answer, 1, MSG_DONTWAIT, fds, &n_fds);
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
	looker->state = LOOKER_IDLE;
	looker->look = NULL;
	if (!is_good)
		dismiss(looker);
	if (look)
		look->done(look->context, is_good ? 0 : n < 0 ? (int)n : -EIO, &place);
	place_done(&place);
	look_free(lookers, look);
}

/*
 * Ends the look-up of a late looker. Its tenant and mount point are kept until the looker is
 * reaped.
 */
static void be_late(struct lookers *lookers, struct looker *looker)
{
	struct look *look = looker->look;

	fair_queue_late(&lookers->turns, &look->turn, monotonic_ms());
	if (!look->point)
		look->point = find_point(look);
	dismiss(looker);
	look->done(look->context, -ETIMEDOUT, NULL);
	look->fd = -1;
}

static void dismiss_idle(struct lookers *lookers)
{
	struct looker *looker;
	size_t idle = 0;

	LIST_FOREACH (looker, &lookers->list, entry)
		if (looker->state == LOOKER_IDLE && ++idle > LIMIT_LOOKERS_IDLE)
			dismiss(looker);
}

void lookers_serve(struct lookers *lookers)
{
	struct looker *looker;
	int64_t now;

	LIST_FOREACH (looker, &lookers->list, entry)
		if (looker->state != LOOKER_LATE)
			take_answer(lookers, looker);
	now = (int64_t)monotonic_ms();
	LIST_FOREACH (looker, &lookers->list, entry) {
		if (looker->state != LOOKER_BUSY)
			continue;
		if (is_silent(looker, now))
			tell_waits(looker->look);
		if (now >= looker->look->deadline_ms)
			be_late(lookers, looker);
	}
	begin_waiting(lookers, now);
	dismiss_idle(lookers);
}

void lookers_end(struct lookers *lookers)
{
	uint64_t deadline = monotonic_ms() + LOOKERS_END_MS;
	struct looker *looker, *next;
	struct look *look;

	while ((look = TAILQ_FIRST(&lookers->waiting))) {
		TAILQ_UNLINK(&lookers->waiting, look, entry);
		look_free(lookers, look);
	}
	LIST_FOREACH (looker, &lookers->list, entry)
		if (looker->state != LOOKER_LATE)
			dismiss(looker);
	for (looker = LIST_FIRST(&lookers->list); looker; looker = next) {
		_cleanup_close_ int pidfd = pidfd_open(looker->pid, 0);
		struct pollfd end = {.fd = pidfd, .events = POLLIN};

		(void)poll(&end, 1, monotonic_left_ms(deadline));
		next = LIST_NEXT(looker, entry);
		if (waitpid(looker->pid, NULL, WNOHANG) == looker->pid)
			lookers_reaped(lookers, looker->pid);
	}
}
