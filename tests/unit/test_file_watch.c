/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/watch_fixture.h"

#define TEMPORARY ".cloister-000000000000000a"

TEST(test_one_directory)
{
	scratch_text(&scratch, "d/in/f", "");
	scratch_text(&scratch, "d/f", "");
	scratch_text(&scratch, "out", "");
	watch_path("d", false);
	begins("d");
	append("d/f");
	told("changed d/f");
	append("d/in/f"); /* not told */
	touch("d/new");
	told("created d/new");
	assert_int_equal(fchmodat(scratch.fd, "d/new", 0600, 0), 0);
	told("attributes d/new");
	move("d/new", "d/newer");
	told("moved_from d/new");
	told("moved_to d/newer");
	move("d/newer", "newer");
	told("moved_from d/newer");
	move("out", "d/out");
	told("moved_to d/out");
	assert_int_equal(unlinkat(scratch.fd, "d/out", 0), 0);
	told("removed d/out");
	make("d/dir");
	told("created/ d/dir");
	touch("d/dir/f"); /* not told */
	scratch_link(&scratch, "d/link", "/etc");
	told("created d/link");
	assert_int_equal(fchmodat(scratch.fd, "d", 0700, 0), 0);
	told("attributes/ d");
	assert_int_equal(watches(), 1);
}

TEST(test_both_halves_of_a_move_have_a_cookie)
{
	struct files_event from, to;

	touch("a");
	watch_path("/workspace", false);
	begins(".");
	move("a", "b");
	from = next_event();
	assert_int_equal(from.type, FILES_EVENT_MOVED_FROM);
	to = next_event();
	assert_int_equal(to.type, FILES_EVENT_MOVED_TO);
	assert_true(from.cookie != 0 && from.cookie == to.cookie);
}

TEST(test_names_are_bytes)
{
	struct files_event event;

	watch_path(".", false);
	begins(".");
	touch("\xff\n");
	event = next_event();
	assert_true(text_equal(event.path, TEXT_LITERAL("\xff\n")));
}

TEST(test_entries)
{
	struct files_event event;

	with_entries = true;
	watch_path(".", false);
	begins(".");
	stop();
	scratch_link(&scratch, "link", "/etc");
	make("d");
	touch("gone");
	assert_int_equal(unlinkat(scratch.fd, "gone", 0), 0);
	go_on();
	event = next_event();
	assert_true(event.has_node);
	assert_int_equal(event.node.entry.type, FILES_TYPE_SYMLINK);
	assert_true(text_equal(event.node.entry.target, TEXT_LITERAL("/etc")));
	event = next_event();
	assert_true(event.has_node && event.node.entry.type == FILES_TYPE_DIRECTORY);
	assert_false(next_event().has_node);
	assert_false(next_event().has_node);
}

/* A change is told once, however often it is made before it is told. */
TEST(test_repeated_changes)
{
	touch("a");
	touch("b");
	watch_path(".", false);
	begins(".");
	stop();
	for (int i = 0; i < 1000; i++) {
		append("a");
		append("b");
	}
	assert_int_equal(unlinkat(scratch.fd, "a", 0), 0);
	touch("a");
	append("a");
	go_on();
	told("changed a");
	told("changed b");
	told("removed a");
	told("created a");
	told("changed a");
}

/* cloister's own temporary files are not listed, and not told of. */
TEST(test_temporary_files)
{
	touch("f");
	watch_path(".", false);
	begins(".");
	touch(TEMPORARY);
	append(TEMPORARY);
	move(TEMPORARY, "f");
	told("changed f");
	touch(TEMPORARY);
	assert_int_equal(linkat(scratch.fd, TEMPORARY, scratch.fd, "g", 0), 0);
	told("created g");
	assert_int_equal(unlinkat(scratch.fd, TEMPORARY, 0), 0);
	touch(TEMPORARY);
	assert_int_equal(renameat2(scratch.fd, TEMPORARY, scratch.fd, "f", RENAME_EXCHANGE), 0);
	assert_int_equal(unlinkat(scratch.fd, TEMPORARY, 0), 0);
	told("changed f");
	touch("h");
	told("created h");
}

TEST(test_recursive)
{
	scratch_text(&scratch, "d/in/f", "");
	watch_path("d", true);
	begins("d");
	assert_int_equal(watches(), 2);
	append("d/in/f");
	told("changed d/in/f");
	make("d/in/new");
	told("created/ d/in/new");
	touch("d/in/new/f");
	told("created d/in/new/f");
	/* What comes before a new directory is watched is found in it. */
	stop();
	make("d/late");
	make("d/late/deep");
	touch("d/late/deep/f");
	go_on();
	told("created/ d/late");
	told("created/ d/late/deep");
	told("created d/late/deep/f");
	append("d/late/deep/f");
	told("changed d/late/deep/f");
	assert_int_equal(watches(), 5);
	assert_int_equal(unlinkat(scratch.fd, "d/in/new/f", 0), 0);
	told("removed d/in/new/f");
	assert_int_equal(unlinkat(scratch.fd, "d/in/new", AT_REMOVEDIR), 0);
	told("removed/ d/in/new");
	touch("d/end");
	told("created d/end");
	assert_int_equal(watches(), 4);
}

TEST(test_directories_that_are_moved)
{
	scratch_text(&scratch, "d/a/in/f", "");
	scratch_text(&scratch, "else/f", "");
	watch_path("d", true);
	begins("d");
	stop();
	move("d/a", "d/b");
	append("d/b/in/f"); /* before the job has seen the move */
	go_on();
	told("moved_from/ d/a");
	told("moved_to/ d/b");
	told("changed d/b/in/f");
	move("d/b", "away");
	told("moved_from/ d/b");
	touch("d/x");
	told("created d/x");
	assert_int_equal(watches(), 1);
	append("away/in/f"); /* not told */
	move("else", "d/else");
	told("moved_to/ d/else");
	append("d/else/f");
	told("changed d/else/f");
}

/* The directory that an event tells of may be anything by the time that it is opened. */
TEST(test_a_directory_becomes_a_link)
{
	char there[sizeof(scratch.path) + 8];

	make("d");
	make("else");
	snprintf(there, sizeof(there), "%s/else", scratch.path);
	watch_path("d", true);
	begins("d");
	stop();
	make("d/a");
	assert_int_equal(unlinkat(scratch.fd, "d/a", AT_REMOVEDIR), 0);
	scratch_link(&scratch, "d/a", "../else");
	make("d/b");
	assert_int_equal(unlinkat(scratch.fd, "d/b", AT_REMOVEDIR), 0);
	scratch_link(&scratch, "d/b", there);
	go_on();
	told("created/ d/a");
	told("removed/ d/a");
	told("created d/a");
	told("created/ d/b");
	told("removed/ d/b");
	told("created d/b");
	touch("else/f"); /* not told */
	touch("d/end");
	told("created d/end");
	assert_int_equal(watches(), 1);
}

TEST(test_the_directory_is_removed)
{
	make("d");
	watch_path("d", true);
	begins("d");
	assert_int_equal(unlinkat(scratch.fd, "d", AT_REMOVEDIR), 0);
	ends(TOOL_NOT_FOUND);
}

TEST(test_the_directory_is_moved)
{
	make("d");
	watch_path("d", false);
	begins("d");
	move("d", "e");
	ends(TOOL_NOT_FOUND);
}

TEST(test_what_is_refused)
{
	touch("f");
	scratch_link(&scratch, "out", "/etc");
	scratch_link(&scratch, "up", "..");
	is_refused("none", TOOL_NOT_FOUND);
	is_refused("f", TOOL_NOT_A_DIRECTORY);
	is_refused("out", TOOL_SYMLINK_OUTSIDE_WORKSPACE);
	is_refused("up", TOOL_SYMLINK_OUTSIDE_WORKSPACE);
	is_refused("..", TOOL_PATH_OUTSIDE_WORKSPACE);
	is_refused("/etc", TOOL_PATH_OUTSIDE_WORKSPACE);
}

TEST(test_directories_that_may_not_be_read)
{
	if (geteuid() == 0)
		return; /* root reads all */
	make("d");
	make("d/closed");
	assert_int_equal(fchmodat(scratch.fd, "d/closed", 0300, 0), 0);
	watch_path("d", true);
	begins("d");
	told("unwatched/ d/closed");
	assert_int_equal(fchmodat(scratch.fd, "d/closed", 0700, 0), 0);
}
