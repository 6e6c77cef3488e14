/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces supervisor/host/calls_probe.c and namespaces_probe.c, which fork and unshare. */

#include "supervisor/host/namespaces_probe.h"

extern bool fake_calls_present;
extern struct namespaces_probe fake_namespaces;
