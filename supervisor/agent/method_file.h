/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct jsonrpc_request;
struct client;

/** The methods of files, file.stat and so on (file_methods). Answers @request, now or later. */
void method_file(struct client *client, struct jsonrpc_request *request);
