// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. */

#include "gate/e2b/frame.h"

#include <errno.h>

void frame_write_head(unsigned flags, uint32_t len, uint8_t head[static FRAME_HEAD_BYTES])
{
	head[0] = (uint8_t)flags;
	head[1] = (uint8_t)(len >> 24);
	head[2] = (uint8_t)(len >> 16);
	head[3] = (uint8_t)(len >> 8);
	head[4] = (uint8_t)len;
}

int frame_take(struct text *input, size_t max, struct text *ret_payload)
{
	const uint8_t *head = (const uint8_t *)input->data;
	uint32_t len;

	if (input->len < 1)
		return 0;
	if (head[0] != 0)
		return -EPROTO;
	if (input->len < FRAME_HEAD_BYTES)
		return 0;
	len = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
	if (len > max)
		return -EMSGSIZE;
	if (input->len - FRAME_HEAD_BYTES < len)
		return 0;
	*ret_payload = (struct text){input->data + FRAME_HEAD_BYTES, len};
	input->data += FRAME_HEAD_BYTES + len;
	input->len -= FRAME_HEAD_BYTES + len;
	return 1;
}
