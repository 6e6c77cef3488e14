// SPDX-License-Identifier: Apache-2.0
/* Every get function checks the whole payload. It returns 0, or -EBADMSG with @ret untouched. */
#include "common/wire/wire_commands.h"

#include "common/limits.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>

static struct command_terminal get_terminal(struct wire_reader *reader)
{
	struct command_terminal terminal;

	terminal.rows = wire_get_u32(reader);
	terminal.cols = wire_get_u32(reader);
	return terminal;
}

static bool is_size(const struct command_terminal *terminal)
{
	return terminal->rows > 0 && terminal->rows <= LIMIT_TERMINAL_SIDE && terminal->cols > 0 &&
	       terminal->cols <= LIMIT_TERMINAL_SIDE;
}

/* A terminal has input. */
static bool is_terminal(const struct command_run *message)
{
	const struct command_terminal *terminal = &message->terminal;

	return (terminal->rows == 0 && terminal->cols == 0) ||
	       (message->has_stdin && is_size(terminal));
}

void command_run_put(struct wire_writer *writer, const struct command_run *message)
{
	wire_put_u32(writer, message->command_len);
	wire_put_u32(writer, message->env_len);
	wire_put_u32(writer, message->cwd_len);
	wire_put_u8(writer, message->has_stdin);
	wire_put_u8(writer, message->has_gate);
	wire_put_u64(writer, message->limits.memory_bytes);
	wire_put_u32(writer, message->limits.processes);
	wire_put_u32(writer, message->input_wait_ms);
	wire_put_u8(writer, message->shell);
	wire_put_u8(writer, message->no_network);
	command_resize_put(writer, &message->terminal);
	wire_put_u8(writer, message->disk);
	wire_put_u8(writer, message->tells_cgroup);
}

unsigned command_run_fds(const struct command_run *message)
{
	return COMMAND_FD_STDIN + (message->has_stdin ? 1 : 0) + (message->has_gate ? 1 : 0);
}

int command_run_get(struct text payload, struct command_run *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_run message;

	message.command_len = wire_get_u32(&reader);
	message.env_len = wire_get_u32(&reader);
	message.cwd_len = wire_get_u32(&reader);
	message.has_stdin = wire_get_bool(&reader);
	message.has_gate = wire_get_bool(&reader);
	message.limits.memory_bytes = wire_get_u64(&reader);
	message.limits.processes = wire_get_u32(&reader);
	message.input_wait_ms = wire_get_u32(&reader);
	message.shell = wire_get_u8(&reader);
	message.no_network = wire_get_bool(&reader);
	message.terminal = get_terminal(&reader);
	message.disk = wire_get_u8(&reader);
	message.tells_cgroup = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0 || message.command_len > LIMIT_COMMAND_BYTES ||
		message.env_len > LIMIT_COMMAND_ENV_BYTES ||
		message.cwd_len > LIMIT_PATH_BYTES + 1 ||
		message.limits.memory_bytes < LIMIT_MEMORY_MIN_BYTES ||
		message.limits.processes == 0 || message.input_wait_ms > LIMIT_INPUT_WAIT_MAX_MS ||
		message.shell >= COMMAND_SHELLS || message.disk >= COMMAND_DISKS ||
		!is_terminal(&message))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void command_held_put(struct wire_writer *writer, const struct command_held *message)
{
	wire_put_u64(writer, message->cgroup);
}

int command_held_get(struct text payload, struct command_held *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_held message = {.cgroup = wire_get_u64(&reader)};

	if (wire_reader_end(&reader) < 0 || message.cgroup == 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void command_forward_put(struct wire_writer *writer, const struct command_forward *message)
{
	wire_put_u32(writer, message->port);
	wire_put_u8(writer, message->ipv6);
	wire_put_u32(writer, message->idle_ms);
}

int command_forward_get(struct text payload, struct command_forward *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_forward message;
	uint32_t port = wire_get_u32(&reader);

	message.port = (uint16_t)port;
	message.ipv6 = wire_get_bool(&reader);
	message.idle_ms = wire_get_u32(&reader);
	if (wire_reader_end(&reader) < 0 || port == 0 || port > UINT16_MAX ||
		message.idle_ms == 0 || message.idle_ms > LIMIT_FORWARD_IDLE_MS)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void command_resize_put(struct wire_writer *writer, const struct command_terminal *message)
{
	wire_put_u32(writer, message->rows);
	wire_put_u32(writer, message->cols);
}

int command_resize_get(struct text payload, struct command_terminal *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_terminal message = get_terminal(&reader);

	if (wire_reader_end(&reader) < 0 || !is_size(&message))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void command_signal_put(struct wire_writer *writer, const struct command_signal *message)
{
	wire_put_u8(writer, message->number);
	wire_put_u8(writer, message->foreground);
}

int command_signal_get(struct text payload, struct command_signal *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_signal message;

	message.number = wire_get_u8(&reader);
	message.foreground = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	switch (message.number) {
	case SIGHUP:
	case SIGINT:
	case SIGQUIT:
	case SIGKILL:
	case SIGUSR1:
	case SIGUSR2:
	case SIGTERM:
		*ret = message;
		return 0;
	default:
		return -EBADMSG;
	}
}

void command_pause_put(struct wire_writer *writer, const struct command_pause *message)
{
	wire_put_u32(writer, message->ms);
}

int command_pause_get(struct text payload, struct command_pause *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_pause message = {.ms = wire_get_u32(&reader)};

	if (wire_reader_end(&reader) < 0 || message.ms > LIMIT_PAUSE_MAX_MS)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void command_paused_put(struct wire_writer *writer, const struct command_paused *message)
{
	wire_put_u8(writer, message->all);
}

int command_paused_get(struct text payload, struct command_paused *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_paused message = {.all = wire_get_bool(&reader)};

	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

static void put_cgroup_usage(struct wire_writer *writer, const struct command_cgroup_usage *usage)
{
	wire_put_u8(writer, usage->has_memory_peak);
	wire_put_u8(writer, usage->has_io);
	wire_put_u64(writer, usage->memory_peak_bytes);
	wire_put_u64(writer, usage->io_read_bytes);
	wire_put_u64(writer, usage->io_write_bytes);
	wire_put_u64(writer, usage->oom_kills);
	wire_put_u64(writer, usage->refused_forks);
}

static struct command_cgroup_usage get_cgroup_usage(struct wire_reader *reader)
{
	struct command_cgroup_usage usage;

	usage.has_memory_peak = wire_get_bool(reader);
	usage.has_io = wire_get_bool(reader);
	usage.memory_peak_bytes = wire_get_u64(reader);
	usage.io_read_bytes = wire_get_u64(reader);
	usage.io_write_bytes = wire_get_u64(reader);
	usage.oom_kills = wire_get_u64(reader);
	usage.refused_forks = wire_get_u64(reader);
	return usage;
}

void command_ended_put(struct wire_writer *writer, const struct command_ended *message)
{
	wire_put_u8(writer, message->end);
	wire_put_u32(writer, message->wait_status);
	wire_put_u32(writer, message->launch_error);
	wire_put_u64(writer, message->user_us);
	wire_put_u64(writer, message->system_us);
	wire_put_u64(writer, message->max_rss_bytes);
	put_cgroup_usage(writer, &message->cgroup);
	wire_put_u32(writer, message->left_over);
	wire_put_u8(writer, message->network_tried);
	wire_put_u8(writer, message->disk_full);
}

/* Whether @wait_status, from wait(2), means that the process has ended, not that it has stopped. */
static bool is_end(uint32_t wait_status)
{
	int status = (int)wait_status;

	return wait_status <= UINT16_MAX && (WIFEXITED(status) || WIFSIGNALED(status));
}

int command_ended_get(struct text payload, struct command_ended *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_ended message;

	message.end = wire_get_u8(&reader);
	message.wait_status = wire_get_u32(&reader);
	message.launch_error = wire_get_u32(&reader);
	message.user_us = wire_get_u64(&reader);
	message.system_us = wire_get_u64(&reader);
	message.max_rss_bytes = wire_get_u64(&reader);
	message.cgroup = get_cgroup_usage(&reader);
	message.left_over = wire_get_u32(&reader);
	message.network_tried = wire_get_bool(&reader);
	message.disk_full = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0 || message.end >= COMMAND_END_COUNT ||
		!is_end(message.wait_status))
		return -EBADMSG;
	*ret = message;
	return 0;
}
