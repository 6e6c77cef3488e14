// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. */

#include "gate/e2b/snapshot_name.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

static bool is_label(struct text label)
{
	if (label.len > SNAPSHOT_LABEL_BYTES)
		return false;
	for (size_t i = 0; i < label.len; i++) {
		char c = label.data[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
			c != '.' && c != '_' && c != '-')
			return false;
	}
	return true;
}

int snapshot_name_make(
	const struct snapshot_name *parts, char ret_name[static SNAPSHOT_NAME_BYTES + 1])
{
	uint32_t number;
	int n;

	if (!is_label(parts->label))
		return -EINVAL;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	n = snprintf(ret_name, SNAPSHOT_NAME_BYTES + 1, "%s.%.*s.%c.%08x%s%.*s",
		parts->is_for_forks ? "fork" : "snap", (int)parts->id.len, parts->id.data,
		parts->is_rootfs ? 'r' : 'm', number, parts->label.len > 0 ? "." : "",
		(int)parts->label.len, parts->label.data ? parts->label.data : "");
	return n > SNAPSHOT_NAME_BYTES ? -EINVAL : 0;
}

bool snapshot_name_read(struct text name, struct snapshot_name *ret)
{
	struct text rest = name, use = text_take(&rest, '.'), id = text_take(&rest, '.');
	struct text kind = text_take(&rest, '.'), number = text_take(&rest, '.');
	bool is_for_forks = text_equal(use, TEXT_LITERAL("fork"));

	if ((!is_for_forks && !text_equal(use, TEXT_LITERAL("snap"))) || !sandbox_id_valid(id) ||
		kind.len != 1 || (kind.data[0] != 'm' && kind.data[0] != 'r') || number.len != 8 ||
		!is_label(rest))
		return false;
	*ret = (struct snapshot_name){id, rest, kind.data[0] == 'r', is_for_forks};
	return true;
}

bool snapshot_is_managed(struct text name)
{
	struct snapshot_name parts;

	return snapshot_name_read(name, &parts) && !parts.is_rootfs;
}
