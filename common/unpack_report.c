// SPDX-License-Identifier: Apache-2.0
#include "common/unpack_report.h"

WIRE_CODEC(unpack_report)
{
	if (codec->writer && message->name.len > LIMIT_UNPACK_NAME_BYTES)
		message->name.len = LIMIT_UNPACK_NAME_BYTES;
	wire_u32(codec, &message->fault);
	wire_u32(codec, &message->error);
	wire_u64(codec, &message->entries);
	wire_u64(codec, &message->special);
	wire_u64(codec, &message->set_ids);
	wire_u64(codec, &message->attributes);
	wire_text(codec, &message->name, LIMIT_UNPACK_NAME_BYTES);
	wire_refuse_if(codec, message->fault >= UNPACK_FAULT_END);
}
