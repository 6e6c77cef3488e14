/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a descriptor's terminal may be sent. */

#include <stdbool.h>

/** Whether @fd is a terminal that can move its cursor: not $TERM "dumb". */
bool terminal_is_capable(int fd);

/** Whether, besides, its user wants colours: $NO_COLOR (no-color.org) is not set. */
bool terminal_has_colours(int fd);
