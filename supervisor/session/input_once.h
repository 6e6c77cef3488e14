/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Input that is written exactly once, although its client may send it again: the client says at
 * which offset of all input its bytes begin. Runs in cloisterd.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input_once {
	size_t skip; /* bytes at the beginning that were taken before */
	size_t take; /* bytes after them to be written now */
	bool whole;  /* with those, all bytes have been taken */
};

/**
 * Decides how many of the @len bytes at the offset @at to take. @taken bytes were taken so far, and
 * @room more fit. Returns 0; -ERANGE if bytes are missing before @at; -EAGAIN if they are new and
 * there is no room for any.
 */
int input_once(uint64_t taken, uint64_t at, size_t len, size_t room, struct input_once *ret);
