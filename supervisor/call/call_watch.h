/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The events of file.watch, in cloisterd. The files process is asked for at most
 * LIMIT_FILE_WATCH_WINDOW bytes of events, and for more only when these have come, when the client
 * reads, and when there is room for what it has not read (unread.h). So a flood of events waits in
 * the watch's process and in the kernel's queue of it, which is bounded and tells when events were
 * lost.
 */

struct call;
struct channel_frame;

/* The row of call_hooks. */
int call_watch_new(struct call *call);
int call_watch_frame(struct call *call, const struct channel_frame *frame);
void call_watch_end(struct call *call);
void call_watch_free(struct call *call);

/** Its process has been asked. */
void call_watch_begin(struct call *call);

/** Its client reads again. */
void call_watch_go_on(struct call *call);

/** Ends all watches, because another cloisterd takes the place of this one. */
void call_watches_end(void);
