// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. What is measured comes from a files process, which may be hostile. */
#include "supervisor/call/call_disk.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/call_state.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/host/headroom.h"
#include "supervisor/workspace/workspace_disk.h"

/* Whether the patch @parts (enum files_patch_part) has nothing but files to delete. */
static bool only_deletes(struct text parts)
{
	while (parts.len >= FILES_PATCH_OVERHEAD && parts.data[0] == PATCH_PART_DELETE) {
		uint32_t len;

		memcpy(&len, parts.data + 1, sizeof(len));
		if (len > parts.len - FILES_PATCH_OVERHEAD)
			return false;
		parts.data += FILES_PATCH_OVERHEAD + len;
		parts.len -= FILES_PATCH_OVERHEAD + len;
	}
	return parts.len == 0;
}

/*
 * Whether the file system of the state directory has less left than state_free_min, or than
 * state_files_min.
 */
static bool is_host_full(const struct service *service, struct refusal *refusal)
{
	const struct config_host *host = &service->config->host;
	struct headroom_view room;

	if (!service->headroom)
		return false;
	headroom_look(service->headroom, &room);
	if (room.has_state && room.state_known && room.state_error == 0 &&
		room.state_free < host->state_free_min_bytes)
		refusal_format(refusal, TOOL_BUSY,
			"The service's disk has only %llu MiB left, and nothing is written until "
			"there is more; remove what is not needed, or try again later",
			(unsigned long long)(room.state_free / MIB));
	else if (headroom_lacks_files(&room, host->state_files_min))
		refusal_format(refusal, TOOL_BUSY,
			"The service's disk can have only %llu more files, and nothing is written "
			"until there is room for more; remove what is not needed, or try again "
			"later",
			(unsigned long long)room.state_files_free);
	else
		return false;
	return true;
}

static const char why_hidden[] =
	"The workspace has a directory that it may not read itself, or one that lies too deep, so "
	"what it takes on disk is not known; chmod -R u+rwX what is closed, or remove it; if a "
	"checkpoint alone has it, roll back to an earlier one";

/* Whether the call can only make the workspace smaller, or leave it as it is. */
static bool only_frees(const struct call_request *request)
{
	switch (request->tool->id) {
	case TOOL_APPLY_PATCH:
		return only_deletes(request->args.content);
	case TOOL_FILE_MOVE:
	case TOOL_FILE_REMOVE:
		return true;
	default:
		return false;
	}
}

bool call_disk_takes(struct call *call, uint64_t bytes)
{
	const struct disk_state disk = workspace_disk(call->workspace);
	_cleanup_(refusal_done) struct refusal refusal = {0};

	if (workspace_kind(call->workspace) == WORKSPACE_MANAGED &&
		is_host_full(call->service, &refusal))
		return false;
	return disk.enforcer != DISK_ENFORCER_MEASURED || disk.limit == 0 || !disk.known ||
	       (disk.bytes <= disk.limit && bytes <= disk.limit - disk.bytes);
}

bool call_disk_refuses(struct call *call, struct refusal *ret_refusal)
{
	const struct disk_state disk = workspace_disk(call->workspace);

	if (only_frees(&call->request))
		return false;
	if (disk_state_is_over(&disk) && disk.hidden)
		refusal_set(ret_refusal, TOOL_QUOTA_EXCEEDED, why_hidden);
	else if (disk_state_is_over(&disk))
		refusal_format(ret_refusal, TOOL_QUOTA_EXCEEDED,
			"The workspace takes %llu MiB on disk%s%s, and may take %llu MiB; remove "
			"what is not needed%s, or ask the user",
			(unsigned long long)(disk.bytes / MIB),
			disk.layers ? " with its checkpoints" : "",
			disk.over_files ? " and has more files than it may" : "",
			(unsigned long long)(disk.limit / MIB),
			disk.layers ? " (what a checkpoint has stays), roll back to an earlier "
				      "checkpoint"
				    : "");
	else if (workspace_kind(call->workspace) != WORKSPACE_MANAGED ||
		 !is_host_full(call->service, ret_refusal))
		return false;
	return true;
}

void call_disk_note(struct call *call, const struct disk_state *disk)
{
	if (disk->hidden)
		notes_add(&call->request.notes,
			"the workspace has a directory that it may not read itself, or one that "
			"lies too deep, so what it takes on disk is not known: this command could "
			"open or remove it, and not write to any file");
	else if (disk->over_files)
		notes_add(&call->request.notes,
			"the workspace has more files than it may: this command could remove "
			"files, and neither make any there nor write to any");
	else
		notes_add(&call->request.notes,
			"the workspace takes more on disk than it may: this command could remove "
			"files, and not write to any");
}

void call_disk_tell(struct call *call, const struct files_end *end, struct observation *observation)
{
	struct disk_state disk;

	workspace_disk_told(call->workspace, end);
	disk = workspace_disk(call->workspace);
	if (disk.enforcer == DISK_ENFORCER_NONE || !disk.known)
		return;
	observation->disk_bytes = disk.bytes;
	observation->disk_limit = end->disk_limit > 0 ? end->disk_limit : disk.limit;
}
