/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The methods of files: file.stat and so on. Each answers @request, now or later. */

struct jsonrpc_request;
struct client;

void method_file_stat(struct client *client, struct jsonrpc_request *request);
void method_file_list(struct client *client, struct jsonrpc_request *request);
void method_file_make_directory(struct client *client, struct jsonrpc_request *request);
void method_file_move(struct client *client, struct jsonrpc_request *request);
void method_file_remove(struct client *client, struct jsonrpc_request *request);
void method_file_read(struct client *client, struct jsonrpc_request *request);
void method_file_write(struct client *client, struct jsonrpc_request *request);
void method_file_watch(struct client *client, struct jsonrpc_request *request);
