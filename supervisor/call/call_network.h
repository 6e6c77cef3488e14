/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command's network: the variables that lead its programs to cloister-egress, and the network
 * part of its answer. Runs in cloisterd. Hosts were chosen by the command.
 */

struct byte_queue;
struct json_text;
struct network_use;
struct notes;
struct tenant;
struct workspace;

/**
 * Appends NAME=VALUE and a NUL for each variable that names the command's proxy to @body; one
 * for git over ssh only if @tenant has a rule for port 22. Nothing for a command without a network.
 * Returns 0 or -ENOMEM.
 */
int call_network_put_env(
	struct byte_queue *body, const struct network_use *use, const struct tenant *tenant);

/** Adds a sentence about the refusals of a failed command, and about the allowed hosts. */
void call_network_note(
	struct notes *notes, const struct network_use *use, const struct workspace *workspace);

/** Writes the member "network" of an observation. */
void call_network_write(struct json_text *json, const struct network_use *use);
