// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate. libmicrohttpd parses what a client sends, who is hostile. */
#include "gate/form.h"

#include "common/limits.h"
#include "gate/request_state.h"

#include <errno.h>
#include <stdlib.h>

#define NAMES_BYTES (8 * KIB) /* of a part's head */

struct gate_form {
	struct MHD_PostProcessor *processor;
	void (*each)(void *context, const struct gate_part *part);
	void *context;
};

static enum MHD_Result on_part(void *context, enum MHD_ValueKind kind, const char *name,
	const char *filename, const char *content_type, const char *transfer_encoding,
	const char *data, uint64_t offset, size_t len)
{
	struct gate_form *form = context;

	(void)kind;
	(void)content_type;
	(void)transfer_encoding;
	form->each(form->context, &(struct gate_part){name, filename, offset, {data, len}});
	return MHD_YES;
}

struct gate_form *gate_form_new(struct gate_request *request,
	void (*each)(void *context, const struct gate_part *part), void *context)
{
	struct gate_form *form = calloc(1, sizeof(*form));

	if (!form)
		return NULL;
	form->each = each;
	form->context = context;
	form->processor = MHD_create_post_processor(request->mhd, NAMES_BYTES, on_part, form);
	if (form->processor)
		return form;
	free(form);
	return NULL;
}

int gate_form_take(struct gate_form *form, struct text data)
{
	return MHD_post_process(form->processor, data.data, data.len) == MHD_YES ? 0 : -EBADMSG;
}

int gate_form_end(struct gate_form *form)
{
	enum MHD_Result result = MHD_YES;

	if (!form)
		return 0;
	result = MHD_destroy_post_processor(form->processor);
	free(form);
	return result == MHD_YES ? 0 : -EBADMSG;
}
