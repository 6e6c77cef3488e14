/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct gate_config;

/**
 * Gives up all that serving does not need. Returns 0, or -errno with the step that failed.
 */
int gate_confine(const struct gate_config *config, const char **ret_step);
