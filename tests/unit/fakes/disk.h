/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * In place of write(2) and pthread_cond_timedwait(3): a disk that is full or slow, and no waiting
 * for time. Both may be called by any thread.
 */

#include <stdatomic.h>
#include <stddef.h>

/* Bytes that regular files still take, and the errno of a write that finds none. */
extern atomic_size_t fake_disk_room;
extern atomic_int fake_disk_error;
/* The most that one write takes. */
extern atomic_size_t fake_disk_piece;
/* How often something waited for time to pass. */
extern atomic_uint fake_disk_waits;

/** As much room as there is, in one piece. */
void fake_disk_reset(void);
