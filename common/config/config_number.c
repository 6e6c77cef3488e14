// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd and the spawner. */
#include "common/config/config_number.h"

#include "common/limits.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct value_unit {
	const char *name;
	uint64_t size;
};

#define UNITS_MAX 6

static const struct value_unit units[CONFIG_TYPES][UNITS_MAX] = {
	[CONFIG_BYTES] = {{"", 1}, {"K", KIB}, {"M", MIB}, {"G", GIB}, {"T", 1024 * GIB}},
	[CONFIG_TIME] = {{"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}},
	[CONFIG_NUMBER] = {{"", 1}},
	[CONFIG_PERCENT] = {{"%", 1}},
	[CONFIG_MODE] = {{"", 1}},
};

int config_number(enum config_type type, const char *value, uint64_t *ret)
{
	const struct value_unit *unit = units[type];
	unsigned base = type == CONFIG_MODE ? 8 : 10;
	size_t n_digits = strspn(value, base == 8 ? "01234567" : "0123456789");
	uint64_t number = 0;
	bool overflow = false;

	if (n_digits == 0)
		return -EINVAL;
	while (unit->name && strcmp(unit->name, value + n_digits) != 0)
		unit++;
	if (!unit->name)
		return -EINVAL;
	for (size_t i = 0; i < n_digits; i++)
		overflow |= __builtin_mul_overflow(number, base, &number) ||
			    __builtin_add_overflow(number, (unsigned)(value[i] - '0'), &number);
	overflow |= __builtin_mul_overflow(number, unit->size, &number);
	if (overflow)
		return -ERANGE;
	*ret = number;
	return 0;
}
