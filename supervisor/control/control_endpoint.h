/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control socket: the methods for administrators and observers. */

#include "supervisor/connection/endpoint.h"

extern const struct endpoint control_endpoint;
