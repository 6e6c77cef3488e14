/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces write(2), pwrite(2) and fdatasync(2) by a disk that can be full or slow, and
 * pthread_cond_timedwait(3) by a function that does not wait. Any thread may call them. */

#include <stdatomic.h>
#include <stddef.h>

/* Bytes that can still be written to regular files, and the errno of a write after that. */
extern atomic_size_t fake_disk_room;
extern atomic_int fake_disk_error;
/* The most bytes that one write accepts. */
extern atomic_size_t fake_disk_piece;
/* The errno of each fdatasync(2); 0: it succeeds. pwrite(2) counts as write(2). */
extern atomic_int fake_disk_sync_error;
/* How often pthread_cond_timedwait(3) was called. */
extern atomic_uint fake_disk_waits;

/** Removes all limits of room and of the size of a write. */
void fake_disk_reset(void);
