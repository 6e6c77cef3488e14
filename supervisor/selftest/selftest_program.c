// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: the probe program, which is data here and is never executed by cloister. */
#include "supervisor/selftest/selftest_program.h"

#include "common/base64.h"

#include <stdint.h>
#include <stdlib.h>

extern const char selftest_program_begin[];
extern const uint64_t selftest_program_size;

__asm__(".pushsection .rodata\n"
	".globl selftest_program_begin\n"
	"selftest_program_begin:\n"
	".incbin \"" SELFTEST_PROGRAM "\"\n"
	"0:\n"
	".balign 8\n"
	".globl selftest_program_size\n"
	"selftest_program_size:\n"
	".8byte 0b - selftest_program_begin\n"
	".popsection\n");

char *selftest_program(void)
{
	struct text bytes = {selftest_program_begin, selftest_program_size};
	size_t len = base64_encoded_size(bytes.len);
	char *encoded = malloc(len + 1);

	if (!encoded)
		return NULL;
	base64_encode(bytes, encoded);
	encoded[len] = '\0';
	return encoded;
}
