/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/call/request/path_guess.h"

#include "supervisor/call/request/notes.h"
#include "tests/lib/unit.h"

#define ROOT "/home/me/proj"

static void assert_guess(struct text path, const char *expected)
{
	struct notes notes = {0};
	char sentence[512];

	if (expected)
		snprintf(sentence, sizeof(sentence),
			"The workspace's root is \"" ROOT
			"\", and paths are relative to it; did you mean \"%s\"?",
			expected);
	else
		snprintf(sentence, sizeof(sentence),
			"The workspace's root is \"" ROOT "\"; give a path relative to it");
	path_guess_note(text_from(ROOT), path, &notes);
	assert_int_equal(notes.count, 1);
	assert_string_equal(notes.texts[0], sentence);
	notes_done(&notes);
}

TEST(test_guesses)
{
	static const struct {
		const char *path, *guess;
	} rows[] = {
		{"/", "."},
		{"/src/a.c", "src/a.c"},
		{"//src//a.c/", "src/a.c"},
		{"/workspace", "."},
		{"/workspace/src/a.c", "src/a.c"},
		{"/home/user/proj/src/a.c", "src/a.c"},
		{"/mnt/data/proj/proj/a.c", "proj/a.c"},
		{"/home/other/proj", "."},
		{"../proj/a.c", "a.c"},
		{"../a.c", "a.c"},
		{"../../x/y", "x/y"},
		{"..", "."},
		{"C:\\Users\\me\\proj\\src\\a.c", "src/a.c"},
		{"d:/src/a.c", "src/a.c"},
		{"C:\\Windows\\system32", NULL},
		{"/etc/passwd", NULL},
		{"../../etc/passwd", NULL},
		{"/tmp/x", NULL},
		{"/src/../../a", NULL},
		{"/a\nb", NULL},
		{"/a\"b", NULL},
		{"/a\xff", NULL},
	};
	char long_path[LIMIT_NEAR_PATH_BYTES + 2];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_guess(text_from(rows[i].path), rows[i].guess);
	memset(long_path, 'x', sizeof(long_path));
	long_path[0] = '/';
	assert_guess((struct text){long_path, LIMIT_NEAR_PATH_BYTES + 1}, NULL);
}
