/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a service manager starts cloister-egress, its first process serves nobody. It starts one
 * serving process for each generation of cloisterd. After a take-over the new generation of
 * cloisterd gets another process, executed from the program that is installed then. The former
 * process serves until its cloisterd ends.
 */

/**
 * Starts a process that serves, as "cloister-egress child @config @socket", and another one each
 * time that the newest says egress_parent_tell_retired(). Ends with the status of the newest, if it
 * ends and there is no former one; otherwise it starts another in a second.
 */
_Noreturn void egress_parent_run(const char *config, const char *socket);

/** In a child: prepares for egress_parent_tell_retired(), and for the parent's death. Returns 0,
 * -errno.
 */
int egress_parent_begin(void);

/** In a child: another generation serves now and needs another process. -EBADF: no parent.
 */
int egress_parent_tell_retired(void);
