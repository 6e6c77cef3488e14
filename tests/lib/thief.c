// SPDX-License-Identifier: Apache-2.0
/*
 * usage: thief SECRET DEV INO
 *
 * Prints "ready". Until standard input ends it then tries to take from every new process what its
 * user must not have: a terminal, the file with that device and inode, an environment with SECRET
 * in it, the memory of a process called cloister. Prints a line for each success, and at the end
 * the number of all descriptors that it could take. pidfd_getfd(2), proc(5).
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS 12

static unsigned long taken;

static int open_of(int pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, flags | O_CLOEXEC);
}

static void take_descriptors(int pid, dev_t dev, ino_t ino)
{
	int process = pidfd_open(pid, 0);

	for (int number = 0; process >= 0 && number < DESCRIPTORS; number++) {
		int fd = pidfd_getfd(process, number, 0);
		struct stat status;

		if (fd < 0)
			continue;
		taken++;
		if (isatty(fd))
			printf("terminal %d of %d\n", number, pid);
		if (fstat(fd, &status) == 0 && status.st_dev == dev && status.st_ino == ino)
			printf("file %d of %d\n", number, pid);
		close(fd);
	}
	if (process >= 0)
		close(process);
}

static void see_descriptors(int pid)
{
	for (int number = 0; number < DESCRIPTORS; number++) {
		char path[64], target[64];
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, number);
		len = readlink(path, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = '\0';
		if (strncmp(target, "/dev/pts/", 9) == 0)
			printf("link %d of %d\n", number, pid);
	}
}

static void read_environment(int pid, const char *secret)
{
	static char text[1 << 17];
	int fd = open_of(pid, "environ", O_RDONLY);
	ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text));

	if (len > 0 && memmem(text, (size_t)len, secret, strlen(secret)))
		printf("environment of %d\n", pid);
	if (fd >= 0)
		close(fd);
}

/* Needs the same permission as ptrace(2), without stopping the process. */
static void open_memory(int pid)
{
	char name[32] = "";
	int fd = open_of(pid, "mem", O_RDWR), comm;

	if (fd < 0)
		return;
	close(fd);
	comm = open_of(pid, "comm", O_RDONLY);
	if (comm >= 0 && read(comm, name, sizeof(name) - 1) > 0 && strcmp(name, "cloister\n") == 0)
		printf("memory of %d\n", pid);
	if (comm >= 0)
		close(comm);
}

int main(int argc, char **argv)
{
	struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
	int self = getpid();
	DIR *processes = opendir("/proc");

	if (argc != 4 || !processes)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (poll(&end, 1, 0) == 0) {
		const struct dirent *found;

		rewinddir(processes);
		while ((found = readdir(processes))) {
			int pid = isdigit(found->d_name[0]) ? atoi(found->d_name) : 0;

			if (pid <= self)
				continue;
			take_descriptors(
				pid, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
			see_descriptors(pid);
			read_environment(pid, argv[1]);
			open_memory(pid);
		}
	}
	printf("%lu taken\n", taken);
	closedir(processes);
	return 0;
}
