// SPDX-License-Identifier: Apache-2.0
/* Takes the place of one of cloister's programs in tests: executes Python with the script beside
 * it, whose name ends in ".py". A script itself cannot be started by a descriptor that the exec
 * closes, as cloister starts its programs. fexecve(3), "BUGS". */
#include "common/cleanup.h"

#include <linux/limits.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char interpreter[] = "/usr/bin/python3", isolated[] = "-ISBu";
	char self[PATH_MAX], script[PATH_MAX + sizeof(".py")];
	char *words[32] = {interpreter, isolated, script, self};
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len < 0)
		return 3;
	self[len] = '\0';
	memcpy(script, self, (size_t)len);
	memcpy(script + len, ".py", sizeof(".py"));
	for (size_t i = 1; i < (size_t)argc && 3 + i < ARRAY_SIZE(words) - 1; i++)
		words[3 + i] = argv[i];
	execv(interpreter, words);
	return 5;
}
