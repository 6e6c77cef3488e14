// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. The file is root's; the text of a key is a stranger's. It is compared in
 * constant time, and never kept, logged or sent; tokens are verified in jwt.c. inotify(7) watches
 * the directory, since cloisterctl replaces the file.
 */
#include "gate/keys.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "common/keys/gate_key.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/jwt.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

#define EVENTS (IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_ATTRIB)

struct gate_keys {
	struct gate *gate;
	void (*changed)(struct gate *gate);
	int directory;
	char *name;
	struct gate_key_list list; /* sorted by id */
	struct jwt_keys *issuer;   /* NULL: no tokens are taken */
	int64_t token_expires;     /* the first of those in use; 0: none is */
	struct event *notified, *expired;
};

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct gate_key *)a)->id, ((const struct gate_key *)b)->id);
}

static bool is_expired(const struct gate_key *key)
{
	return key->expires > 0 && key->expires <= (int64_t)time(NULL);
}

/* Wakes when the next key expires. */
static void await_expiry(struct gate_keys *keys)
{
	struct timeval wait = {0};
	int64_t next = keys->token_expires, now = (int64_t)time(NULL);

	for (size_t i = 0; i < keys->list.count; i++) {
		int64_t expires = keys->list.items[i].expires;

		if (expires > now && (next == 0 || expires < next))
			next = expires;
	}
	evtimer_del(keys->expired);
	if (next == 0)
		return;
	wait.tv_sec = next > now ? next - now : 0;
	evtimer_add(keys->expired, &wait);
}

static void on_expired(evutil_socket_t fd, short what, void *context)
{
	struct gate_keys *keys = context;

	(void)fd;
	(void)what;
	keys->token_expires = 0;
	await_expiry(keys);
	/* Asks for each token in use, and so for the next one that expires. */
	keys->changed(keys->gate);
}

/* Reads a whole file of at most @limit bytes. Returns its length or -errno. */
static ssize_t read_keys_file(int directory, const char *name, uint64_t limit, char **ret)
{
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *content = NULL;
	struct stat status;
	ssize_t len;

	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size > limit)
		return -EFBIG;
	content = malloc((size_t)status.st_size + 1);
	if (!content)
		return -ENOMEM;
	len = io_read(fd, content, (size_t)status.st_size, IO_POSITION);
	if (len >= 0)
		*ret = TAKE_PTR(content);
	return len;
}

static void read_keys(struct gate_keys *keys)
{
	_cleanup_free_ char *content = NULL;
	struct gate_key_list list = {0};
	unsigned line = 0;
	ssize_t len = read_keys_file(keys->directory, keys->name, LIMIT_GATE_KEYS_BYTES, &content);
	int r = len < 0 ? (int)len
			: gate_keys_parse((struct text){content, (size_t)len}, &list, &line);

	if (r < 0)
		gate_say("%s: %s (line %u); no key is valid", keys->name, strerror(-r), line);
	gate_key_list_done(&keys->list);
	keys->list = list;
	if (list.count > 0)
		qsort(list.items, list.count, sizeof(*list.items), by_id);
	await_expiry(keys);
}

/* Whether one of the events in @buffer is about the file, or some were lost. */
static bool names_file(const struct gate_keys *keys, const char *buffer, size_t len)
{
	size_t at = 0;

	while (at < len) {
		const struct inotify_event *event = (const void *)(buffer + at);

		if ((event->mask & (IN_Q_OVERFLOW | IN_IGNORED)) ||
			(event->len > 0 && strcmp(event->name, keys->name) == 0))
			return true;
		at += sizeof(*event) + event->len;
	}
	return false;
}

static void on_notified(evutil_socket_t fd, short what, void *context)
{
	_Alignas(struct inotify_event) char buffer[4096];
	struct gate_keys *keys = context;
	bool is_changed = false;
	ssize_t n;

	(void)what;
	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		is_changed |= names_file(keys, buffer, (size_t)n);
	if (!is_changed)
		return;
	read_keys(keys);
	keys->changed(keys->gate);
}

static int watch_keys(struct gate_keys *keys, const char *directory)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fd < 0 || inotify_add_watch(fd, directory, EVENTS | IN_ONLYDIR) < 0)
		return -errno;
	keys->notified = event_new(keys->gate->base, fd, EV_READ | EV_PERSIST, on_notified, keys);
	keys->expired = evtimer_new(keys->gate->base, on_expired, keys);
	if (!keys->notified || !keys->expired || event_add(keys->notified, NULL) < 0)
		return -ENOMEM;
	return 0;
}

int gate_keys_open(struct gate *gate, const char *path, void (*changed)(struct gate *gate),
	struct gate_keys **ret)
{
	_cleanup_free_ char *copy = strdup(path), *other = strdup(path);
	struct gate_keys *keys = calloc(1, sizeof(*keys));
	const char *directory;
	int r;

	if (!copy || !other || !keys)
		return -ENOMEM;
	directory = dirname(copy);
	keys->gate = gate;
	keys->changed = changed;
	keys->name = strdup(basename(other));
	keys->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!keys->name || keys->directory < 0)
		return keys->name ? -errno : -ENOMEM;
	r = watch_keys(keys, directory);
	if (r < 0)
		return r;
	read_keys(keys);
	*ret = keys;
	return 0;
}

static const struct gate_key *find(const struct gate_keys *keys, const char *id)
{
	struct gate_key wanted = {0};

	if (strlen(id) != GATE_KEY_ID_DIGITS || keys->list.count == 0)
		return NULL;
	memcpy(wanted.id, id, GATE_KEY_ID_DIGITS);
	return bsearch(&wanted, keys->list.items, keys->list.count, sizeof(wanted), by_id);
}

const struct gate_key *gate_keys_check(const struct gate_keys *keys, struct text text)
{
	static const struct gate_key nobodys = {.id = ""};
	char id[GATE_KEY_ID_DIGITS + 1];
	const struct gate_key *key;
	bool is_it;

	if (!gate_key_is_text(text))
		return NULL;
	gate_key_id(text, id);
	key = find(keys, id);
	/* One hash more, also when no key has this id. */
	is_it = gate_key_matches(key ? key : &nobodys, text);
	return key && is_it && !is_expired(key) ? key : NULL;
}

const struct gate_key *gate_keys_find(const struct gate_keys *keys, const char *id)
{
	const struct gate_key *key = find(keys, id);

	return key && !is_expired(key) ? key : NULL;
}

int gate_keys_read_issuer(struct gate_keys *keys, const char **ret_fault)
{
	const char *path = keys->gate->config->jwt_keys;
	_cleanup_free_ char *content = NULL;
	struct jwt_keys *issuer;
	ssize_t len;

	if (!path)
		return 0;
	len = read_keys_file(AT_FDCWD, path, LIMIT_GATE_JWT_FILE_BYTES, &content);
	*ret_fault = len < 0 ? strerror((int)-len) : NULL;
	if (len < 0)
		return (int)len;
	issuer = jwt_keys_read((struct text){content, (size_t)len}, ret_fault);
	if (!issuer)
		return -EBADMSG;
	jwt_keys_free(keys->issuer);
	keys->issuer = issuer;
	keys->changed(keys->gate);
	return 0;
}

/* "j" is no hexadecimal digit, so that no key of the file has this id. */
static bool key_is_of_token(const struct gate_key *key)
{
	return key->id[0] == 'j';
}

static void write_token_id(
	const struct jwt_bearer *bearer, char ret_id[static GATE_KEY_ID_DIGITS + 1])
{
	ret_id[0] = 'j';
	for (size_t i = 1; i < GATE_KEY_ID_DIGITS; i++)
		ret_id[i] = "0123456789abcdef"[(bearer->subject[i / 2] >> (4 * (i % 2))) & 15];
	ret_id[GATE_KEY_ID_DIGITS] = '\0';
}

bool gate_keys_check_token(struct gate_keys *keys, struct text text, struct gate_key *ret_key)
{
	const struct gate_config *config = keys->gate->config;
	const struct jwt_rules rules = {
		config->jwt_issuer, config->jwt_audience, config->jwt_tenant};
	struct jwt_bearer bearer;

	if (!keys->issuer || jwt_check(keys->issuer, &rules, text, (int64_t)time(NULL), &bearer))
		return false;
	*ret_key = (struct gate_key){.expires = bearer.expires};
	write_token_id(&bearer, ret_key->id);
	static_assert(sizeof(ret_key->tenant) == sizeof(bearer.tenant), "names of tenants");
	memcpy(ret_key->tenant, bearer.tenant, sizeof(bearer.tenant));
	static_assert(sizeof(ret_key->hash) == sizeof(bearer.key), "the hash is the signer's");
	memcpy(ret_key->hash, bearer.key, sizeof(bearer.key));
	return gate_keys_allow(keys, ret_key);
}

/* An administrator may have given the line of @key to another tenant or workspace. */
static bool has_same_key(const struct gate_keys *keys, const struct gate_key *key)
{
	const struct gate_key *found = gate_keys_find(keys, key->id);

	return found && strcmp(found->tenant, key->tenant) == 0 &&
	       strcmp(found->workspace, key->workspace) == 0 &&
	       memcmp(found->hash, key->hash, sizeof(key->hash)) == 0;
}

bool gate_keys_allow(struct gate_keys *keys, const struct gate_key *key)
{
	if (!key_is_of_token(key))
		return has_same_key(keys, key);
	if (is_expired(key) || !jwt_keys_have(keys->issuer, key->hash))
		return false;
	if (keys->token_expires == 0 || key->expires < keys->token_expires) {
		keys->token_expires = key->expires;
		await_expiry(keys);
	}
	return true;
}

bool gate_keys_allow_session(const struct gate_keys *keys, const struct gate_key *key)
{
	return key_is_of_token(key) ? jwt_keys_have(keys->issuer, key->hash)
				    : has_same_key(keys, key);
}

bool gate_keys_are_shared(const struct gate_keys *keys)
{
	/* Any tenant may have tokens. */
	if (keys->issuer)
		return true;
	for (size_t i = 1; i < keys->list.count; i++)
		if (strcmp(keys->list.items[i].tenant, keys->list.items[0].tenant) != 0)
			return true;
	return false;
}

const struct gate_key *gate_keys_at(const struct gate_keys *keys, size_t index)
{
	return index < keys->list.count ? &keys->list.items[index] : NULL;
}
