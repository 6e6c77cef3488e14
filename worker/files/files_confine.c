// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process, once, at the end of its set-up. Jobs inherit both. */
#include "worker/files/files_confine.h"

#include "common/cleanup.h"
#include "common/landlock.h"
#include "files_filters.h"
#include "worker/filter.h"

/*
 * Read rights are not restricted: the kernel would check them for every file that a search opens
 * and for every directory above it, and a search would take a sixth longer
 * (tests/bench/RESULT-walls.md). RULESET_TRUNCATE too would be checked at every open.
 */
#define REFUSED                                                                    \
	((RULESET_WRITE | RULESET_DEVICES | RULESET_EXECUTE | RULESET_IOCTL_DEV) & \
		~(uint64_t)RULESET_TRUNCATE)
/*
 * Links, FIFOs and sockets are renamed (file.move), which takes the right to make them; the system
 * call filter has no call that makes one.
 */
#define ALLOWED                                                                \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |       \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM |    \
		LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SOCK | RULESET_REFER)

int files_ruleset_enforce(int root)
{
	const struct landlock_attr wanted = {
		.files = REFUSED,
		.net = RULESET_NET,
		.scoped = RULESET_SCOPE_SOCKETS | RULESET_SCOPE_SIGNALS,
	};
	int ruleset, r = landlock_ruleset_new(wanted, &ruleset);

	if (r == 0)
		r = landlock_ruleset_allow(ruleset, wanted, root, ".", ALLOWED);
	return r < 0 ? r : landlock_ruleset_enforce(ruleset);
}

int files_filter_install(void)
{
	return filter_install(files_allowed, ARRAY_SIZE(files_allowed));
}
