// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/cell/copy_bounds.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_spawner.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

uint64_t copy_max_bytes(const struct tenant *tenant)
{
	return tenant->disk.bytes > 0 ? tenant->disk.bytes : LIMIT_COPY_BYTES;
}

uint64_t copy_max_files(const struct tenant *tenant)
{
	return tenant->disk.files > 0 ? tenant->disk.files : LIMIT_COPY_FILES;
}

enum tool_error copy_check_room(const struct tenant *tenant, struct refusal *ret_refusal)
{
	if (tenant->usage->copies < LIMIT_COPIES_OF_TENANT)
		return TOOL_OK;
	return refusal_format(ret_refusal, TOOL_BUSY,
		"%d requests of the tenant are copying files, which is the limit; wait for one of "
		"them",
		LIMIT_COPIES_OF_TENANT);
}

void template_load_why(int error, struct text step, char *ret, size_t size)
{
	static const struct {
		int error;
		const char *why;
	} known[] = {
		{EOPNOTSUPP, "template_memory is 0 in the configuration"},
		{EFBIG, "the template takes more than template_memory gives the tenant"},
		{ENOSPC, "other templates in use take what template_memory gives"},
		{ENOSYS, "the kernel is older than Linux 6.6, or cannot map the ids of a tmpfs"},
		{ETIMEDOUT, "the template could not be read into memory in time"},
		{EAGAIN, "the template was exchanged for another one"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].error == -error) {
			snprintf(ret, size, "%s", known[i].why);
			return;
		}
	snprintf(ret, size, "the service could not %.*s: %s", (int)step.len, step.data,
		strerror(-error));
}

void copy_failed(int error, struct text step, struct refusal *ret)
{
	switch (-error) {
	case EFBIG:
		refusal_set(ret, TOOL_QUOTA_EXCEEDED,
			"The files take more room than a workspace of the tenant may; remove some, "
			"or ask the administrator of the service (disk_class)");
		break;
	case EOVERFLOW:
		refusal_set(ret, TOOL_QUOTA_EXCEEDED,
			"There are more files than a workspace of the tenant may have; remove "
			"some, or ask the administrator of the service (disk_class)");
		break;
	case ENAMETOOLONG:
		refusal_format(ret, TOOL_NAME_TOO_LONG,
			"Directories are nested deeper than %d: move or remove the deepest",
			LIMIT_CLEAR_DEPTH - 1);
		break;
	case ENOSPC:
	case EDQUOT:
		refusal_set(ret, TOOL_NO_SPACE,
			"No space is left on the disk for the copy; remove workspaces or "
			"templates, or ask the administrator of the service");
		break;
	case ETIMEDOUT:
		refusal_format(ret, TOOL_TIMEOUT,
			"The files could not be copied in %d minutes; make them fewer",
			LIMIT_COPY_MS / 60000);
		break;
	case EBUSY:
		refusal_set(ret, TOOL_BUSY,
			"The service is copying as many trees as it can; try again later");
		break;
	case SPAWNER_REFUSAL:
		refusal_format(ret, TOOL_FORBIDDEN, "The files were not copied: %.*s",
			(int)step.len, step.data);
		break;
	default:
		refusal_format(ret, TOOL_EXECUTION_ERROR, "Could not %.*s: %s", (int)step.len,
			step.data, strerror(-error));
	}
}
