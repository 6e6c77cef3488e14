// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, on a command that a model wrote. */
#include "supervisor/config/loopback_request.h"

#include "common/cleanup.h"
#include "supervisor/config/command_line.h"

#include <stdio.h>
#include <string.h>

#define DIGITS "0123456789"

/* A program, and those of its options that name no target. Long options end with a space. */
static const struct requester {
	const char *name;
	const char *flags, *valued;           /* short options, without and with a value */
	const char *long_flags, *long_valued; /* long ones, likewise */
	bool value_follows_equals;            /* --option=value is the same as --option value */
	bool takes_port;                      /* the targets are one host and a port */
} requesters[] = {
	{"curl", "sSiIvfkLgGNO046#", "XHdowmAbcuFe",
		"--silent --show-error --include --head --verbose --fail --fail-with-body "
		"--insecure --location --get --no-buffer --compressed --http1.1 --ipv4 --ipv6 ",
		"--request --header --data --data-raw --data-binary --data-urlencode --json "
		"--output --write-out --max-time --connect-timeout --retry --retry-delay "
		"--user-agent --cookie --cookie-jar --user --form ",
		false, false},
	{"wget", "qvSN", "OTt",
		"--quiet --verbose --no-verbose --server-response --spider "
		"--no-check-certificate ",
		"--output-document --timeout --tries --header --post-data --post-file --method "
		"--body-data --body-file --user-agent ",
		true, false},
	{"nc", "zvnu46N", "w", "", "", false, true},
	{"netcat", "zvnu46N", "w", "", "", false, true},
};

static bool is_listed(const char *list, const char *word, size_t len)
{
	for (const char *at = list; *at; at = strchr(at, ' ') + 1)
		if (strncmp(at, word, len) == 0 && at[len] == ' ')
			return true;
	return false;
}

/* The length of the loopback's name or address that @text begins with; 0 if it does not. */
static size_t loopback_len(const char *text)
{
	static const char *const names[] = {"localhost", "[::1]", "0.0.0.0"};
	unsigned a, b, c;
	int len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strncmp(text, names[i], strlen(names[i])) == 0)
			return strlen(names[i]);
	if (strspn(text, DIGITS ".") > strlen("127.255.255.255") ||
		sscanf(text, "127.%3u.%3u.%3u%n", &a, &b, &c, &len) != 3 ||
		strspn(text, DIGITS ".") != (size_t)len)
		return 0;
	return a < 256 && b < 256 && c < 256 ? (size_t)len : 0;
}

/* A URL, or what may stand for one: "localhost:8080/x". */
static bool is_loopback_url(const char *url)
{
	static const char *const schemes[] = {"http://", "https://"};
	const char *host = url;
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
			host = url + strlen(schemes[i]);
	len = loopback_len(host);
	if (len == 0)
		return false;
	host += len;
	if (*host == ':')
		host += 1 + strspn(host + 1, DIGITS);
	return strchr("/?#", *host) != NULL; /* or its end: no user name, no longer host name */
}

/*
 * Takes @option, and its value from @words if that is the next word. Returns whether it is an
 * option that names no target.
 */
static bool take_option(const struct requester *program, const char *option, struct text *words)
{
	size_t len = program->value_follows_equals ? strcspn(option, "=") : strlen(option);

	if (option[1] == '-') {
		if (option[len] == '\0' && is_listed(program->long_flags, option, len))
			return true;
		if (!is_listed(program->long_valued, option, len))
			return false;
		if (option[len] == '\0' && words->len > 0)
			command_line_word(words);
		return true;
	}
	for (const char *c = option + 1; *c; c++) {
		if (strchr(program->flags, *c))
			continue;
		if (!strchr(program->valued, *c))
			return false;
		if (c[1] == '\0' && words->len > 0)
			command_line_word(words);
		return true;
	}
	return true;
}

/* Whether @word, the target of number @nth, is on the loopback. */
static bool is_loopback_target(const struct requester *program, const char *word, int nth)
{
	size_t len = loopback_len(word);

	if (!program->takes_port)
		return is_loopback_url(word);
	if (nth == 0)
		return (len > 0 && word[len] == '\0') || strcmp(word, "::1") == 0;
	return nth == 1 && word[0] != '\0' && word[strspn(word, DIGITS "-")] == '\0';
}

bool is_loopback_request(struct text words)
{
	const char *name = command_line_word(&words);
	const struct requester *program = NULL;
	int targets = 0;

	for (size_t i = 0; i < ARRAY_SIZE(requesters); i++)
		if (strcmp(requesters[i].name, name) == 0)
			program = &requesters[i];
	if (!program)
		return false;
	while (words.len > 0) {
		const char *word = command_line_word(&words);

		if (word[0] == '-' && word[1] != '\0') {
			if (!take_option(program, word, &words))
				return false;
		} else if (!is_loopback_target(program, word, targets++)) {
			return false;
		}
	}
	return targets > 0;
}

bool loopback_is_redirected(struct text line)
{
	static const char *const words[] = {
		"proxy", "PROXY", "curlrc", "CURL_HOME", "wgetrc", "WGETRC"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (line.len > 0 && memmem(line.data, line.len, words[i], strlen(words[i])))
			return true;
	return false;
}
