// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate: the paths of E2B's API, with a key, and of a sandbox's data plane. */

#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/e2b/data.h"
#include "gate/e2b/own.h"
#include "gate/face.h"

#define BODY_BYTES  (256 * KIB)
#define INPUT_BYTES (6 * MIB) /* in base64 */
#define BODY        .max_body = BODY_BYTES
#define OWN         .access = GATE_ACCESS_OWN

/* How a request reaches the last function: what begins it, what it must find. */
#define TENANT(act_)  own_begin, .act = (act_)
#define SANDBOX(act_) own_begin_one, .find = own_find, .act = (act_)
/* Forks and snapshots use other workspaces too. */
#define SOURCE(act_)  own_begin, .find = own_find, .act = (act_)
#define CALL(act_)    data_begin, .act = (act_), OWN
#define STREAM(act_)  data_begin_stream, .act = (act_), OWN
#define PROCESS(act_) CALL(act_), .find = process_find

static const struct gate_route control_routes[] = {
	{"POST", "/sandboxes", TENANT(sandbox_create), BODY},
	{"POST", "/v2/sandboxes", TENANT(sandbox_create), BODY},
	{"GET", "/sandboxes", TENANT(sandboxes_list)},
	{"GET", "/v2/sandboxes", TENANT(sandboxes_list)},
	{"GET", "/sandboxes/{id}", SANDBOX(sandbox_info)},
	{"DELETE", "/sandboxes/{id}", SANDBOX(sandbox_kill)},
	{"POST", "/sandboxes/{id}/connect", SANDBOX(sandbox_connect), BODY},
	{"POST", "/v2/sandboxes/{id}/connect", SANDBOX(sandbox_connect), BODY},
	{"POST", "/sandboxes/{id}/resume", SANDBOX(sandbox_resume), BODY},
	{"POST", "/sandboxes/{id}/pause", SANDBOX(sandbox_pause), BODY},
	{"POST", "/sandboxes/{id}/timeout", SANDBOX(sandbox_timeout), BODY},
	{"GET", "/sandboxes/{id}/metrics", SANDBOX(sandbox_metrics)},
	{"PUT", "/sandboxes/{id}/network", SANDBOX(sandbox_network), BODY},
	{"POST", "/sandboxes/{id}/snapshots", SOURCE(sandbox_snapshot), BODY},
	{"POST", "/sandboxes/{id}/fork", SOURCE(sandbox_fork), BODY},
	{"GET", "/snapshots", TENANT(snapshots_list)},
	{"GET", "/templates", TENANT(templates_list)},
	{"GET", "/v2/templates", TENANT(templates_list)},
	{"GET", "/templates/aliases/{alias}", TENANT(template_alias)},
	{"DELETE", "/templates/{id}", TENANT(template_delete)},
	{"POST", "/templates", .begin = template_build},
	{"POST", "/v2/templates", .begin = template_build},
	{"POST", "/v3/templates", .begin = template_build},
};

const struct gate_face face_e2b_control = {
	"e2b", .routes = control_routes, .n_routes = ARRAY_SIZE(control_routes)};

static const struct gate_route data_routes[] = {
	{"GET", "/health", data_begin_open, .act = data_health, .access = GATE_ACCESS_OPEN},
	{"GET", "/files", data_begin_open, .act = file_download, OWN},
	{"POST", "/files", data_begin_upload, .act = file_upload, .max_body = GATE_BODY_STREAM,
		OWN},
	{"POST", "/process.Process/List", CALL(process_list), BODY},
	{"POST", "/process.Process/Start", STREAM(process_start), BODY},
	{"POST", "/process.Process/Connect", STREAM(process_connect), .find = process_find, BODY},
	{"POST", "/process.Process/Update", PROCESS(process_update), BODY},
	{"POST", "/process.Process/SendInput", PROCESS(process_send_input),
		.max_body = INPUT_BYTES},
	{"POST", "/process.Process/SendSignal", PROCESS(process_send_signal), BODY},
	{"POST", "/process.Process/CloseStdin", PROCESS(process_close_stdin), BODY},
	{"POST", "/filesystem.Filesystem/Stat", CALL(filesystem_stat), BODY},
	{"POST", "/filesystem.Filesystem/ListDir", CALL(filesystem_list), BODY},
	{"POST", "/filesystem.Filesystem/MakeDir", CALL(filesystem_make_dir), BODY},
	{"POST", "/filesystem.Filesystem/Move", CALL(filesystem_move), BODY},
	{"POST", "/filesystem.Filesystem/Remove", CALL(filesystem_remove), BODY},
	{"POST", "/filesystem.Filesystem/WatchDir", STREAM(filesystem_watch), BODY},
	{"POST", "/filesystem.Filesystem/CreateWatcher", CALL(filesystem_create_watcher), BODY},
	{"POST", "/filesystem.Filesystem/GetWatcherEvents", CALL(filesystem_get_watcher_events),
		BODY},
	{"POST", "/filesystem.Filesystem/RemoveWatcher", CALL(filesystem_remove_watcher), BODY},
};

const struct gate_face face_e2b_data = {"e2b data", .takes = data_takes, .routes = data_routes,
	.n_routes = ARRAY_SIZE(data_routes)};
