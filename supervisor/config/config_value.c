// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd at start and on reload: parses one setting into its field. */
#include "supervisor/config/config_value.h"

#include "common/cleanup.h"
#include "common/config/config_number.h"
#include "common/config/disk_classes.h"
#include "common/directory_parents.h"
#include "common/fd_path.h"
#include "common/limits.h"
#include "supervisor/config/accounts.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/config_egress.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/features.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define SHOWN_MAX 64

typedef void value_setter(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value);

int config_shown(const char *value)
{
	size_t len = strlen(value);

	if (len > SHOWN_MAX)
		for (len = SHOWN_MAX; len > 0 && ((unsigned char)value[len] & 0xc0) == 0x80;)
			len--;
	return (int)len;
}

static void wrong_form(
	struct config_reader *reader, const struct config_key *key, const char *value)
{
	char choices[192] = "";
	size_t len = 0;

	for (size_t i = 0; i < CONFIG_CHOICES_MAX && key->choices[i]; i++)
		len += (size_t)snprintf(choices + len, sizeof(choices) - len, "%s %s",
			i > 0 ? "," : "", key->choices[i]);
	config_wrong(reader, "%s: \"%.*s\" is not %s%s", key->name, config_shown(value), value,
		config_type_form(key->type), choices);
}

static void out_of_memory(struct config_reader *reader, const struct config_key *key)
{
	config_wrong(reader, "%s: out of memory", key->name);
}

/* Makes room for one more item of @size bytes. Returns NULL after a complaint. */
static void *grow_config_list(struct config_reader *reader, const struct config_key *key,
	void **items, size_t *count, size_t size)
{
	void *grown;

	if (*count >= LIMIT_CONFIG_LIST) {
		config_wrong(reader, "%s: more than %d values", key->name, LIMIT_CONFIG_LIST);
		return NULL;
	}
	grown = reallocarray(*items, *count + 1, size);
	if (!grown) {
		out_of_memory(reader, key);
		return NULL;
	}
	*items = grown;
	return (char *)grown + (*count)++ * size;
}

static void add_string(struct config_reader *reader, const struct config_key *key,
	struct string_list *list, const char *value)
{
	void *items = list->strings;
	char *copy = strdup(value);
	char **place =
		copy ? grow_config_list(reader, key, &items, &list->count, sizeof(*list->strings))
		     : NULL;

	list->strings = items;
	if (place) {
		*place = copy;
		return;
	}
	if (!copy)
		out_of_memory(reader, key);
	free(copy);
}

static void add_string_once(struct config_reader *reader, const struct config_key *key,
	struct string_list *list, const char *value)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->strings[i], value) == 0) {
			config_wrong(reader, "%s: \"%.*s\" is given twice", key->name,
				config_shown(value), value);
			return;
		}
	add_string(reader, key, list, value);
}

static void set_config_number(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	char min[32], max[32];
	uint64_t number = 0;
	int r = config_number(key->type, value, &number);

	if (r == -EINVAL) {
		wrong_form(reader, key, value);
		return;
	}
	if (r < 0 || number < key->min || number > key->max) {
		config_wrong(reader, "%s: \"%.*s\" is out of range, which is %s to %s", key->name,
			config_shown(value), value,
			config_key_show(key, key->min, min, sizeof(min)),
			config_key_show(key, key->max, max, sizeof(max)));
		return;
	}
	*(uint64_t *)field = number;
}

static bool port_of(const struct config_key *key, const char *text, size_t len, uint64_t *ret)
{
	char copy[8];

	if (len >= sizeof(copy))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return config_number(CONFIG_NUMBER, copy, ret) == 0 && *ret >= key->min && *ret <= key->max;
}

static void set_ports(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	size_t len = strcspn(value, "-");
	const char *last = value[len] == '-' ? value + len + 1 : value;
	uint64_t low, high;

	if (strcmp(value, "none") == 0)
		*(uint64_t *)field = 0;
	else if (port_of(key, value, len, &low) && port_of(key, last, strlen(last), &high) &&
		 low <= high)
		*(uint64_t *)field = CONFIG_PORTS_OF(low, high);
	else
		config_wrong(reader,
			"%s: \"%.*s\" is not none, a port or a range of ports such as 3000-3999, "
			"from %llu to %llu",
			key->name, config_shown(value), value, (unsigned long long)key->min,
			(unsigned long long)key->max);
}

#define BETWEEN_WORDS " \t,"

static bool are_words_of(const char *words, const char *text)
{
	for (; *(words += strspn(words, BETWEEN_WORDS)); words += strcspn(words, BETWEEN_WORDS)) {
		size_t len = strcspn(words, BETWEEN_WORDS);
		const char *at = text;

		while (*(at += strspn(at, BETWEEN_WORDS)) &&
			(strcspn(at, BETWEEN_WORDS) != len || strncmp(at, words, len) != 0))
			at += strcspn(at, BETWEEN_WORDS);
		if (!*at)
			return false;
	}
	return true;
}

/* A choice of several words may be given in any order, with blanks or commas between them. */
static bool is_choice(const char *choice, const char *value)
{
	return strcmp(choice, value) == 0 ||
	       (strchr(choice, ' ') && are_words_of(choice, value) && are_words_of(value, choice));
}

static void set_choice(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	for (size_t i = 0; i < CONFIG_CHOICES_MAX && key->choices[i]; i++)
		if (is_choice(key->choices[i], value)) {
			*(uint64_t *)field = i;
			return;
		}
	wrong_form(reader, key, value);
}

static void set_yes_no(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	if (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0)
		*(bool *)field = value[0] == 'y';
	else
		wrong_form(reader, key, value);
}

static bool lies_in(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	return len == 1 ||
	       (strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0'));
}

bool config_paths_overlap(const char *a, const char *b)
{
	return lies_in(a, b) || lies_in(b, a);
}

/* Whether the path is absolute and in its only plain form. */
static bool is_plain_path(const char *path)
{
	if (path[0] != '/' || strlen(path) > LIMIT_PATH_BYTES)
		return false;
	if (path[1] == '\0')
		return true;
	for (const char *at = path; *at; at += strcspn(at + 1, "/") + 1) {
		size_t len = strcspn(at + 1, "/");

		if (len == 0 || (at[1] == '.' && (len == 1 || (len == 2 && at[2] == '.'))))
			return false;
	}
	return true;
}

static void set_path(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	if (!is_plain_path(value)) {
		wrong_form(reader, key, value);
		return;
	}
	free(*(char **)field);
	*(char **)field = strdup(value);
	if (!*(char **)field)
		out_of_memory(reader, key);
}

static int find_account(struct config_reader *reader, const struct config_key *key,
	enum account_kind kind, const char *name, uint32_t *ret)
{
	const struct config_parts *parts = reader->context;
	int r = accounts_find(parts->accounts, kind, name, ret);
	const char *what = kind == ACCOUNT_USER ? "user" : "group";

	if (r == -ENOENT)
		config_wrong(reader, "%s: there is no %s \"%.*s\"", key->name, what,
			config_shown(name), name);
	else if (r == -ERANGE)
		config_wrong(reader, "%s: \"%.*s\" is out of range, which is 0 to 4294967294",
			key->name, config_shown(name), name);
	else if (r < 0)
		config_wrong(reader, "%s: the %s \"%.*s\" cannot be looked up: %s", key->name, what,
			config_shown(name), name, strerror(-r));
	return r;
}

static void set_user(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	uint32_t id;

	if (find_account(reader, key, ACCOUNT_USER, value, &id) < 0)
		return;
	free(*(char **)field);
	*(char **)field = strdup(value);
	if (!*(char **)field)
		out_of_memory(reader, key);
}

static void add_account(struct config_reader *reader, const struct config_key *key,
	struct id_list *list, const char *name)
{
	enum account_kind kind = key->type == CONFIG_USERS ? ACCOUNT_USER : ACCOUNT_GROUP;
	void *items = list->ids;
	uint32_t id, *place;

	if (find_account(reader, key, kind, name, &id) < 0)
		return;
	for (size_t i = 0; i < list->count; i++)
		if (list->ids[i] == id) {
			config_wrong(reader, "%s: \"%.*s\" is given twice", key->name,
				config_shown(name), name);
			return;
		}
	place = grow_config_list(reader, key, &items, &list->count, sizeof(*list->ids));
	list->ids = items;
	if (place)
		*place = id;
}

static void add_feature(struct config_reader *reader, const struct config_key *key,
	struct string_list *list, const char *name)
{
	if (feature_is_known(name))
		add_string_once(reader, key, list, name);
	else
		config_wrong(reader, "%s: there is no feature \"%.*s\"; the features are %s",
			key->name, config_shown(name), name, feature_names());
}

/* A class is checked together with those before it. */
static void add_class(struct config_reader *reader, const struct config_key *key,
	struct string_list *list, const char *word)
{
	struct disk_classes classes = {.count = 0};
	const char *why = NULL;

	for (size_t i = 0; i < list->count; i++)
		(void)disk_classes_add(&classes, list->strings[i]);
	why = disk_classes_add(&classes, word);
	if (why)
		config_wrong(reader, "%s: \"%.*s\": %s", key->name, config_shown(word), word, why);
	else
		add_string(reader, key, list, word);
}

/* Whether there is such a class is checked when all files are read. */
static void set_name(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	free(*(char **)field);
	*(char **)field = strdup(value);
	if (!*(char **)field)
		out_of_memory(reader, key);
}

/* Adds any number of values of a line. */
static void set_words(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	_cleanup_free_ char *copy = strdup(value);
	char *rest = copy;
	const char *word;

	if (!copy) {
		out_of_memory(reader, key);
		return;
	}
	if (value[strspn(value, " \t,")] == '\0') {
		wrong_form(reader, key, value);
		return;
	}
	while ((word = strsep(&rest, " \t,"))) {
		if (*word == '\0')
			continue;
		if (key->type == CONFIG_FEATURES)
			add_feature(reader, key, field, word);
		else if (key->type == CONFIG_CLASSES)
			add_class(reader, key, field, word);
		else
			add_account(reader, key, field, word);
	}
}

static bool check_egress(struct config_reader *reader, const struct config_key *key,
	enum egress_words kind, const char *word)
{
	const struct config_parts *parts = reader->context;
	char why[LIMIT_EGRESS_REASON_BYTES];

	if (config_egress_check(kind, word, why, sizeof(why)) &&
		config_egress_add(&parts->part->egress, kind, word, reader, why, sizeof(why)))
		return true;
	config_wrong(reader, "%s: \"%.*s\": %s", key->name, config_shown(word), word, why);
	return false;
}

bool config_value_egress(const struct config_key *key, enum egress_words *ret_kind)
{
	static const struct {
		enum config_type type;
		enum egress_words kind;
	} kinds[] = {{CONFIG_ALLOW, EGRESS_WORDS_ALLOW}, {CONFIG_DENY, EGRESS_WORDS_DENY},
		{CONFIG_NETWORKS, EGRESS_WORDS_NETWORKS}, {CONFIG_RESOLVER, EGRESS_WORDS_RESOLVER}};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].type == key->type) {
			*ret_kind = kinds[i].kind;
			return true;
		}
	return false;
}

/* Only blanks separate these words, as for cloister-egress. */
static void set_egress_words(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	enum egress_words kind = EGRESS_WORDS_ALLOW;
	_cleanup_free_ char *copy = strdup(value);
	char *rest = copy;
	const char *word;

	if (!copy)
		out_of_memory(reader, key);
	(void)config_value_egress(key, &kind);
	while ((word = strsep(&rest, " ")))
		if (*word && check_egress(reader, key, kind, word))
			add_string(reader, key, field, word);
}

static void set_upstream(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	char *copy;

	if (!check_egress(reader, key, EGRESS_WORDS_UPSTREAM, value))
		return;
	copy = strdup(value);
	if (!copy)
		out_of_memory(reader, key);
	free(*(char **)field);
	*(char **)field = copy;
}

/* What is behind the name is in no message: somebody may have written a secret there. */
static void set_secret(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	char why[LIMIT_EGRESS_REASON_BYTES];
	struct string_list *list = field;
	size_t name_len = strcspn(value, " \t");

	if (!config_egress_check(EGRESS_WORDS_SECRET, value, why, sizeof(why))) {
		config_wrong(reader, "%s: %s", key->name, why);
		return;
	}
	for (size_t i = 0; i < list->count; i++)
		if (strcspn(list->strings[i], " \t") == name_len &&
			strncmp(list->strings[i], value, name_len) == 0) {
			config_wrong(reader, "%s: \"%.*s\" is given twice", key->name,
				(int)name_len, value);
			return;
		}
	if (list->count >= LIMIT_EGRESS_SECRETS)
		config_wrong(reader, "%s: more than %d secrets", key->name, LIMIT_EGRESS_SECRETS);
	else
		add_string(reader, key, list, value);
}

static void add_root(struct config_reader *reader, const struct config_key *key,
	struct root_list *list, struct tenant_root *root)
{
	void *items = list->roots;
	struct tenant_root *place;

	for (size_t i = 0; i < list->count; i++)
		if (list->roots[i].dev == root->dev && list->roots[i].ino == root->ino) {
			config_wrong(reader, "%s: this directory is given twice", key->name);
			return;
		}
	place = grow_config_list(reader, key, &items, &list->count, sizeof(*list->roots));
	list->roots = items;
	if (!place)
		return;
	*place = *root;
	root->fd = -1;
}

/*
 * The directory, or with @files the regular file, must be given by its canonical name, so that the
 * owner of a link on the way cannot make a later reading find another one. Its own file system,
 * which a tenant may have mounted and which may hang, is not asked. Returns a descriptor with
 * O_PATH, or -1 after a complaint.
 */
static int open_canonical(struct config_reader *reader, const struct config_key *key,
	const char *value, bool files, struct directory_id *ret)
{
	struct directory_known known;
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *canonical = NULL;

	if (!is_plain_path(value)) {
		wrong_form(reader, key, value);
		return -1;
	}
	fd = open(value, O_PATH | O_CLOEXEC | (files ? 0 : O_DIRECTORY));
	if (fd < 0 || directory_known(fd, &known) < 0) {
		config_wrong(reader, "%s: \"%.*s\": %s", key->name, config_shown(value), value,
			strerror(errno));
		return -1;
	}
	canonical = fd_path(fd);
	if (!canonical || strcmp(canonical, value) != 0) {
		config_wrong(reader,
			"%s: \"%.*s\" leads through a symbolic link: write \"%s\" instead",
			key->name, config_shown(value), value, canonical ? canonical : "(unknown)");
		return -1;
	}
	if (!S_ISDIR(known.mode) && !S_ISREG(known.mode)) {
		config_wrong(reader, "%s: \"%.*s\" is neither a directory nor a regular file",
			key->name, config_shown(value), value);
		return -1;
	}
	*ret = known.id;
	return TAKE_FD(fd);
}

static void set_root(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	struct tenant_root root;
	struct directory_id id;
	int fd = open_canonical(reader, key, value, false, &id);

	if (fd < 0)
		return;
	root = (struct tenant_root){.fd = fd, .dev = id.dev, .ino = id.ino};
	add_root(reader, key, field, &root);
	close_fd(&root.fd);
}

/*
 * The worker mounts the path at the same place in the root. So the path must be none at which a
 * workspace has something of its own.
 */
static void set_readonly_path(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	static const char *const taken[] = {"/proc", "/sys", "/dev", "/tmp", "/run", "/var/tmp",
		"/workspace", "/home/agent", "/etc/passwd", "/etc/group", "/etc/hosts",
		"/etc/hostname", "/etc/nsswitch.conf"};
	_cleanup_close_ int fd = -1;
	struct string_list *list = field;
	size_t bytes = strlen(value) + 1;
	struct directory_id id;

	fd = open_canonical(reader, key, value, true, &id);
	if (fd < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (config_paths_overlap(value, taken[i])) {
			config_wrong(reader,
				"%s: \"%.*s\" overlaps with %s, which every workspace has of its "
				"own",
				key->name, config_shown(value), value, taken[i]);
			return;
		}
	for (size_t i = 0; i < list->count; i++)
		bytes += strlen(list->strings[i]) + 1;
	if (list->count >= LIMIT_READONLY_PATHS || bytes > LIMIT_READONLY_BYTES)
		config_wrong(reader, "%s: more than %d paths or %d bytes", key->name,
			LIMIT_READONLY_PATHS, LIMIT_READONLY_BYTES);
	else
		add_string_once(reader, key, list, value);
}

static void set_pattern(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	struct string_list *list = field;
	bool none = strcmp(value, "none") == 0;
	struct command_policy *policy = NULL;
	_cleanup_free_ char *message = NULL;

	if (list->count > 0 && (none || strcmp(list->strings[0], "none") == 0)) {
		config_wrong(reader, "%s: \"none\" stands alone", key->name);
		return;
	}
	if (!none && strcmp(value, "default") != 0 &&
		command_policy_new(&value, 1, &policy, &message) < 0) {
		config_wrong(reader, "%s: %s", key->name, message ? message : "out of memory");
		return;
	}
	command_policy_free(policy);
	add_string_once(reader, key, list, value);
}

static void set_environment(
	struct config_reader *reader, const struct config_key *key, void *field, const char *value)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "_0123456789";
	struct string_list *list = field;
	size_t name_len = strspn(value, letters), bytes = strlen(value) + 1;

	if (name_len == 0 || value[name_len] != '=' || strchr("0123456789", value[0])) {
		wrong_form(reader, key, value);
		return;
	}
	for (size_t i = 0; i < list->count; i++) {
		bytes += strlen(list->strings[i]) + 1;
		if (strncmp(list->strings[i], value, name_len + 1) == 0) {
			config_wrong(reader, "%s: \"%.*s\" is given twice", key->name,
				(int)name_len, value);
			return;
		}
	}
	if (list->count >= LIMIT_TENANT_ENV_COUNT || bytes > LIMIT_TENANT_ENV_BYTES)
		config_wrong(reader, "%s: more than %d variables or %llu bytes", key->name,
			LIMIT_TENANT_ENV_COUNT, LIMIT_TENANT_ENV_BYTES);
	else
		add_string(reader, key, list, value);
}

void config_value_set(struct config_reader *reader, const struct config_key *key, const char *value)
{
	static value_setter *const setters[CONFIG_TYPES] = {
		[CONFIG_PATH] = set_path,
		[CONFIG_USER] = set_user,
		[CONFIG_BYTES] = set_config_number,
		[CONFIG_TIME] = set_config_number,
		[CONFIG_NUMBER] = set_config_number,
		[CONFIG_PERCENT] = set_config_number,
		[CONFIG_MODE] = set_config_number,
		[CONFIG_CHOICE] = set_choice,
		[CONFIG_YES_NO] = set_yes_no,
		[CONFIG_PORTS] = set_ports,
		[CONFIG_USERS] = set_words,
		[CONFIG_GROUPS] = set_words,
		[CONFIG_FEATURES] = set_words,
		[CONFIG_CLASSES] = set_words,
		[CONFIG_ALLOW] = set_egress_words,
		[CONFIG_DENY] = set_egress_words,
		[CONFIG_NETWORKS] = set_egress_words,
		[CONFIG_RESOLVER] = set_egress_words,
		[CONFIG_UPSTREAM] = set_upstream,
		[CONFIG_NAME] = set_name,
		[CONFIG_ROOTS] = set_root,
		[CONFIG_PATHS] = set_readonly_path,
		[CONFIG_PATTERNS] = set_pattern,
		[CONFIG_SECRETS] = set_secret,
		[CONFIG_ENVIRONMENT] = set_environment,
	};

	setters[key->type](reader, key,
		config_field(key, ((struct config_parts *)reader->context)->part->object), value);
}
