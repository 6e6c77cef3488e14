/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The marks with which `cloisterctl doctor` and `cloisterd --doctor` begin the line of a feature of
 * the host.
 */

#define DOCTOR_PRESENT "ok       "
#define DOCTOR_MISSING "missing  "
#define DOCTOR_COST    "         without it: "
#define DOCTOR_FIX     "         to get it: "
