/* links: cloister-common */
// SPDX-License-Identifier: Apache-2.0
/*
 * Every message of the internal protocols, decoded as the receiver does. If a decoder accepts
 * a payload, its encoder must write the same bytes: each message has one form, and no byte of a
 * payload is ignored.
 */
#include "common/unpack_report.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_egress.h"
#include "common/wire/wire_files.h"
#include "common/wire/wire_spawner.h"
#include "tests/fuzz/fuzz.h"

static uint8_t again[WIRE_PAYLOAD_MAX];

/* Decodes @payload as one type and encodes the result. */
#define ROUND_TRIP(type)                                                       \
	static size_t type##_again(struct text payload)                        \
	{                                                                      \
		struct wire_writer writer = wire_writer(again, sizeof(again)); \
		struct type message;                                           \
                                                                               \
		if (type##_get(payload, &message) < 0)                         \
			return SIZE_MAX;                                       \
		type##_put(&writer, &message);                                 \
		CHECK(wire_writer_ok(&writer));                                \
		return writer.len;                                             \
	}

ROUND_TRIP(command_run)
ROUND_TRIP(command_held)
ROUND_TRIP(command_pause)
ROUND_TRIP(command_paused)
ROUND_TRIP(command_signal)
ROUND_TRIP(command_ended)
ROUND_TRIP(spawner_open)
ROUND_TRIP(setup_failure)
ROUND_TRIP(files_read)
ROUND_TRIP(files_write)
ROUND_TRIP(files_list)
ROUND_TRIP(files_search)
ROUND_TRIP(files_entry)
ROUND_TRIP(files_match)
ROUND_TRIP(files_end)
ROUND_TRIP(files_edit)
ROUND_TRIP(files_trouble)
ROUND_TRIP(files_patch)
ROUND_TRIP(files_patched)
ROUND_TRIP(files_step)
ROUND_TRIP(egress_open)
ROUND_TRIP(egress_open_failed)
ROUND_TRIP(egress_call)
ROUND_TRIP(egress_denied)
ROUND_TRIP(egress_closed)
ROUND_TRIP(egress_call_ended)
ROUND_TRIP(unpack_report)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static size_t (*const messages[])(struct text payload) = {
		command_run_again,
		command_ended_again,
		spawner_open_again,
		setup_failure_again,
		files_read_again,
		files_write_again,
		files_list_again,
		files_search_again,
		files_entry_again,
		files_match_again,
		files_end_again,
		egress_open_again,
		egress_open_failed_again,
		egress_call_again,
		egress_denied_again,
		egress_closed_again,
		egress_call_ended_again,
		files_edit_again,
		files_trouble_again,
		files_patch_again,
		files_patched_again,
		files_step_again,
		command_held_again,
		command_signal_again,
		unpack_report_again,
		command_pause_again,
		command_paused_again,
	};
	struct text rest = fuzz_text(data, size);
	uint8_t type = fuzz_byte(&rest);
	char *copy;
	size_t len;

	if (type >= sizeof(messages) / sizeof(*messages) || rest.len > sizeof(again))
		return -1;
	copy = fuzz_copy(rest);
	len = messages[type]((struct text){copy, rest.len});
	if (len != SIZE_MAX) {
		CHECK(len == rest.len);
		CHECK(memcmp(again, copy, len) == 0);
		/* A payload that is shorter or longer is not the same message. */
		CHECK(messages[type]((struct text){copy, rest.len - 1}) == SIZE_MAX);
	}
	free(copy);
	return 0;
}
