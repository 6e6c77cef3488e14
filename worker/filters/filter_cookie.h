/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The filter of commands is installed in the worker, once, and everything that it starts inherits
 * it. But worker and command inits make three calls that commands may not: clone(2) into new
 * namespaces, clone3(2) into a cgroup and mount(2) of a proc. Those carry a random number of 64
 * bits, chosen by each worker, in an argument that the kernel does not look at, and the filter
 * lets nobody else make them. A command does not have the worker's memory and cannot see its
 * registers (neither is dumpable); should it guess the number, it is where it was without
 * the filter: the kernel refuses it for want of CAP_SYS_ADMIN.
 */

/* The argument, counted from 0. */
#define FILTER_COOKIE_CLONE  2 /* parent_tid, without CLONE_PARENT_SETTID */
#define FILTER_COOKIE_CLONE3 2 /* it has two */
#define FILTER_COOKIE_MOUNT  5 /* it has five */

#define FILTER_COOKIE_CALLS 3

/* What stands for the two halves of the number in the compiled filter in each of
 * the calls' rules. */
#define FILTER_COOKIE_HIGH 0x8d1c52e7U
#define FILTER_COOKIE_LOW  0xb3604f9bU
