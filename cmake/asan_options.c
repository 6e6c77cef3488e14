// SPDX-License-Identifier: Apache-2.0
/*
 * Part of the programs that become undumpable, in sanitized builds only. Leak detection stops and
 * traces its own process, which such a program rightly does not allow; the unit tests, which link
 * the same code without this file, look for leaks.
 */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
