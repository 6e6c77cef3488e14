/* links: cloister-spawner-core */
// SPDX-License-Identifier: Apache-2.0
/* Lookers are children of the spawner. They answer, and none is left when the spawner ends. */
#include "worker/spawner/looker.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#define LOOK_UPS 2

static void count(void *context, int error, struct place *place)
{
	(void)error;
	(void)place;
	++*(int *)context;
}

static void test_none_is_left(void **state)
{
	struct lookers lookers;
	int answered = 0, root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct look_request request = {LOOK_UP, false, false, root, "default", "tmp", ""};

	(void)state;
	lookers_init(&lookers);
	for (int i = 0; i < LOOK_UPS; i++)
		assert_int_equal(lookers_ask(&lookers, &request, count, &answered), 0);
	while (answered < LOOK_UPS) {
		static struct pollfd fds[LIMIT_LOOKERS];
		int timeout_ms;
		size_t n;

		lookers_serve(&lookers);
		n = lookers_poll(&lookers, fds, &timeout_ms);
		if (answered < LOOK_UPS)
			assert_int_not_equal(poll(fds, n, timeout_ms), -1);
	}
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
	lookers_end(&lookers);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	close(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
