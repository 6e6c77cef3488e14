/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * queue(3) for objects that are sometimes in a list, and never in two. The entry of an object in no
 * list is zero. Linking asserts that the object is in no list, and unlinking that it is in one.
 */

#include <assert.h>
#include <stddef.h>
#include <sys/queue.h>

#define LIST_LINK_HEAD(head, element, field)              \
	do {                                              \
		assert(!(element)->field.le_prev);        \
		LIST_INSERT_HEAD((head), element, field); \
	} while (0)

#define LIST_UNLINK(element, field)               \
	do {                                      \
		assert((element)->field.le_prev); \
		LIST_REMOVE((element), field);    \
		(element)->field.le_prev = NULL;  \
	} while (0)

#define TAILQ_LINK_HEAD(head, element, field)                \
	do {                                                 \
		assert(!(element)->field.tqe_prev);          \
		TAILQ_INSERT_HEAD((head), (element), field); \
	} while (0)

#define TAILQ_LINK_TAIL(head, element, field)                \
	do {                                                 \
		assert(!(element)->field.tqe_prev);          \
		TAILQ_INSERT_TAIL((head), (element), field); \
	} while (0)

#define TAILQ_UNLINK(head, element, field)              \
	do {                                            \
		assert((element)->field.tqe_prev);      \
		TAILQ_REMOVE((head), (element), field); \
		(element)->field.tqe_prev = NULL;       \
	} while (0)
