// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire_commands.h"

#include "common/limits.h"

#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>

static void terminal_fields(struct wire_codec *codec, struct command_terminal *terminal)
{
	wire_u32(codec, &terminal->rows);
	wire_u32(codec, &terminal->cols);
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

unsigned command_run_fds(const struct command_run *message)
{
	return COMMAND_FD_STDIN + (message->has_stdin ? 1 : 0) + (message->has_gate ? 1 : 0);
}

WIRE_CODEC(command_run)
{
	wire_u32(codec, &message->command_len);
	wire_u32(codec, &message->env_len);
	wire_u32(codec, &message->cwd_len);
	wire_bool(codec, &message->has_stdin);
	wire_bool(codec, &message->has_gate);
	wire_u64(codec, &message->limits.memory_bytes);
	wire_u32(codec, &message->limits.processes);
	wire_u32(codec, &message->input_wait_ms);
	wire_u8(codec, &message->shell);
	wire_bool(codec, &message->no_network);
	terminal_fields(codec, &message->terminal);
	wire_u8(codec, &message->disk);
	wire_bool(codec, &message->tells_cgroup);
	wire_refuse_if(codec, message->command_len > LIMIT_COMMAND_BYTES ||
				      message->env_len > LIMIT_COMMAND_ENV_BYTES ||
				      message->cwd_len > LIMIT_PATH_BYTES + 1 ||
				      message->limits.memory_bytes < LIMIT_MEMORY_MIN_BYTES ||
				      message->limits.processes == 0 ||
				      message->input_wait_ms > LIMIT_INPUT_WAIT_MAX_MS ||
				      message->shell >= COMMAND_SHELLS ||
				      message->disk >= COMMAND_DISKS || !is_terminal(message));
}

WIRE_CODEC(command_held)
{
	wire_u64(codec, &message->cgroup);
	wire_refuse_if(codec, message->cgroup == 0);
}

WIRE_CODEC(command_forward)
{
	wire_u16(codec, &message->port);
	wire_bool(codec, &message->ipv6);
	wire_u32(codec, &message->idle_ms);
	wire_refuse_if(codec, message->port == 0 || message->idle_ms == 0 ||
				      message->idle_ms > LIMIT_FORWARD_IDLE_MS);
}

WIRE_CODEC(command_terminal)
{
	terminal_fields(codec, message);
	wire_refuse_if(codec, !is_size(message));
}

WIRE_CODEC(command_signal)
{
	wire_u8(codec, &message->number);
	wire_bool(codec, &message->foreground);
	switch (message->number) {
	case SIGHUP:
	case SIGINT:
	case SIGQUIT:
	case SIGKILL:
	case SIGUSR1:
	case SIGUSR2:
	case SIGTERM:
		break;
	default:
		wire_refuse_if(codec, true);
	}
}

WIRE_CODEC(command_pause)
{
	wire_u32(codec, &message->ms);
	wire_refuse_if(codec, message->ms > LIMIT_PAUSE_MAX_MS);
}

WIRE_CODEC(command_paused)
{
	wire_bool(codec, &message->all);
}

static void cgroup_usage_fields(struct wire_codec *codec, struct command_cgroup_usage *usage)
{
	wire_bool(codec, &usage->has_memory_peak);
	wire_bool(codec, &usage->has_io);
	wire_u64(codec, &usage->memory_peak_bytes);
	wire_u64(codec, &usage->io_read_bytes);
	wire_u64(codec, &usage->io_write_bytes);
	wire_u64(codec, &usage->oom_kills);
	wire_u64(codec, &usage->refused_forks);
}

/* Whether @wait_status, from wait(2), means that the process has ended, not that it has stopped. */
static bool is_end(uint32_t wait_status)
{
	int status = (int)wait_status;

	return wait_status <= UINT16_MAX && (WIFEXITED(status) || WIFSIGNALED(status));
}

WIRE_CODEC(command_ended)
{
	wire_u8(codec, &message->end);
	wire_u32(codec, &message->wait_status);
	wire_u32(codec, &message->launch_error);
	wire_u64(codec, &message->user_us);
	wire_u64(codec, &message->system_us);
	wire_u64(codec, &message->max_rss_bytes);
	cgroup_usage_fields(codec, &message->cgroup);
	wire_u32(codec, &message->left_over);
	wire_bool(codec, &message->network_tried);
	wire_bool(codec, &message->disk_full);
	wire_refuse_if(codec, message->end >= COMMAND_END_COUNT || !is_end(message->wait_status));
}
