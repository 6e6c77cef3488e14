// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Texts in results are hostile bytes; json_text.h makes valid JSON of them. */
#include "supervisor/call/keys/key_result.h"

#include "common/cleanup.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/result/model_text.h"
#include "supervisor/call/result/observation.h"

#include <errno.h>
#include <event2/buffer.h>

/* Writes both forms to @out. Returns 0 or -ENOMEM. */
static int write_both(const struct observation *observation, struct evbuffer *out, size_t *ret_json)
{
	struct json_text json = json_text(out);
	int r;

	observation_write(&json, observation);
	r = json_text_flush(&json);
	*ret_json = evbuffer_get_length(out);
	if (r < 0 || !model_text_exists(observation))
		return r;
	json = json_text(out);
	model_text_write(&json, observation);
	return json_text_flush(&json);
}

int key_result_write(const struct observation *observation, size_t max, struct key_result *ret)
{
	struct key_result result = {.error = observation->error, .base64 = observation->base64};
	struct evbuffer *out = evbuffer_new();
	size_t json = 0, all = 0;
	int r = out ? write_both(observation, out, &json) : -ENOMEM;

	if (r == 0) {
		all = evbuffer_get_length(out);
		r = json > max || all - json > max ? -EMSGSIZE : 0;
	}
	if (r == 0) {
		result.buffer = malloc(all + 1);
		r = result.buffer ? 0 : -ENOMEM;
	}
	if (r == 0) {
		evbuffer_remove(out, result.buffer, all);
		result.json = (struct text){result.buffer, json};
		result.model = (struct text){result.buffer + json, all - json};
		*ret = result;
	}
	if (out)
		evbuffer_free(out);
	return r;
}
