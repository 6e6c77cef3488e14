// SPDX-License-Identifier: Apache-2.0
/*
 * Part of the build: the system call filter of the spawner. The programs that it starts (worker,
 * files process and, through them, commands) inherit it, and together they need too many calls for
 * a list of allowed ones. It therefore refuses the calls that no process below cloisterd ever
 * makes. Each program's own filter adds the rest.
 */
#include "worker/filters/filters.h"

#include "common/cleanup.h"

#include <errno.h>

/* clang-format off */
static const int refused[] = {
	SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register), SCMP_SYS(open_by_handle_at), SCMP_SYS(fanotify_init),
	SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(keyctl), SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load),
	SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(reboot), SCMP_SYS(swapon),
	SCMP_SYS(swapoff), SCMP_SYS(acct), SCMP_SYS(syslog), SCMP_SYS(quotactl),
	SCMP_SYS(iopl), SCMP_SYS(ioperm), SCMP_SYS(modify_ldt), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime),
	SCMP_SYS(pidfd_getfd), SCMP_SYS(kcmp), SCMP_SYS(lookup_dcookie), SCMP_SYS(nfsservctl), SCMP_SYS(chroot),
};
/* clang-format on */

static int refuse_spawner_calls(scmp_filter_ctx filter)
{
	return filter_add(filter, FILTER_REFUSE, refused, ARRAY_SIZE(refused));
}

static const struct filter_source sources[] = {
	{"spawner_refused", {{SCMP_ACT_ALLOW, refuse_spawner_calls, NULL, 0}}},
};

const struct filter_set spawner_filters = {"spawner", sources, ARRAY_SIZE(sources)};
