// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Texts in results are hostile bytes. */
#include "supervisor/call/result/observation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static bool has_status(const struct command_ended *command)
{
	return command && command->end != COMMAND_END_NOT_BEGUN;
}

bool observation_exit(const struct observation *observation, int *ret_code)
{
	const struct command_ended *command = observation->command;

	if (!has_status(command) || !WIFEXITED((int)command->wait_status))
		return false;
	*ret_code = WEXITSTATUS((int)command->wait_status);
	return true;
}

const char *observation_signal(const struct observation *observation, char *buffer, size_t size)
{
	const struct command_ended *command = observation->command;
	int signal;

	if (!has_status(command) || !WIFSIGNALED((int)command->wait_status))
		return NULL;
	signal = WTERMSIG((int)command->wait_status);
	if (sigabbrev_np(signal))
		snprintf(buffer, size, "SIG%s", sigabbrev_np(signal));
	else
		snprintf(buffer, size, "SIG%d", signal);
	return buffer;
}

struct text observation_message(const struct observation *observation)
{
	return observation->message.len > 0 ? observation->message
					    : text_from(tool_error_sentence(observation->error));
}

/* Returns how long @buffer becomes. */
static size_t put_how(const struct observation *observation, char *buffer, size_t size)
{
	char name[32];
	const char *signal = observation_signal(observation, name, sizeof(name));
	int code, n;

	if (observation->error != TOOL_OK)
		n = snprintf(buffer, size, "stopped");
	else if (observation_exit(observation, &code))
		n = snprintf(buffer, size, "exit %d", code);
	else
		n = snprintf(buffer, size, "ended by %s", signal ? signal : "an unknown cause");
	return (size_t)n < size ? (size_t)n : size - 1;
}

const char *observation_ending(const struct observation *observation, char *buffer, size_t size)
{
	const struct text message = observation_message(observation);
	size_t len;

	if (observation->error != TOOL_OK && observation->error != TOOL_CANCELLED) {
		snprintf(buffer, size, "%s: %.*s", tool_error_name(observation->error),
			(int)message.len, message.data);
		return buffer;
	}
	len = put_how(observation, buffer, size);
	if (observation->wall_us >= 1000000)
		snprintf(buffer + len, size - len, " after %" PRIu64 ".%" PRIu64 " s",
			observation->wall_us / 1000000, observation->wall_us / 100000 % 10);
	return buffer;
}
