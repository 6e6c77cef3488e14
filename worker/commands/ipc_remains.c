// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker, between commands. The objects belong to the worker's own id and it has
 * CAP_SYS_ADMIN over their namespace, so no command can prevent their removal. Their names and
 * contents are not read.
 */
#include "worker/commands/ipc_remains.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* semctl(2): the caller of the glibc wrapper must declare this union. */
union semaphore_argument {
	struct seminfo *info;
	struct semid_ds *state;
};

static void remove_shared_memory(void)
{
	struct shm_info info = {0};
	struct shmid_ds state;
	int last = shmctl(0, SHM_INFO, (struct shmid_ds *)&info);

	for (int i = 0; info.used_ids > 0 && i <= last; i++) {
		int id = shmctl(i, SHM_STAT_ANY, &state);

		if (id >= 0)
			(void)shmctl(id, IPC_RMID, NULL);
	}
}

static void remove_semaphores(void)
{
	struct seminfo info = {0};
	struct semid_ds state;
	int last = semctl(0, 0, SEM_INFO, (union semaphore_argument){.info = &info});

	/* semusz is the number of semaphore sets. */
	for (int i = 0; info.semusz > 0 && i <= last; i++) {
		int id = semctl(i, 0, SEM_STAT_ANY, (union semaphore_argument){.state = &state});

		if (id >= 0)
			(void)semctl(id, 0, IPC_RMID);
	}
}

static void remove_message_queues(void)
{
	struct msginfo info = {0};
	struct msqid_ds state;
	int last = msgctl(0, MSG_INFO, (struct msqid_ds *)&info);

	/* msgpool is the number of message queues. */
	for (int i = 0; info.msgpool > 0 && i <= last; i++) {
		int id = msgctl(i, MSG_STAT_ANY, &state);

		if (id >= 0)
			(void)msgctl(id, IPC_RMID, NULL);
	}
}

static void unlink_names(DIR *names)
{
	const struct dirent *entry;

	while ((entry = readdir(names)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			(void)unlinkat(dirfd(names), entry->d_name, 0);
}

static void remove_posix_queues(int queue_names)
{
	struct stat root;
	DIR *names;
	int fd;

	/* The size of the mqueue root counts its names, so 0 means that there is none. */
	if (queue_names < 0 || fstat(queue_names, &root) < 0 || root.st_size == 0)
		return;
	fd = openat(queue_names, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	names = fd < 0 ? NULL : fdopendir(fd);
	if (!names) {
		if (fd >= 0)
			close(fd);
		return;
	}
	unlink_names(names);
	closedir(names);
}

void ipc_remains_remove(int queue_names)
{
	remove_shared_memory();
	remove_semaphores();
	remove_message_queues();
	remove_posix_queues(queue_names);
}
