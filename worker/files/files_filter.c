// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process, once, at the end of its set-up. */
#include "worker/files/files_filter.h"

#include "common/cleanup.h"
#include "files_filters.h"
#include "worker/filter.h"

int files_filter_install(void)
{
	return filter_install(files_allowed, ARRAY_SIZE(files_allowed));
}
