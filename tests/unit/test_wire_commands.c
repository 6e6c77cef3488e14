// SPDX-License-Identifier: Apache-2.0
/* Between cloisterd and the worker: what was encoded is decoded; cut or longer is refused. */
#include "common/wire/wire_commands.h"

#include "tests/lib/unit.h"
#include "tests/lib/wire_exact.h"

static int get_run(struct text payload)
{
	struct command_run message;

	return command_run_get(payload, &message);
}

static int get_held(struct text payload)
{
	struct command_held message;

	return command_held_get(payload, &message);
}

static int get_ended(struct text payload)
{
	struct command_ended message;

	return command_ended_get(payload, &message);
}

TEST(test_command_run)
{
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
	struct command_run in = {.command_len = 11,
				   .env_len = 22,
				   .cwd_len = 33,
				   .has_stdin = true,
				   .has_gate = true,
				   .limits = {LIMIT_MEMORY_MIN_BYTES, 1},
				   .input_wait_ms = 4,
				   .shell = COMMAND_SHELL_BASH,
				   .no_network = true,
				   .terminal = {24, 80},
				   .tells_cgroup = true},
			   out;

	command_run_put(&writer, &in);
	assert_int_equal(command_run_get(written(&writer), &out), 0);
	assert_int_equal(out.command_len, 11);
	assert_int_equal(out.env_len, 22);
	assert_int_equal(out.cwd_len, 33);
	assert_true(out.has_stdin && out.has_gate);
	assert_int_equal(command_run_fds(&out), COMMAND_FDS);
	assert_int_equal(command_run_fds(&(struct command_run){.has_gate = true}), 3);
	assert_int_equal(out.limits.memory_bytes, LIMIT_MEMORY_MIN_BYTES);
	assert_int_equal(out.limits.processes, 1);
	assert_int_equal(out.input_wait_ms, 4);
	assert_int_equal(out.shell, COMMAND_SHELL_BASH);
	assert_true(out.no_network);
	assert_int_equal(out.terminal.rows, 24);
	assert_int_equal(out.terminal.cols, 80);
	assert_true(out.tells_cgroup);
	check_exact(written(&writer), get_run);

	writer = wire_writer(bytes, sizeof(bytes));
	in.command_len = LIMIT_COMMAND_BYTES + 1;
	command_run_put(&writer, &in);
	assert_int_equal(get_run(written(&writer)), -EBADMSG);
	writer = wire_writer(bytes, sizeof(bytes));
	in.command_len = 1;
	in.env_len = LIMIT_COMMAND_ENV_BYTES + 1;
	command_run_put(&writer, &in);
	assert_int_equal(get_run(written(&writer)), -EBADMSG);
	writer = wire_writer(bytes, sizeof(bytes));
	in.env_len = 0;
	in.cwd_len = LIMIT_PATH_BYTES + 2;
	command_run_put(&writer, &in);
	assert_int_equal(get_run(written(&writer)), -EBADMSG);
	writer = wire_writer(bytes, sizeof(bytes));
	in.cwd_len = 0;
	in.limits.memory_bytes--;
	command_run_put(&writer, &in);
	assert_int_equal(get_run(written(&writer)), -EBADMSG);
	writer = wire_writer(bytes, sizeof(bytes));
	in.limits = (struct command_limits){LIMIT_MEMORY_MIN_BYTES, 0};
	command_run_put(&writer, &in);
	assert_int_equal(get_run(written(&writer)), -EBADMSG);
	writer = wire_writer(bytes, sizeof(bytes));
	in.limits.processes = 1;
	in.shell = COMMAND_SHELLS;
	command_run_put(&writer, &in);
	assert_int_equal(get_run(written(&writer)), -EBADMSG);
	writer = wire_writer(bytes, sizeof(bytes));
	in.shell = COMMAND_SHELL_SH;
	in.input_wait_ms = LIMIT_INPUT_WAIT_MAX_MS + 1;
	command_run_put(&writer, &in);
	assert_int_equal(get_run(written(&writer)), -EBADMSG);
}

static int get_resize(struct text payload)
{
	struct command_terminal message;

	return command_terminal_get(payload, &message);
}

/* A size is whole and bounded, and a terminal has input. */
TEST(test_terminals)
{
	static const struct {
		struct command_terminal terminal;
		bool has_stdin, runs, resizes;
	} rows[] = {
		{{0, 0}, false, true, false},
		{{0, 0}, true, true, false},
		{{1, 1}, true, true, true},
		{{LIMIT_TERMINAL_SIDE, LIMIT_TERMINAL_SIDE}, true, true, true},
		{{24, 80}, false, false, true},
		{{0, 80}, true, false, false},
		{{24, 0}, true, false, false},
		{{LIMIT_TERMINAL_SIDE + 1, 80}, true, false, false},
		{{24, LIMIT_TERMINAL_SIDE + 1}, true, false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct command_run run = {.has_stdin = rows[i].has_stdin,
			.limits = {LIMIT_MEMORY_MIN_BYTES, 1},
			.terminal = rows[i].terminal};
		struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);

		command_run_put(&writer, &run);
		assert_int_equal(get_run(written(&writer)), rows[i].runs ? 0 : -EBADMSG);
		writer = wire_writer(bytes, sizeof(bytes) - 1);
		command_terminal_put(&writer, &rows[i].terminal);
		assert_int_equal(get_resize(written(&writer)), rows[i].resizes ? 0 : -EBADMSG);
		if (rows[i].resizes)
			check_exact(written(&writer), get_resize);
	}
}

TEST(test_command_held)
{
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));
	struct command_held in = {.cgroup = UINT64_MAX}, out;

	command_held_put(&writer, &in);
	assert_int_equal(writer.len, COMMAND_HELD_SIZE);
	assert_int_equal(command_held_get(written(&writer), &out), 0);
	assert_true(out.cgroup == UINT64_MAX);
	check_exact(written(&writer), get_held);
	in.cgroup = 0;
	writer = wire_writer(bytes, sizeof(bytes));
	command_held_put(&writer, &in);
	assert_int_equal(get_held(written(&writer)), -EBADMSG);
}

static int get_pause(struct text payload)
{
	struct command_pause message;

	return command_pause_get(payload, &message);
}

static int get_paused(struct text payload)
{
	struct command_paused message;

	return command_paused_get(payload, &message);
}

TEST(test_command_pause)
{
	static const struct {
		uint32_t ms;
		int result;
	} rows[] = {{0, 0}, {1, 0}, {LIMIT_PAUSE_MAX_MS, 0}, {LIMIT_PAUSE_MAX_MS + 1, -EBADMSG},
		{UINT32_MAX, -EBADMSG}};
	struct wire_writer writer;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		writer = wire_writer(bytes, sizeof(bytes));
		command_pause_put(&writer, &(struct command_pause){.ms = rows[i].ms});
		assert_int_equal(get_pause(written(&writer)), rows[i].result);
		if (rows[i].result == 0)
			check_exact(written(&writer), get_pause);
	}
	for (uint8_t all = 0; all < 3; all++) {
		writer = wire_writer(bytes, sizeof(bytes));
		wire_put_u8(&writer, all);
		assert_int_equal(writer.len, COMMAND_PAUSED_SIZE);
		assert_int_equal(get_paused(written(&writer)), all < 2 ? 0 : -EBADMSG);
		if (all < 2)
			check_exact(written(&writer), get_paused);
	}
}

static int get_signal(struct text payload)
{
	struct command_signal message;

	return command_signal_get(payload, &message);
}

TEST(test_command_signal)
{
	static const uint8_t sent[] = {SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGUSR1, SIGUSR2, SIGTERM};

	for (unsigned number = 0; number <= UINT8_MAX; number++) {
		struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
		bool good = memchr(sent, (int)number, sizeof(sent));

		command_signal_put(
			&writer, &(struct command_signal){(uint8_t)number, number % 2 == 0});
		assert_int_equal(get_signal(written(&writer)), good ? 0 : -EBADMSG);
		if (good)
			check_exact(written(&writer), get_signal);
	}
}

TEST(test_command_ended)
{
	/* Stopped, stopped by a tracer, continued, and values that wait(2) never returns. */
	const uint32_t no_ends[] = {0x137f, 0x4057f, 0xffff, 0x10000, UINT32_MAX};
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes) - 1);
	struct command_ended in = {COMMAND_END_TERMINATED, 1, 2, 3, 4, 5,
				     {true, true, 6, 7, 8, 9, 10}, 11, true, true},
			     out;

	command_ended_put(&writer, &in);
	assert_int_equal(writer.len, COMMAND_ENDED_SIZE);
	assert_int_equal(command_ended_get(written(&writer), &out), 0);
	assert_int_equal(out.end, COMMAND_END_TERMINATED);
	assert_int_equal(out.wait_status, 1);
	assert_int_equal(out.launch_error, 2);
	assert_int_equal(out.user_us, 3);
	assert_int_equal(out.system_us, 4);
	assert_int_equal(out.max_rss_bytes, 5);
	assert_true(out.cgroup.has_memory_peak);
	assert_true(out.cgroup.has_io);
	assert_int_equal(out.cgroup.memory_peak_bytes, 6);
	assert_int_equal(out.cgroup.io_read_bytes, 7);
	assert_int_equal(out.cgroup.io_write_bytes, 8);
	assert_int_equal(out.cgroup.oom_kills, 9);
	assert_int_equal(out.cgroup.refused_forks, 10);
	assert_int_equal(out.left_over, 11);
	assert_true(out.network_tried);
	assert_true(out.disk_full);
	check_exact(written(&writer), get_ended);

	writer = wire_writer(bytes, sizeof(bytes));
	in.end = COMMAND_END_COUNT;
	command_ended_put(&writer, &in);
	assert_int_equal(get_ended(written(&writer)), -EBADMSG);
	in.end = COMMAND_END_EXIT;
	for (size_t i = 0; i < ARRAY_SIZE(no_ends); i++) {
		writer = wire_writer(bytes, sizeof(bytes));
		in.wait_status = no_ends[i];
		command_ended_put(&writer, &in);
		assert_int_equal(get_ended(written(&writer)), -EBADMSG);
	}
}
