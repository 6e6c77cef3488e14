// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The numbers come from a files process, which may be hostile. */
#include "supervisor/workspace/disk_use.h"

#include "common/limits.h"
#include "supervisor/base/clock.h"

#include <errno.h>

#define PART 20 /* a measurement takes at most this part of the time */

static void ask(struct disk_use *use)
{
	if (!use->ask(use->context))
		return;
	use->stale = false;
	use->asked = true;
	use->asked_at = clock_now();
}

/* Measures at @due, or when it may, unless that is to be earlier anyway. */
static void schedule(struct disk_use *use, int64_t due)
{
	int64_t now = clock_now();

	if (due < use->earliest)
		due = use->earliest;
	if (use->asked || (timer_is_set(&use->timer) && use->due <= due))
		return;
	use->due = due;
	timer_set_ns(&use->timer, due > now ? due - now : 0);
}

static void on_timer(void *context)
{
	struct disk_use *use = context;

	if ((use->stale || (use->running && use->limited)) && !use->asked)
		ask(use);
}

void disk_use_init(struct disk_use *use, bool (*ask_for)(void *context), void *context)
{
	*use = (struct disk_use){.ask = ask_for, .context = context};
	timer_init(&use->timer, on_timer, use);
}

void disk_use_opened(struct disk_use *use)
{
	ask(use);
}

void disk_use_changed(struct disk_use *use)
{
	use->stale = true;
	schedule(use, clock_now() + (use->limited ? 0 : LIMIT_MEASURE_PAUSE_MS * CLOCK_NS_PER_MS));
}

void disk_use_runs(struct disk_use *use, bool running)
{
	use->running = running;
	if (running && use->limited)
		schedule(use, clock_now() + LIMIT_MEASURE_RUNNING_MS * CLOCK_NS_PER_MS);
}

void disk_use_told(struct disk_use *use, uint64_t bytes)
{
	use->known = true;
	use->bytes = bytes;
}

void disk_use_look(struct disk_use *use, bool writing)
{
	use->stale |= writing;
	if (use->stale && !use->asked && clock_now() >= use->earliest)
		ask(use);
}

int disk_use_answer(struct disk_use *use, const struct files_end *end)
{
	int64_t now = clock_now();
	bool stale = use->stale;

	if (!use->asked)
		return -EBADMSG;
	use->asked = false;
	use->fresh = end->error == TOOL_OK;
	use->earliest = now + (now - use->asked_at) * PART;
	if (use->fresh) {
		if (!use->doubted)
			use->before = (struct disk_before){use->known, use->hidden, use->bytes};
		use->known = true;
		use->partial = end->truncated;
		use->bytes = end->disk_limit > 0 ? end->disk_bytes : end->size;
		use->files = end->count;
		use->directories = end->files_searched;
		use->hidden = end->files_skipped > 0;
	}
	/* It was changed meanwhile, or the files process was busy. */
	if (stale || !use->fresh)
		disk_use_changed(use);
	disk_use_runs(use, use->running);
	return 0;
}

enum disk_growth disk_use_growth(struct disk_use *use, uint64_t hard)
{
	const bool grown = use->before.known && use->bytes > hard && use->bytes > use->before.bytes;
	const bool sure = use->doubted;

	if (!use->fresh)
		return DISK_GROWTH_NONE;
	use->doubted = grown && !sure;
	if (use->doubted && !use->asked)
		ask(use);
	if (!grown || !sure)
		return DISK_GROWTH_NONE;
	return use->before.hidden ? DISK_GROWTH_UNHIDDEN : DISK_GROWTH_WRITTEN;
}

void disk_use_lost(struct disk_use *use)
{
	use->stale |= use->asked;
	use->asked = false;
}

void disk_use_stop(struct disk_use *use)
{
	timer_cancel(&use->timer);
}
