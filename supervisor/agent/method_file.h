/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The methods of files: file.stat and so on. Each answers @request, now or later. */

struct jsonrpc_request;
struct session;

void method_file_stat(struct session *session, struct jsonrpc_request *request);
void method_file_list(struct session *session, struct jsonrpc_request *request);
void method_file_make_directory(struct session *session, struct jsonrpc_request *request);
void method_file_move(struct session *session, struct jsonrpc_request *request);
void method_file_remove(struct session *session, struct jsonrpc_request *request);
void method_file_read(struct session *session, struct jsonrpc_request *request);
void method_file_write(struct session *session, struct jsonrpc_request *request);
