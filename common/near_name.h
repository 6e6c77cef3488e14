/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How similar a name that a model wrote is to an existing one, for sentences such as `did you mean
 * "big.py"?`. cloisterd uses it for arguments, and the files process for files.
 */

#include "common/text.h"

#define NEAR_NAME_FAR 1000

/**
 * Returns the distance of @there from @wanted: 0 if only letter case, "-", "_" and spaces differ, 1
 * if only the parts after the last dot differ, 2 if one begins with the other, otherwise the number
 * of letters to insert, remove, replace or swap. Returns NEAR_NAME_FAR for names that are not
 * alike. The time is bounded: long names are compared without the last rule.
 */
unsigned near_name_distance(struct text wanted, struct text there);
