/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tries c-ares before cloister-egress serves, since its version may change without cloister. */

/**
 * Asks for two names, with sockets that this program answers itself. c-ares must ask for these
 * names and for no others, take no answer to another question, and give the addresses as they came,
 * with the port. Returns -errno, or 0 with the deviation in *@ret_fault, NULL if there is none.
 * Call it before egress_confine().
 */
int resolver_check(const char **ret_fault);
