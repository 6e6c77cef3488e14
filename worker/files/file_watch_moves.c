// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process: pairs the two events of a move, by their cookie (inotify(7)).
 * A directory that leaves is followed to its new path, or unwatched if no other half comes. The
 * event of a file that leaves is kept back, because an edit of cloister's exchanges a file with a
 * temporary one. Events come from the tenant's renames, and their paths are only compared.
 */
#include "worker/files/file_watch_state.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void end_move(struct move *move)
{
	free(move->path);
	*move = (struct move){0};
}

/* A directory without the other half of its move is not below the watched one any more. */
static void give_up_move(struct watch *watch, struct move *move)
{
	file_watch_remove_below(watch, move->path);
	end_move(move);
}

bool file_watch_moves_wait(struct watch *watch, bool now)
{
	bool wait = false;

	for (size_t i = 0; i < KEPT_COOKIES; i++) {
		struct move *move = &watch->moves[i];

		if (move->cookie != 0 && (now || move->old))
			give_up_move(watch, move);
		move->old = true;
		wait |= move->cookie != 0;
	}
	return wait;
}

int file_watch_note_move(struct watch *watch, uint32_t cookie, const char *path)
{
	struct move *unused = NULL;

	for (size_t i = 0; !unused && i < KEPT_COOKIES; i++)
		if (watch->moves[i].cookie == 0)
			unused = &watch->moves[i];
	if (!unused) {
		unused = &watch->moves[0];
		give_up_move(watch, unused);
	}
	unused->path = strdup(path);
	if (!unused->path)
		return -ENOMEM;
	unused->cookie = cookie;
	unused->old = false;
	return 0;
}

int file_watch_arrive(struct watch *watch, uint32_t cookie, const char *path)
{
	int r;

	for (size_t i = 0; i < KEPT_COOKIES; i++) {
		struct move *move = &watch->moves[i];

		if (cookie == 0 || move->cookie != cookie)
			continue;
		r = file_watch_rename(watch, move->path, path);
		end_move(move);
		return r;
	}
	return file_watch_add_new(watch, path, false);
}

bool file_watch_was_temporary(const struct watch *watch, uint32_t cookie)
{
	for (size_t i = 0; i < KEPT_COOKIES; i++)
		if (cookie != 0 && watch->temporaries[i] == cookie)
			return true;
	return false;
}

int file_watch_tell_held(struct watch *watch)
{
	const uint32_t cookie = watch->held_cookie;
	int r;

	if (cookie == 0)
		return 0;
	watch->held_cookie = 0;
	r = file_watch_tell(
		watch, FILES_EVENT_MOVED_FROM, false, cookie, text_from(watch->held_path));
	free(TAKE_PTR(watch->held_path));
	return r;
}

int file_watch_hold(struct watch *watch, uint32_t cookie, const char *path)
{
	watch->held_path = strdup(path);
	watch->held_cookie = cookie;
	watch->held_waits = false;
	return watch->held_path ? 0 : -ENOMEM;
}

/* The other half of a move to a temporary file: the file is there under its name. */
static void drop_held(struct watch *watch)
{
	watch->held_cookie = 0;
	free(TAKE_PTR(watch->held_path));
}

void file_watch_note_temporary(struct watch *watch, const struct inotify_event *event)
{
	if ((event->mask & IN_MOVED_TO) && event->cookie == watch->held_cookie)
		drop_held(watch);
	if (event->mask & IN_MOVED_FROM)
		watch->temporaries[watch->next_temporary++ % KEPT_COOKIES] = event->cookie;
}
