// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The numbers come from a files process, which may be hostile. */
#include "supervisor/workspace/disk_use.h"

#include "common/limits.h"
#include "supervisor/base/clock.h"

#include <errno.h>

#define PART 20 /* a measurement takes at most this part of the time */

#define LATE_NS  (LIMIT_MEASURE_LATE_MS * CLOCK_NS_PER_MS)
#define EXACT_NS (LIMIT_MEASURE_EXACT_MS * CLOCK_NS_PER_MS)

/* Looks whether the measurement is late, if commands could be the reason. */
static void watch_late(struct disk_use *use)
{
	int64_t left = use->asked_at + LATE_NS - clock_now();

	if (use->late || use->frozen || !use->running || !use->limited)
		return;
	use->late = left <= 0;
	if (use->late)
		(void)use->ask(use->context, DISK_ASK_NO_MORE);
	else
		timer_set_ns(&use->timer, left);
}

/*
 * What has grown is measured again while commands are stopped, too: they could follow the second
 * measurement as they could the first.
 */
static bool needs_pause(const struct disk_use *use)
{
	int64_t now = clock_now();

	return use->pauses && use->limited && use->running && now >= use->pause_earliest &&
	       (use->doubted || (use->unsure && now - use->unsure_since >= EXACT_NS));
}

static void ask_disk_use(struct disk_use *use)
{
	bool frozen = needs_pause(use);

	if (!use->ask(use->context, frozen                      ? DISK_ASK_FROZEN
				    : use->late || use->doubted ? DISK_ASK_PROMPT
								: DISK_ASK_IDLE))
		return;
	use->stale = false;
	use->asked = true;
	use->frozen = frozen;
	use->ran = use->running;
	use->asked_at = clock_now();
	watch_late(use);
}

/* Measures at @due, or when it may, unless that is to be earlier anyway. */
static void schedule(struct disk_use *use, int64_t due)
{
	int64_t now = clock_now();

	if (due < use->earliest)
		due = use->earliest;
	if (use->asked)
		watch_late(use);
	if (use->asked || (timer_is_set(&use->timer) && use->due <= due))
		return;
	use->due = due;
	timer_set_ns(&use->timer, due > now ? due - now : 0);
}

static void on_timer(void *context)
{
	struct disk_use *use = context;

	if (use->asked)
		watch_late(use);
	else if (use->stale || (use->running && use->limited))
		ask_disk_use(use);
}

void disk_use_init(
	struct disk_use *use, bool (*ask_for)(void *context, enum disk_ask what), void *context)
{
	*use = (struct disk_use){.ask = ask_for, .context = context, .pause_ms = LIMIT_PAUSE_MS};
	timer_init(&use->timer, on_timer, use);
}

void disk_use_opened(struct disk_use *use)
{
	ask_disk_use(use);
}

void disk_use_changed(struct disk_use *use)
{
	use->stale = true;
	schedule(use, clock_now() + (use->limited ? 0 : LIMIT_MEASURE_PAUSE_MS * CLOCK_NS_PER_MS));
}

void disk_use_runs(struct disk_use *use, bool running)
{
	use->running = running;
	use->ran |= running;
	if (running && !use->unsure)
		use->unsure_since = clock_now();
	use->unsure |= running;
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
		ask_disk_use(use);
}

/*
 * How long nothing is measured. Commands that keep the processors busy make a measurement long, and
 * must not win time by it in which they are not measured.
 */
static int64_t rest_ns(const struct disk_use *use, const struct files_end *end)
{
	int64_t taken = clock_now() - use->asked_at, used = taken;
	int64_t rest = LIMIT_MEASURE_REST_MS * CLOCK_NS_PER_MS;

	if (!use->fresh || !use->running || !use->limited)
		return taken * PART;
	if (end->lines < (uint64_t)(taken / CLOCK_NS_PER_US))
		used = (int64_t)end->lines * CLOCK_NS_PER_US;
	if (rest < used * PART)
		rest = used * PART;
	return rest < taken * PART ? rest : taken * PART;
}

/*
 * Commands that make a measurement longer than the pause, by many files or by calls that the kernel
 * does not leave, are stopped for twice as long the next time, and so until one is done. Pauses
 * take their part of the time together, whatever becomes of them.
 */
static void end_pause(struct disk_use *use, bool done)
{
	int64_t pause = use->pause_ms * CLOCK_NS_PER_MS, taken = clock_now() - use->asked_at;

	if (!use->frozen)
		return;
	use->frozen = false;
	if (taken > pause)
		taken = pause;
	use->pause_earliest = clock_now() + taken * PART;
	use->pause_ms = (done ? taken / CLOCK_NS_PER_MS : use->pause_ms) * 2;
	if (use->pause_ms < LIMIT_PAUSE_MS)
		use->pause_ms = LIMIT_PAUSE_MS;
	if (use->pause_ms > LIMIT_PAUSE_MAX_MS)
		use->pause_ms = LIMIT_PAUSE_MAX_MS;
}

/* Whether no command could write while the measurement went on. */
static void note_exact(struct disk_use *use, bool frozen)
{
	use->exact = use->fresh && frozen;
	if (!use->fresh || (use->ran && !frozen))
		return;
	use->unsure = use->running;
	use->unsure_since = clock_now();
}

struct disk_size disk_use_size(const struct disk_use *use)
{
	/* The numbers are a hostile process's: a sum that overflows is the largest number. */
	const uint64_t files = use->files + use->directories;

	return (struct disk_size){use->bytes, files >= use->files ? files : UINT64_MAX};
}

int disk_use_answer(struct disk_use *use, const struct files_end *end, bool frozen)
{
	bool stale = use->stale;

	if (!use->asked)
		return -EBADMSG;
	timer_cancel(&use->timer);
	use->asked = false;
	use->fresh = end->error == TOOL_OK;
	note_exact(use, frozen);
	end_pause(use, use->exact);
	use->earliest = clock_now() + rest_ns(use, end);
	/* The next one comes soon, and not at once: the files process may be busy. */
	if (use->late && !use->fresh)
		use->earliest = clock_now() + LIMIT_RETRY_MIN_MS * CLOCK_NS_PER_MS;
	if (use->fresh) {
		use->late = false;
		if (!use->doubted)
			use->before =
				(struct disk_before){use->known, use->hidden, disk_use_size(use)};
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

static bool has_grown(uint64_t now, uint64_t before, uint64_t hard)
{
	return hard > 0 && now > hard && now > before;
}

enum disk_growth disk_use_growth(
	struct disk_use *use, const struct disk_size *hard, uint64_t *ret_ms)
{
	const struct disk_size now = disk_use_size(use), *before = &use->before.size;
	const bool grown =
		use->before.known && (has_grown(now.bytes, before->bytes, hard->bytes) ||
					     has_grown(now.files, before->files, hard->files));
	const bool sure = use->doubted || use->exact;

	if (!use->doubted)
		use->grown_at = clock_now();
	*ret_ms = (uint64_t)((clock_now() - use->grown_at) / CLOCK_NS_PER_MS);
	if (!use->fresh)
		return DISK_GROWTH_NONE;
	use->doubted = grown && !sure;
	if (use->doubted && !use->asked)
		ask_disk_use(use);
	if (!grown || !sure)
		return DISK_GROWTH_NONE;
	return use->before.hidden ? DISK_GROWTH_UNHIDDEN : DISK_GROWTH_WRITTEN;
}

void disk_use_lost(struct disk_use *use)
{
	if (use->asked)
		end_pause(use, false);
	use->stale |= use->asked;
	use->asked = use->late = false;
}

void disk_use_stop(struct disk_use *use)
{
	timer_cancel(&use->timer);
}
