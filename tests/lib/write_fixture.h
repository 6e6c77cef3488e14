/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes files as a call does, for the tests of worker/files/file_write.h. */

#include "tests/lib/files_fixture.h"
#include "tests/lib/unit.h"
#include "worker/files/file_write.h"

#define CALL 0x2a

/* Writes @content in two pieces, announced as @size bytes. */
static void write_announced(const struct root *root, const char *path, struct text content,
	uint64_t size, struct answer *answer)
{
	const struct files_write request = {
		.path = text_from(path), .size = size, .create_dirs = true, .durable = true};
	struct file_write *staged = NULL;
	size_t half = content.len / 2;

	answer_begin(answer, CALL);
	assert_int_equal(file_write_begin(root, &request, CALL, &staged), 0);
	file_write_append(staged, content.data, half);
	file_write_append(staged, content.data + half, content.len - half);
	file_write_commit(staged, answer->reply);
	file_write_free(staged);
	answer_parse(answer, CALL);
}
