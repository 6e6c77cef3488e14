// SPDX-License-Identifier: Apache-2.0
#include "client/amount.h"

#include <stdio.h>

const char *amount(long long bytes, char buffer[AMOUNT_BYTES])
{
	static const char units[] = "KMGTP";
	double value = (double)bytes;
	size_t unit = 0;

	if (bytes < 0)
		snprintf(buffer, AMOUNT_BYTES, "-");
	else if (bytes < 1024)
		snprintf(buffer, AMOUNT_BYTES, "%lld", bytes);
	else {
		for (value /= 1024; value >= 999.5 && unit < sizeof(units) - 2; unit++)
			value /= 1024;
		snprintf(buffer, AMOUNT_BYTES, "%.*f%c", value < 99.95 ? 1 : 0, value, units[unit]);
	}
	return buffer;
}
