// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Names come from administrators and observers, who may be hostile. */
#include "supervisor/call/request/call_name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *call_name(uint64_t id, char buffer[static CALL_NAME_BYTES])
{
	snprintf(buffer, CALL_NAME_BYTES, "%016llx", (unsigned long long)id);
	return buffer;
}

int call_name_parse(struct text name, uint64_t *ret_id)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t id = 0;

	if (name.len != CALL_NAME_BYTES - 1)
		return -EINVAL;
	for (size_t i = 0; i < name.len; i++) {
		const char *digit = memchr(digits, name.data[i], sizeof(digits) - 1);

		if (!digit)
			return -EINVAL;
		id = id << 4 | (uint64_t)(digit - digits);
	}
	*ret_id = id;
	return 0;
}
