/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* Lines of cloisterd's log on stderr, and what words of others cannot do in them. */
#include "supervisor/base/log.h"
#include "tests/lib/unit.h"

static int real_stderr, reading;

static int set_up(void **state)
{
	int ends[2];

	(void)state;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	reading = ends[0];
	unsetenv("JOURNAL_STREAM");
	log_init(false);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(reading);
	unsetenv("JOURNAL_STREAM");
	return 0;
}

FIXTURE(set_up, tear_down)

/* Returns all that was written since the last time. */
static const char *written(void)
{
	static char text[2 * LIMIT_LOG_LINE_BYTES];
	ssize_t n = read(reading, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* One message is one line, whatever words of a client, a workspace or a peer are in it. */
TEST(test_words_of_others)
{
	static const struct {
		const char *words, *shown;
	} rows[] = {
		{"plain", "plain"},
		{"caf\xc3\xa9", "caf\xc3\xa9"},
		{"no\ncloisterd: the log of another", "no?cloisterd: the log of another"},
		{"\x1b[2J\x07", "?[2J?"},
		{"a\rb\tc\x7f", "a?b?c?"},
		{"%s%n", "%s%n"},
		{"", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char line[128];

		snprintf(line, sizeof(line), "cloisterd: said: %s\n", rows[i].shown);
		log_warning("said: %s", rows[i].words);
		assert_string_equal(written(), line);
		log_about(LOG_INFO, LOG_FIELDS({"TENANT", text_from(rows[i].words)}), "said: %s",
			rows[i].words);
		assert_string_equal(written(), line);
	}
}

/* A long message is cut, and its line ends. */
TEST(test_a_long_message)
{
	char words[2 * LIMIT_LOG_LINE_BYTES];
	const char *line;

	memset(words, 'w', sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	log_error("%s", words);
	line = written();
	assert_in_range(strlen(line), 512, LIMIT_LOG_LINE_BYTES);
	assert_string_equal(strchr(line, '\n'), "\n");
	log_relayed(text_from(words));
	line = written();
	assert_in_range(strlen(line), 512, LIMIT_LOG_LINE_BYTES);
	assert_string_equal(strchr(line, '\n'), "\n");
}

TEST(test_quiet)
{
	log_init(true);
	log_info("said");
	assert_string_equal(written(), "");
	log_warning("said");
	assert_string_equal(written(), "cloisterd: said\n");
	log_error("said");
	assert_string_equal(written(), "cloisterd: said\n");
}

/* Where the journal reads stderr, lines have priorities; not if it reads another file. */
TEST(test_lines_for_the_journal)
{
	struct stat file;
	char stream[64];

	assert_int_equal(fstat(STDERR_FILENO, &file), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)file.st_dev,
		(unsigned long long)file.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_init(false);
	log_error("said");
	assert_string_equal(written(), "<3>said\n");
	log_info("said");
	assert_string_equal(written(), "<6>said\n");
	log_relayed(TEXT_LITERAL("cloister-spawner: said"));
	assert_string_equal(written(), "<4>cloister-spawner: said\n");
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_init(false);
	log_error("said");
	assert_string_equal(written(), "cloisterd: said\n");
	log_relayed(TEXT_LITERAL("cloister-spawner: said"));
	assert_string_equal(written(), "cloister-spawner: said\n");
}
