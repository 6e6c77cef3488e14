// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/ending_text.h"

#include "supervisor/call/observation.h"

#include <inttypes.h>
#include <stdio.h>

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

const char *ending_text(const struct observation *observation, char *buffer, size_t size)
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
