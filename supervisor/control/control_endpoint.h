/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control socket: the methods for administrators and observers. */

#include "supervisor/rpc/endpoint.h"

extern const struct endpoint control_endpoint;
