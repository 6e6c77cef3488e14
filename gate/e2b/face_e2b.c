// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate: the paths of E2B's API, with a key, and of a sandbox's data plane. */

#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/e2b/data.h"
#include "gate/e2b/own.h"
#include "gate/face.h"

#define BODY_BYTES  (256 * KIB)
#define INPUT_BYTES (6 * MIB) /* in base64 */
#define OWN         .access = GATE_ACCESS_OWN

static const struct gate_route control_routes[] = {
	{"POST", "/sandboxes", sandbox_create, .max_body = BODY_BYTES},
	{"POST", "/v2/sandboxes", sandbox_create, .max_body = BODY_BYTES},
	{"GET", "/sandboxes", sandboxes_list, .max_body = 0},
	{"GET", "/v2/sandboxes", sandboxes_list, .max_body = 0},
	{"GET", "/sandboxes/{id}", sandbox_info, .max_body = 0},
	{"DELETE", "/sandboxes/{id}", sandbox_kill, .max_body = 0},
	{"POST", "/sandboxes/{id}/connect", sandbox_connect, .max_body = BODY_BYTES},
	{"POST", "/v2/sandboxes/{id}/connect", sandbox_connect, .max_body = BODY_BYTES},
	{"POST", "/sandboxes/{id}/resume", sandbox_resume, .max_body = BODY_BYTES},
	{"POST", "/sandboxes/{id}/pause", sandbox_pause, .max_body = BODY_BYTES},
	{"POST", "/sandboxes/{id}/timeout", sandbox_timeout, .max_body = BODY_BYTES},
	{"GET", "/sandboxes/{id}/metrics", sandbox_metrics, .max_body = 0},
	{"PUT", "/sandboxes/{id}/network", sandbox_network, .max_body = BODY_BYTES},
	{"POST", "/sandboxes/{id}/snapshots", sandbox_snapshot, .max_body = BODY_BYTES},
	{"POST", "/sandboxes/{id}/fork", sandbox_fork, .max_body = BODY_BYTES},
	{"GET", "/snapshots", snapshots_list, .max_body = 0},
	{"GET", "/templates", templates_list, .max_body = 0},
	{"GET", "/v2/templates", templates_list, .max_body = 0},
	{"GET", "/templates/aliases/{alias}", template_alias, .max_body = 0},
	{"DELETE", "/templates/{id}", template_delete, .max_body = 0},
	{"POST", "/templates", template_build, .max_body = 0},
	{"POST", "/v2/templates", template_build, .max_body = 0},
	{"POST", "/v3/templates", template_build, .max_body = 0},
};

const struct gate_face face_e2b_control = {
	"e2b", .routes = control_routes, .n_routes = ARRAY_SIZE(control_routes)};

static const struct gate_route data_routes[] = {
	{"GET", "/health", data_health, .access = GATE_ACCESS_OPEN},
	{"GET", "/files", file_download, OWN},
	{"POST", "/files", file_upload, .max_body = GATE_BODY_STREAM, OWN},
	{"POST", "/process.Process/List", process_list, .max_body = BODY_BYTES, OWN},
	{"POST", "/process.Process/Start", process_start, .max_body = BODY_BYTES, OWN},
	{"POST", "/process.Process/Connect", process_connect, .max_body = BODY_BYTES, OWN},
	{"POST", "/process.Process/Update", process_update, .max_body = BODY_BYTES, OWN},
	{"POST", "/process.Process/SendInput", process_send_input, .max_body = INPUT_BYTES, OWN},
	{"POST", "/process.Process/SendSignal", process_send_signal, .max_body = BODY_BYTES, OWN},
	{"POST", "/process.Process/CloseStdin", process_close_stdin, .max_body = BODY_BYTES, OWN},
	{"POST", "/filesystem.Filesystem/Stat", filesystem_stat, .max_body = BODY_BYTES, OWN},
	{"POST", "/filesystem.Filesystem/ListDir", filesystem_list, .max_body = BODY_BYTES, OWN},
	{"POST", "/filesystem.Filesystem/MakeDir", filesystem_make_dir, .max_body = BODY_BYTES,
		OWN},
	{"POST", "/filesystem.Filesystem/Move", filesystem_move, .max_body = BODY_BYTES, OWN},
	{"POST", "/filesystem.Filesystem/Remove", filesystem_remove, .max_body = BODY_BYTES, OWN},
	{"POST", "/filesystem.Filesystem/WatchDir", filesystem_watch, .max_body = BODY_BYTES, OWN},
	{"POST", "/filesystem.Filesystem/CreateWatcher", filesystem_create_watcher,
		.max_body = BODY_BYTES, OWN},
	{"POST", "/filesystem.Filesystem/GetWatcherEvents", filesystem_get_watcher_events,
		.max_body = BODY_BYTES, OWN},
	{"POST", "/filesystem.Filesystem/RemoveWatcher", filesystem_remove_watcher,
		.max_body = BODY_BYTES, OWN},
};

const struct gate_face face_e2b_data = {"e2b data", .takes = data_takes, .routes = data_routes,
	.n_routes = ARRAY_SIZE(data_routes)};
