/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The name and e-mail address that the caller's git(1) writes into commits, as variables for the
 * commands of a private instance, whose HOME has no configuration.
 */

#define GIT_IDENTITY_MAX  4
#define GIT_IDENTITY_SIZE 512

struct git_identity {
	char variables[GIT_IDENTITY_MAX][GIT_IDENTITY_SIZE]; /* NAME=VALUE; "" after the last */
};

/**
 * Asks git, as the calling user and with @environment, for user.name and user.email of its global
 * and system configuration. One that the repository @directory (NULL: none) sets itself is left
 * out, because variables would override it. There is none if git is not installed.
 */
void git_identity_read(
	const char *directory, char *const *environment, struct git_identity *ret_identity);
