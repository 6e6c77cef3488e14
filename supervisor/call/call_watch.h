/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The events of file.watch, in cloisterd. cloisterd asks the files process for at most
 * LIMIT_FILE_WATCH_WINDOW bytes of events. It asks for more when these have come, the client reads,
 * and unread answers have room (unread.h). So a flood of events waits in the watch's process and in
 * its inotify queue, which is bounded and reports lost events.
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
