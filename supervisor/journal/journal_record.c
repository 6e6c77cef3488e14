// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, which wrote what it reads here; but a crash, a full disk or a bad one may have
 * left any bytes.
 */
#include "supervisor/journal/journal_record.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire.h"

#include <errno.h>
#include <limits.h>

#define HEAD_BYTES 8
#define SLICES     8           /* bytes that one step takes */
#define POLYNOMIAL 0x82f63b78U /* CRC-32C, reflected */
#define CODE_BYTES 64
#define TENANT_MAX LOGIN_NAME_MAX /* the tenant of user mode has the name of a user */

static uint32_t tables[SLICES][256];

static void make_tables(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t value = i;

		for (int bit = 0; bit < 8; bit++)
			value = (value >> 1) ^ (value & 1 ? POLYNOMIAL : 0);
		tables[0][i] = value;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (size_t slice = 1; slice < SLICES; slice++)
			tables[slice][i] = (tables[slice - 1][i] >> 8) ^
					   tables[0][tables[slice - 1][i] & 0xff];
}

/* Eight bytes a step: the restart of cloisterd reads every record. */
static uint32_t crc(uint32_t value, const uint8_t *data, size_t len)
{
	if (tables[0][1] == 0)
		make_tables();
	value = ~value;
	for (; len >= SLICES; len -= SLICES, data += SLICES) {
		uint32_t low = value ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 |
					       (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);

		value = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^
			tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^ tables[3][data[4]] ^
			tables[2][data[5]] ^ tables[1][data[6]] ^ tables[0][data[7]];
	}
	for (; len > 0; len--, data++)
		value = (value >> 8) ^ tables[0][(value ^ *data) & 0xff];
	return ~value;
}

static uint32_t checksum(const uint8_t *record, size_t len)
{
	uint32_t sum = crc(0, record, sizeof(uint32_t));

	return crc(sum, record + HEAD_BYTES, len - HEAD_BYTES);
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
