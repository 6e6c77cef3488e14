// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/workspace/layers/layer_names.h"

#include <stdio.h>
#include <string.h>

#define AT      "at-"
#define PREVIEW "preview-"

/* Three bytes of a name for each of a label. */
_Static_assert(3UL * LIMIT_CHECKPOINT_LABEL_BYTES + sizeof("c999999999=") <= NAME_MAX,
	"a label does not fit into a name");

/* Reads a number in the form in which it is written. Returns what follows, or NULL. */
static const char *read_layer_number(const char *text, uint32_t *ret)
{
	uint32_t number = 0;
	size_t len = strspn(text, "0123456789");

	if (len == 0 || len > 9 || (len > 1 && *text == '0'))
		return NULL;
	for (size_t i = 0; i < len; i++)
		number = number * 10 + (uint32_t)(text[i] - '0');
	*ret = number;
	return text + len;
}

/* Reads "PREFIXnumber". Returns whether it is that and no more. */
static bool read_mark(const char *name, const char *prefix, uint32_t *ret)
{
	const char *rest = read_layer_number(name + strlen(prefix), ret);

	return rest && !*rest;
}

static bool begins(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

struct layer_name layer_name_read(const char *name)
{
	struct layer_name read = {0};
	const char *rest;

	if (begins(name, AT)) {
		if (read_mark(name, AT, &read.number))
			read.kind = LAYER_NAME_AT;
		return read;
	}
	if (begins(name, PREVIEW)) {
		if (read_mark(name, PREVIEW, &read.number))
			read.kind = LAYER_NAME_PREVIEW;
		return read;
	}
	if (begins(name, LAYERS_FOLDED)) {
		rest = read_layer_number(name + strlen(LAYERS_FOLDED), &read.number);
		rest = rest && *rest == '-' ? read_layer_number(rest + 1, &read.low) : NULL;
		rest = rest && *rest == '-' ? read_layer_number(rest + 1, &read.below) : NULL;
		if (rest && !*rest)
			read.kind = LAYER_NAME_FOLDED;
		return read;
	}
	if (begins(name, LAYERS_FROM)) {
		read.kind = LAYER_NAME_FROM;
		read.template = name + strlen(LAYERS_FROM);
		return read;
	}
	rest = read_layer_number(*name == 'c' ? name + 1 : name, &read.number);
	if (rest && *name == 'c' && *rest == '=') {
		read.kind = LAYER_NAME_LABEL;
		read.label = rest + 1;
	} else if (rest && *name != 'c' && *rest == '-') {
		rest = read_layer_number(rest + 1, &read.below);
		if (rest && !*rest)
			read.kind = LAYER_NAME_LAYER;
	}
	return read;
}

void layer_name_put(const struct layer *layer, char ret[NAME_MAX + 1])
{
	snprintf(ret, NAME_MAX + 1, "%u-%u", layer->number, layer->below);
}

void layer_name_put_at(uint32_t number, char ret[NAME_MAX + 1])
{
	snprintf(ret, NAME_MAX + 1, AT "%u", number);
}

void layer_name_put_preview(uint32_t number, char ret[NAME_MAX + 1])
{
	snprintf(ret, NAME_MAX + 1, PREVIEW "%u", number);
}

/* '/' and what begins an escape cannot be written as they are. */
void layer_name_put_label(uint32_t number, struct text label, char ret[NAME_MAX + 1])
{
	int n = snprintf(ret, NAME_MAX + 1, "c%u=", number);

	for (size_t i = 0; i < label.len; i++)
		n += snprintf(ret + n, (size_t)(NAME_MAX + 1 - n),
			label.data[i] == '/' || label.data[i] == '%' ? "%%%02X" : "%c",
			(unsigned char)label.data[i]);
}

static unsigned hex(char digit)
{
	return digit <= '9' ? (unsigned)digit - '0' : (unsigned)digit - 'A' + 10;
}

struct text layer_name_read_label(const char *encoded, char ret[NAME_MAX + 1])
{
	size_t n = 0;

	for (; *encoded && n < NAME_MAX; n++) {
		bool escaped = *encoded == '%' && encoded[1] && encoded[2];

		ret[n] = escaped ? (char)(hex(encoded[1]) * 16 + hex(encoded[2])) : *encoded;
		encoded += escaped ? 3 : 1;
	}
	return (struct text){ret, n};
}
