/* links: cloister-supervisor */
/* fakes: paths */
// SPDX-License-Identifier: Apache-2.0
/* Which ids the kernel reports for a client, and which role and tenant they give it. */
#include "supervisor/config/peer_auth.h"

#include "supervisor/config/config.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/paths.h"

/* What the kernel reports of the peer. */
static struct ucred ids;
static gid_t groups[8];
static size_t n_groups;
static int fails; /* an errno, for SO_PEERCRED or SO_PEERGROUPS */
static int failing_option;

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict size)
{
	assert_int_equal(fd, 77);
	assert_int_equal(level, SOL_SOCKET);
	if (name == failing_option) {
		errno = fails;
		return -1;
	}
	if (name == SO_PEERCRED) {
		assert_int_equal(*size, sizeof(ids));
		memcpy(value, &ids, sizeof(ids));
		return 0;
	}
	assert_int_equal(name, SO_PEERGROUPS);
	if (*size < n_groups * sizeof(gid_t)) {
		*size = (socklen_t)(n_groups * sizeof(gid_t));
		errno = ERANGE;
		return -1;
	}
	if (n_groups > 0)
		memcpy(value, groups, n_groups * sizeof(gid_t));
	return 0;
}

#define EVERYBODY "0 0 4294967295\n" /* no user namespace of our own */
#define SOME      "0 1000 1\n1 100000 65536\n"
#define NOBODY    ((uid_t)-1)

/* Which ids a peer has that our user namespace does not map. */
TEST(test_ids_without_a_name)
{
	static const struct {
		const char *uid_map, *gid_map, *overflow; /* NULL: there is no such file */
		uid_t uid, is_uid;
		gid_t gid, is_gid;
		size_t groups_left; /* of 5, 65534 and 7 */
	} rows[] = {
		{EVERYBODY, EVERYBODY, "65534\n", 1000, 1000, 1000, 1000, 3},
		/* If every id is mapped, 65534 is an ordinary user. */
		{EVERYBODY, EVERYBODY, "65534\n", 65534, 65534, 65534, 65534, 3},
		{SOME, SOME, "65534\n", 65534, NOBODY, 65534, NOBODY, 2},
		{SOME, EVERYBODY, "65534\n", 65534, NOBODY, 65534, 65534, 3},
		{SOME, SOME, "65534\n", 0, 0, 0, 0, 2},
		{SOME, SOME, "99\n", 99, NOBODY, 99, NOBODY, 3},
		{SOME, SOME, NULL, 65534, NOBODY, 65534, NOBODY, 2},
		{NULL, NULL, NULL, 65534, NOBODY, 65534, NOBODY, 2},
		{"", "", "", 65534, NOBODY, 65534, NOBODY, 2},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct peer_credentials peer;

		fake_path_set("/proc/self/uid_map", rows[i].uid_map);
		fake_path_set("/proc/self/gid_map", rows[i].gid_map);
		fake_path_set("/proc/sys/kernel/overflowuid", rows[i].overflow);
		fake_path_set("/proc/sys/kernel/overflowgid", rows[i].overflow);
		peer_auth_init();
		ids = (struct ucred){.pid = 12, .uid = rows[i].uid, .gid = rows[i].gid};
		memcpy(groups, (gid_t[]){5, 65534, 7}, 3 * sizeof(gid_t));
		n_groups = 3;
		assert_int_equal(peer_auth_read(77, &peer), 0);
		if (peer.uid != rows[i].is_uid || peer.gid != rows[i].is_gid ||
			peer.n_groups != rows[i].groups_left)
			fail_msg("row %zu: uid %u, gid %u, %zu groups", i, peer.uid, peer.gid,
				peer.n_groups);
		assert_int_equal(peer.pid, 12);
		assert_int_equal(peer.groups[0], 5);
		assert_int_equal(peer.groups[peer.n_groups - 1], 7);
		peer_credentials_done(&peer);
		assert_null(peer.groups);
	}
	fake_path_set(NULL, NULL);
}

TEST(test_what_the_kernel_does_not_say)
{
	static const int options[] = {SO_PEERCRED, SO_PEERGROUPS};
	struct peer_credentials peer = {.uid = 4};

	n_groups = 0;
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		failing_option = options[i];
		fails = ENOTCONN;
		assert_int_equal(peer_auth_read(77, &peer), -ENOTCONN);
		/* The output is unchanged. */
		assert_int_equal(peer.uid, 4);
	}
	failing_option = 0;
	assert_int_equal(peer_auth_read(77, &peer), 0);
	assert_int_equal(peer.n_groups, 0);
	peer_credentials_done(&peer);
}

TEST(test_roles)
{
	static uint32_t admins[] = {50, 52}, observers[] = {51, 52};
	static const struct {
		bool from_file, ourselves;
		gid_t gid, more; /* more: a supplementary group, or 0 */
		enum control_role role;
	} rows[] = {
		{true, false, 50, 0, CONTROL_ROLE_ADMIN},
		{true, false, 51, 0, CONTROL_ROLE_OBSERVER},
		{true, false, 52, 0, CONTROL_ROLE_ADMIN}, /* the higher of the two roles */
		{true, false, 53, 0, CONTROL_ROLE_NONE},
		{true, false, 53, 50, CONTROL_ROLE_ADMIN},
		{true, false, 53, 51, CONTROL_ROLE_OBSERVER},
		{true, false, 51, 50, CONTROL_ROLE_ADMIN},
		{true, true, 53, 0, CONTROL_ROLE_NONE}, /* only the file's groups count */
		{false, true, 53, 0, CONTROL_ROLE_ADMIN},
		{false, false, 53, 0, CONTROL_ROLE_NONE},
	};
	struct config *config = config_new();

	config->host.admin_groups = (struct id_list){admins, ARRAY_SIZE(admins)};
	config->host.observer_groups = (struct id_list){observers, ARRAY_SIZE(observers)};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		gid_t more = rows[i].more;
		const struct peer_credentials peer = {
			.uid = rows[i].ourselves ? geteuid() : geteuid() + 1,
			.gid = rows[i].gid,
			.groups = &more,
			.n_groups = more ? 1 : 0};

		config->from_file = rows[i].from_file;
		if (peer_auth_role(config, &peer) != rows[i].role)
			fail_msg("row %zu: %d", i, peer_auth_role(config, &peer));
	}
	config->host.admin_groups = config->host.observer_groups = (struct id_list){0};
	config_release(config);
}

/* The peer's tenant is the first one that admits it, in the configuration's order. */
TEST(test_the_first_tenant)
{
	static const struct {
		uid_t uid;
		gid_t gid;
		const char *tenant; /* NULL: none */
	} rows[] = {
		{1, 9, "one"},
		{2, 9, "one"},
		{3, 9, "two"},
		{4, 9, NULL},
		{4, 30, "two"},
		{NOBODY, (gid_t)-1, NULL},
	};
	struct tenant *one = tenant_new("one"), *two = tenant_new("two");
	struct config *config = config_new();
	uint32_t of_one[] = {1, 2}, of_two[] = {2, 3}, groups_of_two[] = {30};

	one->users = (struct id_list){of_one, 2};
	two->users = (struct id_list){of_two, 2};
	two->groups = (struct id_list){groups_of_two, 1};
	assert_int_equal(config_add_tenant(config, one), 0);
	assert_int_equal(config_add_tenant(config, two), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct peer_credentials peer = {.uid = rows[i].uid, .gid = rows[i].gid};
		const struct tenant *tenant = peer_auth_first(config, &peer);

		assert_int_equal(tenant != NULL, rows[i].tenant != NULL);
		if (tenant)
			assert_string_equal(tenant->name, rows[i].tenant);
	}
	one->users = two->users = two->groups = (struct id_list){0};
	config_release(config);
}
