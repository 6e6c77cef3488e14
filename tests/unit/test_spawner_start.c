/* links: cloister-supervisor */
/* fakes: process id_range clock */
// SPDX-License-Identifier: Apache-2.0
/* cloisterd starts cloister-spawner, which the test plays: the first frames that it sends may be
 * right, wrong or missing. */
#include "supervisor/cell/spawner_link.h"

#include "tests/unit/fakes/id_range.h"

#include <time.h>

#include "tests/lib/spawner_fixture.h"
#include "tests/lib/unit.h"

/* Every wait with a timeout is over at once, as if the time had passed. */
static bool time_flies;

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L};

	if (time_flies)
		time = (struct timespec){0};
	return (int)syscall(SYS_ppoll, fds, n, timeout < 0 && !time_flies ? NULL : &time, NULL, 0);
}

TEST(test_starting)
{
	static const struct id_range range = {100000, 100000, 1000};
	static const struct {
		const char *name;
		uint8_t type; /* of the first frame; 0: none */
		bool fails;   /* the first frame has the payload of a failure */
		int error;
		bool system, dies;
		uint8_t second; /* of a second frame; 0: none */
		int mapped, result;
		const char *message;
	} rows[] = {
		{"ready", SPAWNER_READY, false, 0, false, false, 0, 0, 0, NULL},
		{"could not", SPAWNER_FAILED, true, EINVAL, false, false, 0, 0, -EINVAL,
			"cloister-spawner could not make namespaces: Invalid argument"},
		{"could not by policy", SPAWNER_FAILED, true, EPERM, false, false, 0, 0, -EPERM,
			"cloister-spawner could not make namespaces: Operation not permitted: "},
		{"failure without why", SPAWNER_FAILED, false, 0, false, false, 0, 0, -EBADMSG,
			NULL},
		{"another word", SPAWNER_OPENED, false, 0, false, false, 0, 0, -EBADMSG, NULL},
		{"silent", 0, false, 0, false, false, 0, 0, -ETIMEDOUT, NULL},
		{"dead", 0, false, 0, false, true, 0, 0, -EPIPE, NULL},
		{"wants ids in user mode", SPAWNER_UNSHARED, false, 0, false, false, 0, 0, -EBADMSG,
			NULL},
		{"wants no ids in system mode", SPAWNER_READY, false, 0, true, false, 0, 0,
			-EBADMSG, NULL},
		{"mapped", SPAWNER_UNSHARED, false, 0, true, false, SPAWNER_READY, 0, 0, NULL},
		{"mapped, then silent", SPAWNER_UNSHARED, false, 0, true, false, 0, 0, -ETIMEDOUT,
			NULL},
		{"mapped, then fails", SPAWNER_UNSHARED, false, 0, true, false, SPAWNER_OPENED, 0,
			-EBADMSG, NULL},
		{"cannot be mapped", SPAWNER_UNSHARED, false, 0, true, false, SPAWNER_READY, -EPERM,
			-EPERM, "the ids cannot be mapped"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *message = NULL;
		char words[512];
		size_t len = 0;
		int r;

		if (rows[i].type)
			len += put_frame(words, rows[i].type, 0,
				rows[i].fails ? failure("make namespaces", rows[i].error)
					      : nothing);
		if (rows[i].second)
			len += put_frame(words + len, rows[i].second, 0, nothing);
		spawner = (struct spawner){
			.first_words = words, .first_len = len, .dies = rows[i].dies};
		fake_id_range_mapped = rows[i].mapped;
		time_flies = true;
		r = start(rows[i].system ? &range : NULL, &message);
		time_flies = false;
		if (r != rows[i].result)
			fail_msg("%s: %d", rows[i].name, r);
		assert_int_equal(message != NULL, rows[i].message != NULL);
		if (message && rows[i].message &&
			strncmp(message, rows[i].message, strlen(rows[i].message)) != 0)
			fail_msg("%s: %s", rows[i].name, message);
		/* For EPERM, which a security policy may cause, the message also says what to do.
		 */
		assert_int_equal(
			message && rows[i].message && strlen(message) > strlen(rows[i].message),
			rows[i].error == EPERM);
		channel_done(&spawner.channel);
		if (r == 0)
			spawner_link_free(link_);
		assert_int_equal(waitpid(spawner.pid, NULL, WNOHANG), -1);
	}
}
