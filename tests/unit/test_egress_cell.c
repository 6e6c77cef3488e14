/* links: cloister-supervisor */
/* fakes: egress helper_process fd_closer clock */
// SPDX-License-Identifier: Apache-2.0
/* The cells that have a network and the calls in them, as a cloister-egress that the test plays is
 * told of them. test_network_use.c has the addresses of calls. */
#include "supervisor/workspace/network/egress_cell.h"

#include "common/wire/wire_spawner.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/egress.h"

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#define FDS_MOST 512

static struct ending {
	unsigned times;
	void *context; /* of the last */
} ending;

static void on_ended(void *context)
{
	ending.times++;
	ending.context = context;
}

static struct network_use new_use(void)
{
	ending = (struct ending){0};
	return (struct network_use){.ended = on_ended};
}

/* Takes the next frame, which has to be EGRESS_CALL of @cell. */
static struct egress_call expect_call(uint64_t cell)
{
	struct channel_frame frame;
	struct egress_call call;

	assert_true(fake_egress_hear(&frame));
	assert_int_equal(frame.type, EGRESS_CALL);
	assert_int_equal(frame.call, cell);
	assert_int_equal(frame.n_fds, 0);
	assert_int_equal(egress_call_get(frame.payload, &call), 0);
	return call;
}

/* Takes all frames. Returns how many of them end the call @number of the cell 1. */
static unsigned hear_call_ends(uint64_t number)
{
	struct channel_frame frame;
	unsigned n = 0;

	while (fake_egress_hear(&frame)) {
		struct egress_call_end message = {0};

		if (frame.type == EGRESS_CALL_END) {
			assert_int_equal(egress_call_end_get(frame.payload, &message), 0);
			n += frame.call == 1 && message.call == number;
		}
		channel_frame_done(&frame);
	}
	return n;
}

static bool is_same_file(int a, int b)
{
	struct stat one, other;

	assert_int_equal(fstat(a, &one), 0);
	assert_int_equal(fstat(b, &other), 0);
	return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static char *repeat(const char *part, size_t n)
{
	char *text = calloc(n, strlen(part) + 1);

	for (size_t i = 0; i < n; i++)
		strcat(text, part);
	return text;
}

FIXTURE(fake_egress_set_up_system, fake_egress_tear_down)

/* Whose it is, what it is narrowed to, and which descriptor is which socket. */
TEST(test_what_is_told_of_a_cell)
{
	static const struct {
		const char *tenant;
		size_t tenant_times, tenant_bytes; /* how often, and what is told of it */
		const char *workspace;
		size_t workspace_times, workspace_bytes;
		const char *allow; /* NULL: it is not narrowed */
		unsigned n_sockets;
		uint8_t sockets;
	} rows[] = {
		{"t", 1, 1, "w", 1, 1, NULL, CELL_SOCKETS_EGRESS, EGRESS_SOCKETS_ALL},
		{"t", 1, 1, "w", 1, 1, NULL, CELL_SOCKETS_LEAST, EGRESS_SOCKETS_ALL - EGRESS_DIAG},
		/* Narrowed to nothing is not the same as not narrowed. */
		{"t", 1, 1, "w", 1, 1, "", CELL_SOCKETS_LEAST, EGRESS_SOCKETS_ALL - EGRESS_DIAG},
		{"t", 1, 1, "/a/b", 1, 4, "a.test b.test", CELL_SOCKETS_EGRESS, EGRESS_SOCKETS_ALL},
		/* A longer name is cut, and not within a character. */
		{"x", LIMIT_CONFIG_NAME_BYTES, LIMIT_CONFIG_NAME_BYTES, "y", LIMIT_NAME_BYTES,
			LIMIT_NAME_BYTES, NULL, CELL_SOCKETS_EGRESS, EGRESS_SOCKETS_ALL},
		{"x", LIMIT_CONFIG_NAME_BYTES + 1, LIMIT_CONFIG_NAME_BYTES, "y",
			LIMIT_NAME_BYTES + 1, LIMIT_NAME_BYTES, NULL, CELL_SOCKETS_EGRESS,
			EGRESS_SOCKETS_ALL},
		{"\xe2\x82\xac", 100, LIMIT_CONFIG_NAME_BYTES / 3 * 3, "\xc3\xa9", 1000,
			LIMIT_NAME_BYTES / 2 * 2, NULL, CELL_SOCKETS_EGRESS, EGRESS_SOCKETS_ALL},
	};

	fake_egress_ready();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *tenant = repeat(rows[i].tenant, rows[i].tenant_times);
		_cleanup_free_ char *workspace = repeat(rows[i].workspace, rows[i].workspace_times);
		int sockets[CELL_SOCKETS_EGRESS] = {-1, -1, -1, -1, -1, -1},
		    kept[ARRAY_SIZE(sockets)];
		struct egress_cell *cell;
		struct channel_frame frame;
		struct egress_open told;

		for (unsigned j = 0; j < rows[i].n_sockets; j++) {
			int ends[2];

			assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
			sockets[j] = ends[0];
			kept[j] = ends[1];
		}
		cell = egress_cell_new(egress.link,
			&(struct egress_cell_words){tenant, workspace, rows[i].allow, NULL, NULL},
			sockets);
		assert_string_equal(egress_cell_tenant(cell), tenant);
		assert_string_equal(egress_cell_workspace(cell), workspace);
		fake_egress_run();
		assert_true(fake_egress_hear(&frame));
		assert_int_equal(frame.type, EGRESS_OPEN);
		assert_int_equal(frame.call, i + 1);
		assert_int_equal(egress_open_get(frame.payload, &told), 0);
		assert_true(text_equal(told.tenant, (struct text){tenant, rows[i].tenant_bytes}));
		assert_true(text_equal(
			told.workspace, (struct text){workspace, rows[i].workspace_bytes}));
		assert_int_equal(told.is_narrowed, rows[i].allow != NULL);
		assert_true(text_equal(told.allow, text_from(rows[i].allow ? rows[i].allow : "")));
		assert_int_equal(told.sockets, rows[i].sockets);
		assert_int_equal(frame.n_fds, rows[i].n_sockets);
		for (unsigned j = 0; j < frame.n_fds; j++) {
			assert_true(is_same_file(frame.fds[j], kept[j]));
			assert_int_not_equal(frame.fds[j], sockets[j]);
			close(kept[j]);
		}
		channel_frame_done(&frame);
		egress_cell_end(cell);
		fake_egress_run();
		fake_egress_expect(EGRESS_CLOSE, i + 1, 0);
	}
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < FDS_MOST; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Of a cell that cannot be told as it is, nothing is told: it has no network, and others have. */
TEST(test_what_cannot_be_told)
{
	_cleanup_free_ char *long_rules = repeat("a.test ", WIRE_PAYLOAD_MAX / 7 + 1);
	struct fake_egress_cell cell;
	struct network_use use = new_use();

	fake_egress_ready();
	cell = fake_egress_cell_new(long_rules, CELL_SOCKETS_EGRESS);
	assert_true(fake_egress_cell_is_closed(&cell));
	egress_use_begin(cell.cell, &use, 1);
	assert_false(egress_use_end(&use));
	fake_egress_cell_end(&cell);
	fake_egress_run();
	fake_egress_expect_nothing();
	cell = fake_egress_cell_new("a.test", CELL_SOCKETS_EGRESS);
	fake_egress_run();
	fake_egress_expect(EGRESS_OPEN, 2, CELL_SOCKETS_EGRESS);
	assert_false(fake_egress_cell_is_closed(&cell));
	fake_egress_cell_end(&cell);
	assert_int_equal(ending.times, 0);
}

/* Descriptors are out for some of the duplicates: none of them stays open. */
TEST(test_no_descriptors_for_duplicates)
{
	struct fake_egress_cell cell;
	struct rlimit limit;
	unsigned before;
	int highest;

	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = count_descriptors();
	/* Fills all gaps but three. */
	highest = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)highest + 3, limit.rlim_max}), 0);
	close(highest);
	fake_egress_put(EGRESS_READY, 0, (struct text){"\0\0\0\0", 4});
	fake_egress_run();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(egress_link_is_ready(egress.link));
	fake_egress_expect_nothing();
	assert_true(fake_egress_cell_is_closed(&cell));
	assert_int_equal(count_descriptors(), before - CELL_SOCKETS_EGRESS);
	fake_egress_cell_end(&cell);
}

/* Calls that began before cloister-egress was ready are told with the cell; later ones at once. */
TEST(test_calls_are_told)
{
	struct network_use first = new_use(), second = new_use(), third = new_use();
	struct fake_egress_cell cell;
	struct egress_call call;

	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	egress_use_begin(cell.cell, &first, 7);
	egress_use_begin(cell.cell, &second, UINT64_MAX);
	egress_use_cgroup(&second, 99);
	fake_egress_run();
	fake_egress_expect_nothing();
	fake_egress_ready();
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	call = expect_call(1);
	assert_true(call.call == UINT64_MAX && call.cgroup == 99 && call.address == second.address);
	call = expect_call(1);
	assert_true(call.call == 7 && call.cgroup == 0 && call.address == first.address);
	/* Its cgroup is told a second time, before its first process is. */
	egress_use_begin(cell.cell, &third, 8);
	egress_use_cgroup(&third, 100);
	fake_egress_run();
	call = expect_call(1);
	assert_true(call.call == 8 && call.cgroup == 0 && call.address == third.address);
	call = expect_call(1);
	assert_true(call.call == 8 && call.cgroup == 100 && call.address == third.address);
	assert_true(first.address != second.address && second.address != third.address);
	assert_ptr_equal(egress_cell_use(cell.cell, 7), &first);
	assert_ptr_equal(egress_cell_use(cell.cell, UINT64_MAX), &second);
	assert_null(egress_cell_use(cell.cell, 9));
	fake_egress_expect_nothing();
	fake_egress_cell_end(&cell);
}

/* Whether the end of a call waits for cloister-egress, and whether that is told of it. */
TEST_WITH(test_the_end_of_a_call, NULL, NULL)
{
	enum cell { UNKNOWN, TOLD, REFUSED };
	enum how { END, FORGET, END_AND_FORGET };
	static const struct {
		uint8_t cell, how;
		bool waits;
		unsigned told;
	} rows[] = {
		{UNKNOWN, END, false, 0},
		{UNKNOWN, FORGET, false, 0},
		{TOLD, END, true, 1},
		{TOLD, FORGET, false, 1},
		{TOLD, END_AND_FORGET, false, 1},
		{REFUSED, END, false, 0},
		{REFUSED, FORGET, false, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct network_use use = new_use(), other = new_use();
		struct fake_egress_cell cell;

		fake_egress_begin(FAKE_EGRESS_SYSTEM);
		if (rows[i].cell != UNKNOWN)
			fake_egress_ready();
		cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
		if (rows[i].cell == REFUSED)
			fake_egress_say(EGRESS_OPEN_FAILED, 1, fake_egress_open_failed("no"));
		use.context = &use;
		egress_use_begin(cell.cell, &use, 7);
		egress_use_begin(cell.cell, &other, 6);
		if (rows[i].how != FORGET)
			assert_int_equal(egress_use_end(&use), rows[i].cell == TOLD);
		if (rows[i].how != END)
			egress_use_forget(&use);
		fake_egress_run();
		if (hear_call_ends(7) != rows[i].told)
			fail_msg("row %zu: its end is not told %u times", i, rows[i].told);
		assert_int_equal(ending.times, 0);
		assert_ptr_equal(use.cell, rows[i].waits ? cell.cell : NULL);
		assert_ptr_equal(egress_cell_use(cell.cell, 6), &other);
		if (rows[i].cell == TOLD)
			fake_egress_say(EGRESS_CALL_ENDED, 1, fake_egress_call_ended(7));
		assert_int_equal(ending.times, rows[i].waits);
		assert_int_equal(use.is_summed, rows[i].waits);
		assert_null(use.cell);
		if (rows[i].waits)
			assert_ptr_equal(ending.context, &use);
		/* Nothing comes of a second end. */
		assert_false(egress_use_end(&use));
		egress_use_forget(&use);
		egress_use_cgroup(&use, 1);
		fake_egress_run();
		assert_int_equal(hear_call_ends(7), 0);
		fake_egress_cell_end(&cell);
		assert_null(other.cell);
		fake_egress_end();
	}
}

/* A cell ends: whoever waits for the end of a call is told, unless cloisterd ends too. */
TEST_WITH(test_the_end_of_a_cell, NULL, NULL)
{
	for (int frees = 0; frees <= 1; frees++) {
		struct network_use waiting = new_use(), running = new_use(), other = new_use();
		struct fake_egress_cell cell, next;

		fake_egress_begin(FAKE_EGRESS_SYSTEM);
		fake_egress_ready();
		cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
		next = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
		waiting.context = &waiting;
		egress_use_begin(cell.cell, &running, 6);
		egress_use_begin(cell.cell, &waiting, 7);
		egress_use_begin(next.cell, &other, 7);
		assert_true(egress_use_end(&waiting));
		assert_true(egress_use_end(&other));
		fake_egress_run();
		assert_int_equal(hear_call_ends(7), 1);
		if (frees)
			egress_cell_free(cell.cell);
		else
			egress_cell_end(cell.cell);
		cell.cell = NULL;
		assert_int_equal(ending.times, !frees);
		assert_ptr_equal(ending.context, frees ? NULL : &waiting);
		assert_null(waiting.cell);
		assert_null(running.cell);
		assert_ptr_equal(other.cell, next.cell);
		fake_egress_run();
		fake_egress_expect(EGRESS_CLOSE, 1, 0);
		fake_egress_expect_nothing();
		assert_true(fake_egress_cell_is_closed(&cell));
		assert_false(fake_egress_cell_is_closed(&next));
		fake_egress_cell_end(&cell);
		fake_egress_cell_end(&next);
		fake_egress_end();
	}
}

/* cloister-egress is not told of the end of a cell that it does not know. */
TEST(test_the_end_of_an_unknown_cell)
{
	struct fake_egress_cell cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);

	fake_egress_cell_end(&cell);
	fake_egress_ready();
	fake_egress_expect_nothing();
	egress_cell_end(NULL);
	egress_cell_free(NULL);
}

/* The port of the proxy is that of its socket; a call is told it. */
TEST(test_the_port_of_the_proxy)
{
	const struct egress_cell_words words = {.tenant = "t", .workspace = "w"};
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	int sockets[CELL_SOCKETS_EGRESS] = {-1, -1, -1, -1, -1, -1};
	struct network_use use = new_use();
	struct egress_cell *cell;

	for (unsigned i = 0; i < CELL_SOCKETS_LEAST; i++)
		sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(
		bind(sockets[CELL_SOCKET_PROXY], (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(
		getsockname(sockets[CELL_SOCKET_PROXY], (struct sockaddr *)&address, &size), 0);
	assert_true(address.sin_port != 0);
	cell = egress_cell_new(egress.link, &words, sockets);
	egress_use_begin(cell, &use, 1);
	assert_int_equal(egress_cell_port(cell), ntohs(address.sin_port));
	assert_int_equal(use.port, ntohs(address.sin_port));
	egress_cell_end(cell);
}
