/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The user namespace that a cell's commands enter with root_inside = yes. It lies below the cell's,
 * owns no other namespace, and maps the workspace's one id to 0. Worker, files process and command
 * inits stay in the cell's own. user_namespaces(7).
 */

/**
 * Makes such a namespace below the caller's. The caller has become @id, the only user of its
 * namespace, and has one thread. Returns 0 and the namespace's descriptor, or -errno.
 */
int root_inside_make(unsigned id, int *ret_fd);
