/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's own directories and files: the configuration, the state with its lock, the journal of
 * keys, the audit log. No workspace may contain one of them. Each function is a step of the start
 * and ends the process if it fails.
 */

struct daemon;

/** Keeps workspaces away from the configuration and its drop-ins, if there is a file. */
void own_files_config(struct daemon *daemon);

/** Makes the state directory, locks it for as long as cloisterd lives, and opens managed_fd. */
void own_files_state(struct daemon *daemon);

/**
 * Opens the journal of keys in its directory below the state directory, unless it is off. It is
 * opened here and never again.
 */
void own_files_journal(struct daemon *daemon);

/** Opens the audit log, unless it is off. */
void own_files_audit(struct daemon *daemon);

/**
 * Locks cloisterd down (lockdown.h) to the directories that it uses by name from here on: of the
 * configuration and the user database, for a reload (perhaps through links), of managed workspaces,
 * of the sockets, to remove them, and of the audit log, to rename, open and remove files.
 */
void own_files_lock_down(struct daemon *daemon);
