// SPDX-License-Identifier: Apache-2.0
/* Every get checks the whole payload: 0, or -EBADMSG with @ret untouched. */
#include "common/wire_commands.h"

#include "common/limits.h"

#include <errno.h>

void command_run_put(struct wire_writer *writer, const struct command_run *message)
{
	wire_put_u32(writer, message->command_len);
	wire_put_u32(writer, message->env_len);
	wire_put_u8(writer, message->has_stdin);
}

int command_run_get(struct text payload, struct command_run *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct command_run message;

	message.command_len = wire_get_u32(&reader);
	message.env_len = wire_get_u32(&reader);
	message.has_stdin = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0 || message.command_len > LIMIT_COMMAND_BYTES ||
		message.env_len > LIMIT_COMMAND_ENV_BYTES)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void command_ended_put(struct wire_writer *writer, const struct command_ended *message)
{
	wire_put_u8(writer, message->end);
	wire_put_u32(writer, message->wait_status);
	wire_put_u32(writer, message->launch_error);
	wire_put_u64(writer, message->user_us);
	wire_put_u64(writer, message->system_us);
	wire_put_u64(writer, message->max_rss_bytes);
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
	if (wire_reader_end(&reader) < 0 || message.end >= COMMAND_END_COUNT)
		return -EBADMSG;
	*ret = message;
	return 0;
}
