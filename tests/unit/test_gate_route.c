/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/route.h"
#include "tests/lib/unit.h"

static const struct {
	const char *pattern, *path, *name;
	int result;
	const char *value; /* of the segment {name} */
} rows[] = {
	{"/health", "/health", NULL, 1, NULL},
	{"/health", "/health/", NULL, 0, NULL},
	{"/health", "/HEALTH", NULL, 0, NULL},
	{"/health", "//health", NULL, 0, NULL},
	{"/health", "/%68ealth", NULL, 0, NULL},
	{"/health", "health", NULL, 0, NULL},
	{"/a/{id}/b", "/a/x/b", "id", 1, "x"},
	{"/a/{id}/b", "/a/x", "id", 0, NULL},
	{"/a/{id}/b", "/a/x/b/", "id", 0, NULL},
	{"/a/{id}/b", "/a//b", "id", 0, NULL},
	{"/a/{id}", "/a/%78%79", "id", 1, "xy"},
	{"/a/{id}", "/a/x%2fy", "id", 0, NULL},
	{"/a/{id}", "/a/x%5cy", "id", 0, NULL},
	{"/a/{id}", "/a/x%00", "id", 0, NULL},
	{"/a/{id}", "/a/x%0a", "id", 0, NULL},
	{"/a/{id}", "/a/x%7f", "id", 0, NULL},
	{"/a/{id}", "/a/%2e%2e", "id", 0, NULL},
	{"/a/{id}", "/a/..", "id", 0, NULL},
	{"/a/{id}", "/a/.", "id", 0, NULL},
	{"/a/{id}", "/a/...", "id", 1, "..."},
	{"/a/{id}", "/a/x%", "id", 0, NULL},
	{"/a/{id}", "/a/x%4", "id", 0, NULL},
	{"/a/{id}", "/a/x%zz", "id", 0, NULL},
	{"/a/{id}", "/a/%252e", "id", 1, "%2e"}, /* decoded once */
	{"/f/{path...}", "/f/a/b%20c", "path", 1, "a/b c"},
	{"/f/{path...}", "/f/a/", "path", 1, "a/"},
	{"/f/{path...}", "/f/", "path", 0, NULL},
	{"/f/{path...}", "/f/a/../b", "path", 0, NULL},
	{"/f/{path...}", "/f/a//b", "path", 0, NULL},
	{"/f/{path...}", "/f/a/%2e%2e/b", "path", 0, NULL},
	{"/p/{id}/{port}/*", "/p/x/80/a/../%2f//", "port", 1, "80"},
	{"/p/{id}/{port}/*", "/p/x/80/", "id", 1, "x"},
	{"/p/{id}/{port}/*", "/p/x/80", "id", 0, NULL},
	{"/*", "/", NULL, 1, NULL},
};

TEST(test_paths)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct gate_segments segments = {0};
		int r = gate_path_match(rows[i].pattern, rows[i].path, &segments);
		const char *value =
			rows[i].name ? gate_segments_find(&segments, rows[i].name) : NULL;

		if (r != rows[i].result)
			fail_msg("%s: %s: %d", rows[i].pattern, rows[i].path, r);
		if (rows[i].value)
			assert_string_equal(value, rows[i].value);
		assert_null(gate_segments_find(&segments, "other"));
		gate_segments_done(&segments);
	}
}
