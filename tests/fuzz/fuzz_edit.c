/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * The edits of edit_file: any bytes as the encoded edits, and edits that are made are made as a
 * plain loop makes them; any failure is explained, and the diff keeps to its bound.
 *
 * Input: a byte, the length of the encoded edits; these; and the file.
 */
#include "common/wire/wire_files.h"
#include "tests/fuzz/fuzz.h"
#include "worker/files/edit/edit_diff.h"
#include "worker/files/edit/edit_explain.h"
#include "worker/files/edit/edit_plan.h"

#include <stdlib.h>

/* The content before each place, and the new text, in the order of the places. */
static void check_content(const struct edit_plan *plan)
{
	size_t at = 0, to = 0;

	for (size_t i = 0; i < plan->n_places; i++) {
		const struct edit_place *place = &plan->places[i];
		const struct edit *edit = &plan->edits[place->edit];

		CHECK(place->start >= at && place->len == edit->old_text.len);
		CHECK(memcmp(plan->original.data + place->start, edit->old_text.data, place->len) ==
			0);
		CHECK(memcmp(plan->content + to, plan->original.data + at, place->start - at) == 0);
		to += place->start - at;
		CHECK(edit->new_text.len == 0 ||
			memcmp(plan->content + to, edit->new_text.data, edit->new_text.len) == 0);
		to += edit->new_text.len;
		at = place->start + place->len;
	}
	CHECK(plan->len - to == plan->original.len - at);
	CHECK(memcmp(plan->content + to, plan->original.data + at, plan->len - to) == 0);
}

static void check_failure(const struct edit_plan *plan, const struct edit_failure *failure)
{
	struct edit_explanation why;

	CHECK(failure->edit >= 1 && failure->edit <= plan->count);
	edit_explain(plan, failure, &why);
	CHECK(why.kind && why.sentence[0] && strlen(why.sentence) < sizeof(why.sentence));
	CHECK(why.n_lines <= LIMIT_EDIT_LINES && why.closest.len <= FILES_TROUBLE_CLOSEST);
	CHECK(why.closest.len == 0 || (why.closest.data >= plan->original.data &&
					      why.closest.data + why.closest.len <=
						      plan->original.data + plan->original.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = size > 0 && data[0] < size ? data[0] : 0;
	struct text body = {(const char *)data + 1, len};
	char *file = malloc(size + 1), diff[512];
	struct edit_failure failure;
	struct edit_plan plan;

	if (size == 0 || !file) {
		free(file);
		return 0;
	}
	memcpy(file, data + 1 + len, size - 1 - len);
	if (edit_plan_read(&plan, body) == 0) {
		if (edit_plan_make(&plan, (struct text){file, size - 1 - len}, &failure)) {
			check_content(&plan);
			CHECK(edit_diff(&plan, diff, sizeof(diff)) <= sizeof(diff));
		} else {
			check_failure(&plan, &failure);
		}
	}
	edit_plan_done(&plan);
	free(file);
	return 0;
}
