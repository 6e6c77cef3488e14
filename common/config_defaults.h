/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defaults of the keys that more than one program needs: the spawner and cloister-egress enforce
 * the tenants' limits, and the client describes the tools. The defaults of all other keys are in
 * supervisor/config/config_keys.c.
 */

#include "common/limits.h"

#define DEFAULT_WORKSPACE_MEMORY_BYTES (8 * GIB)
#define DEFAULT_COMMAND_MEMORY_BYTES   (4 * GIB)
#define DEFAULT_WORKSPACE_PROCESSES    LIMIT_PROCESSES
#define DEFAULT_TENANT_WEIGHT          100
#define DEFAULT_CPU_MAX_PERCENT        0 /* of one CPU; 0: unlimited */
#define DEFAULT_TMP_BYTES              (1 * GIB)
#define DEFAULT_FILE_SIZE_BYTES        (16 * GIB)
#define DEFAULT_OPEN_FILES             4096
#define DEFAULT_WATCHES                LIMIT_INOTIFY_WATCHES
#define DEFAULT_HOME_BYTES             (4 * GIB)
#define DEFAULT_TEMPLATE_MEMORY_BYTES  (1 * GIB)
#define DEFAULT_WORKSPACES_EXISTING    1000
/* No service is known by it, and it is below the ports that the kernel gives to clients. */
#define DEFAULT_EGRESS_PORT                  18129
#define DEFAULT_EGRESS_CONNECTIONS           512
#define DEFAULT_EGRESS_CONNECT_RATE          200 /* in a second */
#define DEFAULT_EGRESS_USER                  "cloister-egress"
#define DEFAULT_GATE_LISTEN                  "127.0.0.1:7080"
#define DEFAULT_GATE_AGENT_SOCKET            "/run/cloister/agent.sock"
#define DEFAULT_GATE_JWT_TENANT              "tenant"
#define DEFAULT_GATE_KEYS                    "/etc/cloister-gate/keys"
#define DEFAULT_GATE_CONNECTIONS             8192
#define DEFAULT_GATE_CONNECTIONS_PER_ADDRESS 1024
#define DEFAULT_GATE_FAILED_KEYS             30 /* of one address in a minute */
#define DEFAULT_GATE_HEAD_MS                 60000
#define DEFAULT_GATE_IDLE_MS                 300000
#define DEFAULT_COMMAND_MS                   30000 /* default of run_command's timeout_ms */
#define DEFAULT_OUTPUT_WAIT_MS               10000 /* default of read_output's wait_ms */
