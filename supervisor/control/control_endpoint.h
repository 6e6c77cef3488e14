/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control socket: what administrators and observers may ask for. */

#include "supervisor/rpc/endpoint.h"

extern const struct endpoint control_endpoint;
