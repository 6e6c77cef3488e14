/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `cloister-gate --probe`: asks a gate that serves for what it must refuse. */

struct gate_config;

/**
 * Connects to each address of @config, and prints a line for each probe. @keys, which may be NULL,
 * is a file with two keys, of different tenants, a line each. Returns how many probes failed, or
 * -errno if the file cannot be read.
 */
int gate_probe(const struct gate_config *config, const char *keys);
