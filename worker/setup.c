// SPDX-License-Identifier: Apache-2.0
#include "worker/setup.h"

#include "common/wire_spawner.h"

int setup_run(const struct setup_step *steps, size_t n_steps, void *context, const char **ret_step)
{
	for (size_t i = 0; i < n_steps; i++) {
		int r = steps[i].act(context);

		if (r < 0) {
			*ret_step = steps[i].name;
			return r;
		}
	}
	return 0;
}

void setup_report_failure(
	struct channel *channel, uint8_t type, uint64_t call, const char *step, int error)
{
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct setup_failure failure = {
		.step = text_from(step),
		.error = (uint32_t)(error < 0 ? -error : error),
	};

	setup_failure_put(&writer, &failure);
	if (!wire_writer_ok(&writer))
		return;
	if (channel_send(
		    channel, type, call, (struct text){(char *)payload, writer.len}, NULL, 0) == 0)
		(void)channel_flush(channel);
}
