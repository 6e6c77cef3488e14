/* links: cloister-files-core */
/* deep */
// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/watch_fixture.h"

TEST(test_events_that_are_lost)
{
	size_t events = 0;
	bool lost = false;

	scratch_text(&scratch, "d/old/f", "");
	watch_path("d", true);
	begins("d");
	stop();
	for (int i = 0; i < 9000; i++) {
		touch("d/f");
		assert_int_equal(unlinkat(scratch.fd, "d/f", 0), 0);
	}
	make("d/new");
	make("d/new/in");
	go_on();
	while (!lost) {
		struct files_event event = next_event();

		lost = event.type == FILES_EVENT_OVERFLOW;
		events++;
	}
	assert_in_range(events, 1000, 32768);
	touch("d/new/in/f");
	told("created d/new/in/f");
	append("d/old/f");
	told("changed d/old/f");
	assert_int_equal(watches(), 4);
}

TEST(test_the_number_of_directories_is_bounded)
{
	char path[32];

	for (int i = 0; i < LIMIT_FILE_WATCH_DIRECTORIES; i++) {
		snprintf(path, sizeof(path), "%d", i);
		make(path);
	}
	is_refused(".", TOOL_INVALID_ARGUMENTS);
	assert_int_equal(unlinkat(scratch.fd, "0", AT_REMOVEDIR), 0);
	watch_path(".", true);
	begins(".");
	assert_int_equal(watches(), LIMIT_FILE_WATCH_DIRECTORIES);
	make("one");
	told("created/ one");
	told("unwatched/ one");
	touch("one/f"); /* not told */
	touch("f");
	told("created f");
	assert_int_equal(watches(), LIMIT_FILE_WATCH_DIRECTORIES);
}
