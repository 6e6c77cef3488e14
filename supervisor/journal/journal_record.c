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

static void id_field(struct wire_codec *codec, uint8_t id[JOURNAL_ID_BYTES])
{
	struct text bytes = {(const char *)id, JOURNAL_ID_BYTES};

	wire_text(codec, &bytes, JOURNAL_ID_BYTES);
	wire_refuse_if(codec, bytes.len != JOURNAL_ID_BYTES);
	if (!codec->writer && bytes.len == JOURNAL_ID_BYTES)
		memcpy(id, bytes.data, JOURNAL_ID_BYTES);
}

static void record_fields(struct wire_codec *codec, struct journal_record *record)
{
	uint8_t version = JOURNAL_VERSION;

	wire_u8(codec, &record->type);
	wire_u64(codec, &record->number);
	wire_refuse_if(codec, record->type < JOURNAL_FILE || record->type > JOURNAL_DROP);
	if (record->type == JOURNAL_FILE)
		wire_u8(codec, &version);
	else
		id_field(codec, record->id);
	wire_refuse_if(codec, version != JOURNAL_VERSION);
	if (record->type == JOURNAL_BEGIN || record->type == JOURNAL_END) {
		id_field(codec, record->digest);
		wire_text(codec, &record->tenant, TENANT_MAX);
	}
	if (record->type == JOURNAL_BEGIN) {
		wire_text(codec, &record->before, JOURNAL_CHANGE_BYTES);
		wire_text(codec, &record->after, JOURNAL_CHANGE_BYTES);
	}
	if (record->type == JOURNAL_END) {
		wire_bool(codec, &record->base64);
		wire_text(codec, &record->code, CODE_BYTES);
		wire_text(codec, &record->json, LIMIT_JOURNAL_RECORD_BYTES);
		wire_text(codec, &record->model, LIMIT_JOURNAL_RECORD_BYTES);
	}
}

size_t journal_record_put(const struct journal_record *record, void *buffer, size_t size)
{
	struct wire_writer writer = wire_writer(buffer, size);
	struct wire_reader none = {0};
	struct journal_record copy = *record;

	wire_put_u64(&writer, 0); /* length and checksum, written below */
	record_fields(&(struct wire_codec){&writer, &none}, &copy);
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
	record_fields(&(struct wire_codec){NULL, &reader}, &record);
	r = wire_reader_end(&reader);
	if (r < 0)
		return r;
	*ret = record;
	return (int)head[0];
}
