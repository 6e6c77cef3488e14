/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent socket: its methods. */

#include "supervisor/connection/endpoint.h"

extern const struct endpoint agent_endpoint;
