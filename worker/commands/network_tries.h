/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How often processes of this network namespace have tried to reach an address to which the kernel
 * has no route. A workspace without a network has routes to itself only, so every such try is one
 * to leave it; a look-up of a name is one too, because resolv.conf names a server outside. The
 * counters are the workspace's: commands that run at once are counted together.
 */

#include <stdint.h>

struct network_tries {
	int v4, v6; /* /proc/net/snmp and snmp6; -1: not there */
};

/** Opens the counters of the caller's network namespace. A file that cannot be opened counts
 * nothing.
 */
struct network_tries network_tries_open(void);

/** Returns the tries until now. Makes raw system calls only, for the init of a command. */
uint64_t network_tries_count(const struct network_tries *tries);

/* For the tests: the value of a file of this form, 0 if it is not of this form. */
uint64_t network_tries_read_snmp(const char *text);
uint64_t network_tries_read_snmp6(const char *text);
