/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A body of multipart/form-data (RFC 7578, RFC 2046 section 5.1), read as it comes: of a part, only
 * its head is kept. A part ends only when the delimiter behind it has come.
 */

#include "common/text.h"

struct multipart;

struct multipart_events {
	/* A part begins; NULL: its head has no such name. */
	void (*begin)(void *context, const char *name, const char *filename);
	void (*data)(void *context, struct text data);
	void (*end)(void *context);
};

/** Returns whether the media type of @content_type, which may be NULL, is multipart/form-data. */
bool multipart_is_type(const char *content_type);

/** Returns 0, -EINVAL if @content_type has no usable boundary, or -ENOMEM. */
int multipart_new(const char *content_type, const struct multipart_events *events, void *context,
	struct multipart **ret);

/** Reads the next bytes of the body. Returns 0, -EBADMSG if they are no form, or -ENOMEM. */
int multipart_take(struct multipart *multipart, struct text data);

/** Returns whether the last delimiter has come. */
bool multipart_is_whole(const struct multipart *multipart);

/** NULL is allowed. */
void multipart_free(struct multipart *multipart);
