/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How `cloisterctl doctor` and `cloisterd --doctor` print a feature of the host: these, then a
 * text. */

#define DOCTOR_PRESENT "ok       "
#define DOCTOR_MISSING "missing  "
#define DOCTOR_COST    "         without it: "
#define DOCTOR_FIX     "         to get it: "
