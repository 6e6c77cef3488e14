// SPDX-License-Identifier: Apache-2.0
#include "common/unpack_report.h"

#include <errno.h>

void unpack_report_put(struct wire_writer *writer, const struct unpack_report *report)
{
	struct text name = report->name;

	if (name.len > LIMIT_UNPACK_NAME_BYTES)
		name.len = LIMIT_UNPACK_NAME_BYTES;
	wire_put_u32(writer, report->fault);
	wire_put_u32(writer, report->error);
	wire_put_u64(writer, report->entries);
	wire_put_u64(writer, report->special);
	wire_put_u64(writer, report->set_ids);
	wire_put_u64(writer, report->attributes);
	wire_put_text(writer, name);
}

int unpack_report_get(struct text payload, struct unpack_report *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct unpack_report report;

	report.fault = wire_get_u32(&reader);
	report.error = wire_get_u32(&reader);
	report.entries = wire_get_u64(&reader);
	report.special = wire_get_u64(&reader);
	report.set_ids = wire_get_u64(&reader);
	report.attributes = wire_get_u64(&reader);
	report.name = wire_get_text(&reader, LIMIT_UNPACK_NAME_BYTES);
	if (wire_reader_end(&reader) < 0 || report.fault >= UNPACK_FAULT_END)
		return -EBADMSG;
	*ret = report;
	return 0;
}
