/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libcurl on the gate's loop: HTTP/1.1 over sockets that are connected already. Each transfer
 * has a new socket.
 */

#include <curl/curl.h>
#include <stdbool.h>

struct gate;
struct http_loop;

struct http_transfer {
	CURL *easy;
	void (*progressed)(struct http_transfer *transfer); /* outside of libcurl's callbacks */
	void (*done)(struct http_transfer *transfer, CURLcode result);
	struct http_transfer *next; /* the loop's */
	bool is_listed;
};

/** Makes the loop, before the gate is confined. Returns 0 or -ENOMEM. */
int http_loop_new(struct gate *gate);

/** Makes the handle of @transfer for *@fd, which stays the caller's. Returns 0 or -ENOMEM. */
int http_transfer_open(struct http_transfer *transfer, const int *fd);
/** Begins; done() is called once, unless it is closed before. */
int http_transfer_begin(struct gate *gate, struct http_transfer *transfer);
/** Has progressed() called soon. Callbacks of libcurl may call this. */
void http_transfer_tell(struct gate *gate, struct http_transfer *transfer);
/** Ends it, without a call of done(). Not within a callback of libcurl. */
void http_transfer_close(struct gate *gate, struct http_transfer *transfer);
