/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The abilities of the terminal behind a descriptor. */

#include <stdbool.h>

/** Whether @fd is a terminal that can move its cursor, so $TERM is not "dumb". */
bool terminal_is_capable(int fd);

/** Whether its user also wants colours: $NO_COLOR (no-color.org) is not set. */
bool terminal_has_colours(int fd);
