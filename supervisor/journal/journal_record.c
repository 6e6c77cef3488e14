// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, which wrote what it reads here; but a crash, a full disk or a bad one may have
 * left any bytes.
 */
#include "supervisor/journal/journal_record.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire.h"
#include "supervisor/journal/journal_crc.h"

#include <errno.h>
#include <limits.h>

#define HEAD_BYTES 8
#define CODE_BYTES 64
#define TENANT_MAX LOGIN_NAME_MAX /* the tenant of user mode has the name of a user */

static uint32_t checksum(const uint8_t *record, size_t len)
{
	uint32_t sum = journal_crc(0, record, sizeof(uint32_t));

	return journal_crc(sum, record + HEAD_BYTES, len - HEAD_BYTES);
}

static struct text bytes_of(const uint8_t id[JOURNAL_ID_BYTES])
{
	return (struct text){(const char *)id, JOURNAL_ID_BYTES};
}

static void get_id(struct wire_reader *reader, uint8_t id[JOURNAL_ID_BYTES])
{
	struct text bytes = wire_get_text(reader, JOURNAL_ID_BYTES);

	if (bytes.len == JOURNAL_ID_BYTES)
		memcpy(id, bytes.data, JOURNAL_ID_BYTES);
	else
		reader->failed = true;
}

size_t journal_record_put(const struct journal_record *record, void *buffer, size_t size)
{
	struct wire_writer writer = wire_writer(buffer, size);

	wire_put_u64(&writer, 0); /* length and checksum, written below */
	wire_put_u8(&writer, record->type);
	wire_put_u64(&writer, record->number);
	if (record->type == JOURNAL_FILE)
		wire_put_u8(&writer, JOURNAL_VERSION);
	else
		wire_put_text(&writer, bytes_of(record->id));
	if (record->type == JOURNAL_BEGIN || record->type == JOURNAL_END) {
		wire_put_text(&writer, bytes_of(record->digest));
		wire_put_text(&writer, record->tenant);
	}
	if (record->type == JOURNAL_BEGIN) {
		wire_put_text(&writer, record->before);
		wire_put_text(&writer, record->after);
	}
	if (record->type == JOURNAL_END) {
		wire_put_u8(&writer, record->base64);
		wire_put_text(&writer, record->code);
		wire_put_text(&writer, record->json);
		wire_put_text(&writer, record->model);
	}
	if (!wire_writer_ok(&writer) || writer.len > LIMIT_JOURNAL_RECORD_BYTES ||
		record->tenant.len > TENANT_MAX || record->before.len > JOURNAL_CHANGE_BYTES ||
		record->after.len > JOURNAL_CHANGE_BYTES)
		return 0;
	journal_record_head(buffer, writer.len);
	return writer.len;
}

void journal_record_head(void *buffer, size_t len)
{
	uint32_t head[2] = {(uint32_t)len, 0};

	memcpy(buffer, head, sizeof(head));
	head[1] = checksum(buffer, len);
	memcpy(buffer, head, sizeof(head));
}

static int get_members(struct wire_reader *reader, struct journal_record *record)
{
	record->type = wire_get_u8(reader);
	record->number = wire_get_u64(reader);
	if (record->type < JOURNAL_FILE || record->type > JOURNAL_DROP)
		return -EBADMSG;
	if (record->type != JOURNAL_FILE)
		get_id(reader, record->id);
	else if (wire_get_u8(reader) != JOURNAL_VERSION)
		return -EBADMSG;
	if (record->type == JOURNAL_BEGIN || record->type == JOURNAL_END) {
		get_id(reader, record->digest);
		record->tenant = wire_get_text(reader, TENANT_MAX);
	}
	if (record->type == JOURNAL_BEGIN) {
		record->before = wire_get_text(reader, JOURNAL_CHANGE_BYTES);
		record->after = wire_get_text(reader, JOURNAL_CHANGE_BYTES);
	}
	if (record->type == JOURNAL_END) {
		record->base64 = wire_get_bool(reader);
		record->code = wire_get_text(reader, CODE_BYTES);
		record->json = wire_get_text(reader, LIMIT_JOURNAL_RECORD_BYTES);
		record->model = wire_get_text(reader, LIMIT_JOURNAL_RECORD_BYTES);
	}
	return wire_reader_end(reader);
}

int journal_record_get(struct text bytes, struct journal_record *ret)
{
	struct journal_record record = {0};
	struct wire_reader reader;
	uint32_t head[2];
	int r;

	if (bytes.len < HEAD_BYTES)
		return -ENODATA;
	memcpy(head, bytes.data, sizeof(head));
	if (head[0] <= HEAD_BYTES || head[0] > LIMIT_JOURNAL_RECORD_BYTES)
		return -EBADMSG;
	if (head[0] > bytes.len)
		return -ENODATA;
	if (checksum((const uint8_t *)bytes.data, head[0]) != head[1])
		return -EBADMSG;
	reader = wire_reader(bytes.data + HEAD_BYTES, head[0] - HEAD_BYTES);
	r = get_members(&reader, &record);
	if (r < 0)
		return r;
	*ret = record;
	return (int)head[0];
}
