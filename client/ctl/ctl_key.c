// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterctl, as the administrator who may write the file. A key is printed once, when it
 * is made; the file has only its salted hash. Writers take turns by a lock on the directory, and
 * replace the file at once, so that cloister-gate never reads half of one.
 */
#include "client/ctl/ctl_key.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/ctl/ctl_table.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/config_defaults.h"
#include "common/io.h"
#include "common/keys/gate_key.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define GATE_GROUP "cloister-gate"
#define DAY_MS     (24 * 3600000LL)

struct key_file {
	const char *path;
	char name[NAME_MAX + 1];
	int directory; /* locked */
	struct gate_key_list list;
};

static void key_file_done(struct key_file *file)
{
	gate_key_list_done(&file->list);
	close_fd(&file->directory);
}

/* Reads the content of the file, which need not exist. Returns its length or -errno. */
static ssize_t read_content(const struct key_file *file, char **ret)
{
	_cleanup_close_ int fd =
		openat(file->directory, file->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char *content = malloc(LIMIT_GATE_KEYS_BYTES + 1);

	if (!content)
		return -ENOMEM;
	*ret = content;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return io_read(fd, content, LIMIT_GATE_KEYS_BYTES + 1, IO_POSITION);
}

/* Opens the file and, with @writes, waits for other writers to have finished. */
static int key_file_open(const char *path, bool writes, struct key_file *ret)
{
	_cleanup_free_ char *copy = strdup(path), *other = strdup(path), *content = NULL;
	unsigned line = 0;
	ssize_t len;
	int r;

	if (!copy || !other)
		return -ENOMEM;
	*ret = (struct key_file){.path = path};
	snprintf(ret->name, sizeof(ret->name), "%s", basename(other));
	ret->directory = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->directory < 0 || (writes && flock(ret->directory, LOCK_EX) < 0))
		return -errno;
	len = read_content(ret, &content);
	if (len < 0)
		return (int)len;
	r = gate_keys_parse((struct text){content, (size_t)len}, &ret->list, &line);
	if (r == -EBADMSG)
		complain("%s:%u is not a key", path, line);
	return r;
}

/* The file belongs to the gate's group, which reads it; its own user's gate needs none. */
static int give_to_gate(int fd)
{
	const struct group *group = geteuid() == 0 ? getgrnam(GATE_GROUP) : NULL;

	if (group && fchown(fd, (uid_t)-1, group->gr_gid) < 0)
		return -errno;
	return fchmod(fd, group ? 0640 : 0600) < 0 ? -errno : 0;
}

static int key_file_write(const struct key_file *file)
{
	_cleanup_free_ char *content = gate_keys_write(&file->list);
	char name[NAME_MAX + 16];
	_cleanup_close_ int fd = -1;
	int r;

	if (!content)
		return -ENOMEM;
	snprintf(name, sizeof(name), ".%s.new", file->name);
	(void)unlinkat(file->directory, name, 0);
	fd = openat(
		file->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = io_write(fd, content, strlen(content), IO_POSITION);
	if (r == 0)
		r = give_to_gate(fd);
	if (r == 0 &&
		(fsync(fd) < 0 || renameat(file->directory, name, file->directory, file->name) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(file->directory, name, 0);
	return r;
}

/* "30d", or a duration as other commands take it. Returns seconds since the epoch. */
static int read_expiry(const char *word, int64_t *ret)
{
	size_t len = strlen(word);
	int64_t ms;

	if (len > 1 && len < 6 && word[len - 1] == 'd' && strspn(word, "0123456789") == len - 1)
		ms = atoll(word) * DAY_MS;
	else if (duration_parse(word, &ms) < 0)
		return -EINVAL;
	if (ms == 0)
		return -EINVAL;
	*ret = (int64_t)time(NULL) + (ms + 999) / 1000;
	return 0;
}

static void put_time(struct json_object *row, const char *name, int64_t seconds)
{
	char text[sizeof("2026-01-01T00:00:00Z") + 16];
	time_t time = (time_t)seconds;
	struct tm tm;

	if (seconds > 0 && gmtime_r(&time, &tm) &&
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		json_put(row, name, json_object_new_string(text));
	else
		json_object_object_add(row, name, NULL);
}

static void put_word(struct json_object *row, const char *name, const char *word)
{
	if (word[0])
		json_put(row, name, json_object_new_string(word));
	else
		json_object_object_add(row, name, NULL);
}

static struct json_object *row_of(const struct gate_key *key)
{
	struct json_object *row = json_object_new_object();

	put_word(row, "id", key->id);
	put_word(row, "tenant", key->tenant);
	put_word(row, "workspace", key->workspace);
	put_word(row, "name", key->name);
	put_time(row, "created", key->created);
	put_time(row, "expires", key->expires);
	return row;
}

static void print_json(struct json_object *document)
{
	terminal_put_json(json_object_to_json_string_ext(document, PRINTED_JSON));
	json_object_put(document);
}

/* Copies @word, which may be NULL. Returns 0, or -EINVAL after a complaint. */
static int take_key_file_word(const char *what, const char *word, char *to, size_t max)
{
	if (!word)
		return 0;
	if (!gate_key_is_word(text_from(word), max)) {
		complain_code("USAGE", "%s: letters, digits and \"._-@\", at most %zu", what, max);
		return -EINVAL;
	}
	memcpy(to, word, strlen(word) + 1);
	return 0;
}

static int read_wish(const struct key_wish *wish, struct gate_key *ret)
{
	if (!wish->tenant) {
		complain_code("USAGE", "key new needs --tenant NAME");
		return -EINVAL;
	}
	if (take_key_file_word("--tenant", wish->tenant, ret->tenant, LIMIT_CONFIG_NAME_BYTES) <
			0 ||
		take_key_file_word(
			"--workspace", wish->workspace, ret->workspace, LIMIT_NAME_BYTES) < 0 ||
		take_key_file_word("--name", wish->name, ret->name, GATE_KEY_NAME_BYTES) < 0)
		return -EINVAL;
	if (wish->expires && read_expiry(wish->expires, &ret->expires) < 0) {
		complain_code("USAGE", "--expires: write 30d, 12h or 90m");
		return -EINVAL;
	}
	return 0;
}

static int fail_key_file(const char *path, int r)
{
	complain("%s: %s", path, strerror(-r));
	return STATUS_TOOL_FAILED;
}

static int add_gate_key(struct key_file *file, const struct gate_key *key)
{
	struct gate_key *grown =
		file->list.count < LIMIT_GATE_KEYS
			? reallocarray(file->list.items, file->list.count + 1, sizeof(*grown))
			: NULL;

	if (!grown)
		return file->list.count < LIMIT_GATE_KEYS ? -ENOMEM : -E2BIG;
	file->list.items = grown;
	file->list.items[file->list.count++] = *key;
	return key_file_write(file);
}

static int key_new(const char *path, const struct key_wish *wish)
{
	_cleanup_(key_file_done) struct key_file file = {.directory = -1};
	char text[GATE_KEY_LENGTH + 1] = "";
	struct gate_key key = {0};
	int r;

	if (read_wish(wish, &key) < 0)
		return STATUS_USAGE;
	r = key_file_open(path, true, &file);
	if (r == 0)
		r = gate_key_make(&key, text);
	if (r == 0)
		r = add_gate_key(&file, &key);
	if (r < 0)
		return fail_key_file(path, r);
	if (wish->json) {
		struct json_object *row = row_of(&key);

		json_put(row, "key", json_object_new_string(text));
		print_json(row);
	} else {
		puts(text);
	}
	explicit_bzero(text, sizeof(text));
	return STATUS_OK;
}

static int key_list(const char *path, const struct key_wish *wish)
{
	static const struct ctl_column columns[] = {{"id", "ID", CTL_TEXT},
		{"tenant", "TENANT", CTL_TEXT}, {"workspace", "WORKSPACE", CTL_TEXT},
		{"name", "NAME", CTL_TEXT}, {"created", "CREATED", CTL_TEXT},
		{"expires", "EXPIRES", CTL_TEXT}, {NULL, NULL, CTL_TEXT}};
	_cleanup_(key_file_done) struct key_file file = {.directory = -1};
	struct json_object *rows;
	int r = key_file_open(path, false, &file);

	if (r < 0)
		return fail_key_file(path, r);
	rows = json_object_new_array();
	for (size_t i = 0; i < file.list.count; i++)
		if (!wish->tenant || strcmp(wish->tenant, file.list.items[i].tenant) == 0)
			json_object_array_add(rows, row_of(&file.list.items[i]));
	if (wish->json) {
		struct json_object *document = json_object_new_object();

		json_put(document, "keys", rows);
		print_json(document);
		return STATUS_OK;
	}
	ctl_table(rows, columns);
	json_object_put(rows);
	return STATUS_OK;
}

/* Takes the keys with this id or name out of the list. Returns how many. */
static size_t take_out(struct gate_key_list *list, const char *wanted)
{
	size_t kept = 0, all = list->count;

	for (size_t i = 0; i < all; i++)
		if (strcmp(list->items[i].id, wanted) != 0 &&
			strcmp(list->items[i].name, wanted) != 0)
			list->items[kept++] = list->items[i];
	list->count = kept;
	return all - kept;
}

static int key_revoke(const char *path, const char *wanted, const struct key_wish *wish)
{
	_cleanup_(key_file_done) struct key_file file = {.directory = -1};
	int r = key_file_open(path, true, &file);
	size_t n;

	if (r < 0)
		return fail_key_file(path, r);
	n = take_out(&file.list, wanted);
	if (n == 0) {
		complain_code("NOT_FOUND", "there is no key with this id or name");
		return STATUS_TOOL_FAILED;
	}
	r = key_file_write(&file);
	if (r < 0)
		return fail_key_file(path, r);
	if (wish->json) {
		struct json_object *document = json_object_new_object();

		json_put(document, "revoked", json_object_new_int64((int64_t)n));
		print_json(document);
	} else {
		printf("%zu revoked\n", n);
	}
	return STATUS_OK;
}

int key_run(int n_words, char **words, const struct key_wish *wish)
{
	const char *path = wish->file ? wish->file : DEFAULT_GATE_KEYS;

	if (n_words == 1 && strcmp(words[0], "new") == 0)
		return key_new(path, wish);
	if (n_words == 1 && strcmp(words[0], "list") == 0)
		return key_list(path, wish);
	if (n_words == 2 && strcmp(words[0], "revoke") == 0)
		return key_revoke(path, words[1], wish);
	return STATUS_USAGE;
}
