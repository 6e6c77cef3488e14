// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress, at start and on reload. Trusts files that only root, or the user of this
 * process, could have written. What is in them is in one place of its memory, and in no message.
 */
#include "egress/secret.h"

#include "common/cleanup.h"
#include "common/egress/secret_line.h"
#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct secret_value {
	unsigned references;
	size_t len, size; /* of the text; of all that is mapped */
	char text[];
};

static void value_free(struct secret_value *value)
{
	size_t size = value->size;

	explicit_bzero(value, size);
	munmap(value, size);
}

static struct secret_value *value_new(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t size = sizeof(struct secret_value) + LIMIT_EGRESS_SECRET_BYTES +
		      2 * (size_t)LIMIT_EGRESS_FIELD_BYTES + 16;
	struct secret_value *value;

	size = (size + page - 1) / page * page;
	value = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (value == MAP_FAILED)
		return NULL;
	/* Neither is needed for what is promised: no core is made of this process. */
	(void)madvise(value, size, MADV_DONTDUMP);
	(void)mlock(value, size);
	value->references = 1;
	value->size = size;
	return value;
}

struct secret_value *secret_value_hold(struct secret_value *value)
{
	value->references++;
	return value;
}

void secret_value_release(struct secret_value *value)
{
	if (value && --value->references == 0)
		value_free(value);
}

struct text secret_value_text(const struct secret_value *value)
{
	return (struct text){value->text, value->len};
}

static void put_secret_text(struct secret_value *value, struct text text)
{
	memcpy(value->text + value->len, text.data, text.len);
	value->len += text.len;
}

/* Whether the file's owner and group are nobody but root and this process. */
static const char *wrong_owner(const struct stat *attributes)
{
	if (attributes->st_uid != 0 && attributes->st_uid != geteuid())
		return "the file's owner is neither root nor the user of cloister-egress: chown it";
	/* In system mode cloisterd is in the group of the configuration, and is not to know it. */
	if (attributes->st_mode & S_IRGRP && attributes->st_gid != 0 &&
		attributes->st_gid != getegid())
		return "a group that is not that of cloister-egress may read the file: chgrp it, "
		       "or "
		       "chmod g-r";
	return NULL;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Makes what was read behind @from the content: one line, without white space around it. */
static const char *trim(struct secret_value *value, size_t from)
{
	char *text = value->text + from;
	size_t len = value->len - from, start = 0;

	while (start < len && is_space(text[start]))
		start++;
	while (len > start && is_space(text[len - 1]))
		len--;
	len -= start;
	memmove(text, text + start, len);
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return "the file is not one line of printable ASCII";
	value->len = from + len;
	return len > 0 ? NULL : "the file is empty";
}

/* Appends the content of the open file. Returns NULL, or what is wrong. */
static const char *read_content(struct secret_value *value, int fd)
{
	size_t from = value->len, most = from + LIMIT_EGRESS_SECRET_BYTES + 1;
	ssize_t n = io_read(fd, value->text + from, most - from, IO_POSITION);

	if (n < 0)
		return "the file cannot be read";
	value->len += (size_t)n;
	if (value->len == most)
		return "the file is larger than 8 KiB";
	return trim(value, from);
}

static const char *read_secret_file(struct secret_value *value, const char *path)
{
	/* O_NONBLOCK: if the name is a FIFO, open(2) must not wait for a writer. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat attributes;
	const char *wrong;

	if (fd < 0 && errno == EACCES)
		return "cloister-egress may not read the file; one that it did not know when it "
		       "started, outside of the configuration's directory, needs a restart of it, "
		       "and where AppArmor confines it a rule in "
		       "/etc/apparmor.d/local/cloister-egress";
	if (fd < 0 || fstat(fd, &attributes) < 0)
		return strerrordesc_np(errno);
	wrong = secret_file_wrong(&attributes);
	if (!wrong)
		wrong = wrong_owner(&attributes);
	return wrong ? wrong : read_content(value, fd);
}

/* Makes the value. Returns NULL, or what is wrong. */
static const char *read_value(struct secret *secret, const struct secret_line *line)
{
	const char *wrong;

	secret->value = value_new();
	if (!secret->value)
		return "memory is out";
	put_secret_text(secret->value, line->field);
	put_secret_text(secret->value, TEXT_LITERAL(": "));
	put_secret_text(secret->value, line->prefix);
	if (line->prefix.len > 0)
		put_secret_text(secret->value, TEXT_LITERAL(" "));
	wrong = read_secret_file(secret->value, secret->file);
	if (!wrong)
		put_secret_text(secret->value, TEXT_LITERAL("\r\n\r\n"));
	return wrong;
}

static int add_rule(struct rules *rules, const char *host, bool ipv6, uint16_t port)
{
	char rule[LIMIT_EGRESS_RULE_BYTES], why[LIMIT_EGRESS_REASON_BYTES];

	snprintf(rule, sizeof(rule), ipv6 ? "[%s]:%u" : "%s:%u", host, port);
	return rules_add(rules, text_from(rule), false, NULL, why, sizeof(why));
}

static int make_rules(struct secret *secret)
{
	char asked[LIMIT_EGRESS_HOST_BYTES + 1];
	int r;

	snprintf(asked, sizeof(asked), "%s" SECRET_DOMAIN, secret->name);
	r = add_rule(&secret->asked, asked, false, 80);
	return r < 0 ? r
		     : add_rule(&secret->reached, secret->host.text, secret->host.kind == HOST_IPV6,
			       secret->port);
}

static void release_secret(struct secret *secret)
{
	free(secret->name);
	free(secret->field);
	free(secret->file);
	rules_done(&secret->asked);
	rules_done(&secret->reached);
	secret_value_release(secret->value);
}

void secrets_done(struct secrets *secrets)
{
	for (size_t i = 0; i < secrets->count; i++)
		release_secret(&secrets->items[i]);
	free(secrets->items);
	*secrets = (struct secrets){0};
}

static const struct secret *find(const struct secrets *secrets, struct text name)
{
	for (size_t i = 0; i < secrets->count; i++)
		if (text_equal(text_from(secrets->items[i].name), name))
			return &secrets->items[i];
	return NULL;
}

/* Makes what a line says, but its value. Returns 0 or -ENOMEM. */
static int make_secret_value(struct secret *secret, const struct secret_line *line)
{
	secret->host = line->host;
	secret->port = line->port;
	secret->name = strndup(line->name.data, line->name.len);
	secret->field = strndup(line->field.data, line->field.len);
	secret->file = strndup(line->file.data, line->file.len);
	return secret->name && secret->field && secret->file ? make_rules(secret) : -ENOMEM;
}

int secrets_add(struct secrets *secrets, struct text text, char *why, size_t size)
{
	struct secret secret = {0}, *grown;
	struct secret_line line;
	const char *wrong = NULL;

	if (secret_line_parse(text, &line, why, size) < 0)
		return -EINVAL;
	grown = reallocarray(secrets->items, secrets->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	secrets->items = grown;
	if (find(secrets, line.name))
		wrong = "this name is given twice";
	else if (secrets->count >= LIMIT_EGRESS_SECRETS)
		wrong = "too many secrets";
	else if (make_secret_value(&secret, &line) < 0)
		wrong = "memory is out";
	else
		wrong = read_value(&secret, &line);
	if (wrong) {
		snprintf(why, size, "%.*s: %s", (int)line.name.len, line.name.data, wrong);
		release_secret(&secret);
		return -EINVAL;
	}
	grown[secrets->count++] = secret;
	return 0;
}

bool secret_is_asked(const struct host *host)
{
	static const struct text domain = TEXT_LITERAL(SECRET_DOMAIN);

	return host->kind == HOST_NAME && host->len > domain.len &&
	       memcmp(host->text + host->len - domain.len, domain.data, domain.len) == 0;
}

struct verdict secret_judge(const struct secrets *secrets, const struct rules *deny,
	const struct rules *narrowed, const struct host *asked, const struct secret **ret)
{
	struct text name = {asked->text, asked->len - strlen(SECRET_DOMAIN)};
	const struct secret *secret = find(secrets, name);
	struct verdict verdict;

	if (!secret)
		return (struct verdict){.reason = EGRESS_UNKNOWN_SECRET};
	verdict = rules_judge(&secret->asked, deny, narrowed, asked, 80);
	if (verdict.reason == 0)
		verdict = rules_judge(&secret->reached, deny, NULL, &secret->host, secret->port);
	if (verdict.reason == 0)
		*ret = secret;
	return verdict;
}
