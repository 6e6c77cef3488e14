/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The data plane: requests about one sandbox, with its access token, as E2B's envd serves them. */

#include "gate/e2b/op.h"

struct gate_request;

/** The sandbox and port that @request names, by its host or else by its headers. */
struct target;
bool data_target(const struct gate_request *request, struct target *ret);
/** Whether @request is for a sandbox's data plane, by its host or headers. */
bool data_takes(const struct gate_request *request);
/** Whether it is for another port of a sandbox. */
bool data_takes_port(const struct gate_request *request);

/* Functions of routes (gate/face.h) */

/** Begins a unary call for the sandbox that @request names: checks its token, collects the body. */
void data_begin(struct gate_request *request);
/** The same for a call that answers with a stream. */
void data_begin_stream(struct gate_request *request);
/** Begins an op of a REST route, without body and token: the act checks the client's rights. */
void data_begin_open(struct gate_request *request);
/** The same for an upload, whose body is read as it comes. */
void data_begin_upload(struct gate_request *request);

/** Finds the process that the body names by pid or tag: its row of session.list is op->row. */
void process_find(struct op *op);

/**
 * Whether the sandbox has @user, whose name may be empty. Otherwise the op has been answered: only
 * root_inside gives a root.
 */
bool data_user_fits(struct op *op, struct text user);
/** The user that the header Authorization names, in @buffer; empty: none. */
struct text data_user(const struct op *op, char buffer[static 64]);

/**
 * Writes the absolute path that a client means by @path, relative to the home of the user. Returns
 * false, and the op has been answered, if it is too long or has a NUL.
 */
bool data_path(struct op *op, struct text path, char ret_path[static 4097]);

/** Like data_path() for a directory that the body names and that is to be watched. */
bool watch_path(struct op *op, char ret_path[static 4097]);

/** The milliseconds of Connect-Timeout-Ms; 0: none. */
int64_t data_deadline(const struct op *op);
/** The milliseconds between keep-alives of a stream. */
int64_t data_keepalive(const struct op *op);

/* Handlers of routes. Handlers for one process run after process_find(). */
void process_list(struct op *op);
void process_start(struct op *op);
void process_connect(struct op *op);
void process_update(struct op *op);
void process_send_input(struct op *op);
void process_send_signal(struct op *op);
void process_close_stdin(struct op *op);
void filesystem_stat(struct op *op);
void filesystem_list(struct op *op);
void filesystem_make_dir(struct op *op);
void filesystem_move(struct op *op);
void filesystem_remove(struct op *op);
void filesystem_watch(struct op *op);
void filesystem_create_watcher(struct op *op);
void filesystem_get_watcher_events(struct op *op);
void filesystem_remove_watcher(struct op *op);
void file_download(struct op *op);
void file_upload(struct op *op);
void data_health(struct op *op);
