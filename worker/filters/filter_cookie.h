/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The worker installs the filter of commands once, and everything that it starts inherits it. The
 * worker and the inits nevertheless make calls that commands may not make: clone(2) with namespace
 * flags, clone3(2) into a cgroup, mount(2) of a proc, and for worker/commands/unotify.c openat2(2)
 * and fchmodat(2) with S_ISGID. They pass a random 64-bit number, chosen by each worker, in an
 * argument that the kernel ignores, and the filter refuses the calls without it. A command can read
 * neither the worker's memory nor its registers, because neither the worker nor the init is
 * dumpable. A command that guessed the number would be no further with the first three: the kernel
 * refuses them because it lacks CAP_SYS_ADMIN. With the others it could make files with S_ISGID.
 */

/* Number of the argument, counted from 0. */
#define FILTER_COOKIE_CLONE    2 /* parent_tid, ignored without CLONE_PARENT_SETTID */
#define FILTER_COOKIE_CLONE3   2 /* the call takes two arguments */
#define FILTER_COOKIE_MOUNT    5 /* the call takes five arguments */
#define FILTER_COOKIE_OPENAT2  4 /* the call takes four arguments */
#define FILTER_COOKIE_FCHMODAT 3 /* the call takes three arguments */

#define FILTER_COOKIE_CALLS 5

/*
 * With root_inside a further call carries the number: setns(2), by which commands enter their user
 * namespace. A worker without root_inside may not make this call.
 */
#define FILTER_COOKIE_SETNS 2 /* the call takes two arguments */

/*
 * Placeholders in the compiled filter for the two halves of the number, in the rules of each of the
 * calls.
 */
#define FILTER_COOKIE_HIGH 0x8d1c52e7U
#define FILTER_COOKIE_LOW  0xb3604f9bU
