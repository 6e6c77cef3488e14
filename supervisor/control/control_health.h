/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct metrics_text;
struct service;

/** Adds the metrics of health. */
void control_health_metrics(const struct metrics_text *out, const struct service *service);
