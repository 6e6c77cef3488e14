// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The client is hostile: its offset may be any. */
#include "supervisor/session/input_once.h"

#include <errno.h>

int input_once(uint64_t taken, uint64_t at, size_t len, size_t room, struct input_once *ret)
{
	uint64_t before;
	size_t fresh;

	if (at > taken)
		return -ERANGE;
	before = taken - at;
	if (before >= len) {
		*ret = (struct input_once){.skip = len, .whole = true};
		return 0;
	}
	fresh = len - (size_t)before;
	if (room == 0)
		return -EAGAIN;
	*ret = (struct input_once){
		.skip = (size_t)before,
		.take = fresh < room ? fresh : room,
		.whole = fresh <= room,
	};
	return 0;
}
