/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/e2b/e2b_error.h"
#include "tests/lib/unit.h"

TEST(test_each_error_has_a_status_and_a_code)
{
	for (int error = CLOISTER_ERROR_NONE; error <= CLOISTER_ERROR_LEASE_ENDED; error++) {
		struct e2b_error e2b = e2b_error_of((enum cloister_error)error);

		assert_in_range(e2b.status, 400, 599);
		assert_non_null(e2b.code);
		assert_in_range(e2b_error_connect_status(e2b.code), 400, 599);
	}
	assert_string_equal(e2b_error_of((enum cloister_error)9999).code, "internal");
	assert_string_equal(e2b_error_of((enum cloister_error) - 1).code, "internal");
	assert_int_equal(e2b_error_connect_status("not_found"), 404);
	assert_int_equal(e2b_error_connect_status("no such code"), 500);
}

/* The clients speak of the sandbox's timeout where they read these. */
TEST(test_a_sandbox_that_is_gone)
{
	assert_int_equal(e2b_error_of(CLOISTER_ERROR_WORKSPACE_NOT_FOUND).status, 502);
	assert_string_equal(e2b_error_of(CLOISTER_ERROR_WORKSPACE_NOT_FOUND).code, "unavailable");
	assert_int_equal(e2b_error_of(CLOISTER_ERROR_LEASE_ENDED).status, 502);
}
