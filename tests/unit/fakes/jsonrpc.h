/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lines of JSON-RPC for tables of exchanges (service.h). */

/* clang-format off */
#define REQUEST(id, method, params) \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":" params "}"
#define NOTIFICATION(method, params) \
	"{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":" params "}"
#define RESULT(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":" result "}"
#define ERROR(id, code, rest) \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":" code "," rest "}}"
/* The members of a JSON-RPC error after its code, with @name as data.code. */
#define NAMED(name) "\"message\":\"*\",\"data\":{\"code\":\"" name "\"*}"
/* clang-format on */
