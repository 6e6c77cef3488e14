// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The descriptors are opened before lock-down; afterwards only pread(2),
 * pwrite(2), ftruncate(2) and fdatasync(2) are needed. After its start one thread at a time changes
 * the files; reading a record that is in them needs no lock.
 */
#include "supervisor/journal/journal_file.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOAD_BYTES (1 * MIB) /* read at once at the start; holds the largest record */

static const char *const names[JOURNAL_FILES] = {"keys.0", "keys.1"};

static int open_one(int directory_fd, const char *name)
{
	/* O_NONBLOCK: if the name is a FIFO, open(2) must not wait. */
	_cleanup_close_ int fd = openat(directory_fd, name,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	struct stat stat_buf;

	if (fd < 0 || fstat(fd, &stat_buf) < 0)
		return -errno;
	return S_ISREG(stat_buf.st_mode) ? TAKE_FD(fd) : -EINVAL;
}

/* Reads the number of a file. Returns 0 if it has none. */
static uint64_t read_journal_file_number(int fd)
{
	struct journal_record record;
	char head[64];
	ssize_t n = io_read(fd, head, sizeof(head), 0);

	return n > 0 && journal_record_get((struct text){head, (size_t)n}, &record) > 0 &&
			       record.type == JOURNAL_FILE
		       ? record.number
		       : 0;
}

/* Takes the whole records of a file; its size is then their length. */
static int load_journal_file(
	struct journal_file *journal, uint8_t file, char *buffer, journal_take take, void *context)
{
	uint64_t *size = &journal->files[file].size;
	ssize_t n = 1;
	int r = 1;

	*size = 0;
	while (journal->files[file].number > 0 && r > 0 && n > 0) {
		size_t at = 0;

		n = io_read(journal->files[file].fd, buffer, LOAD_BYTES, (off_t)*size);
		for (r = 0; n > 0; at += (size_t)r) {
			struct journal_place place = {*size + at, 0, file};
			struct journal_record record;
			int taken = 0;

			r = journal_record_get((struct text){buffer + at, (size_t)n - at}, &record);
			if (r <= 0)
				break;
			place.size = (uint32_t)r;
			if (record.type != JOURNAL_FILE)
				taken = take(context, &record, place);
			if (taken < 0)
				return taken;
		}
		*size += at;
		/* The buffer may have ended within a record: go on unless nothing was whole. */
		r = r == -ENODATA && at > 0;
	}
	return n < 0 ? (int)n : 0;
}

/* Cuts off what follows the whole records. */
static int cut_journal(const struct journal_file *journal, unsigned file, uint64_t *cut_off)
{
	struct stat stat_buf;

	if (fstat(journal->files[file].fd, &stat_buf) < 0)
		return -errno;
	if ((uint64_t)stat_buf.st_size == journal->files[file].size)
		return 0;
	*cut_off += (uint64_t)stat_buf.st_size - journal->files[file].size;
	return ftruncate(journal->files[file].fd, (off_t)journal->files[file].size) < 0 ? -errno
											: 0;
}

static int load_all(
	struct journal_file *journal, journal_take take, void *context, uint64_t *cut_off)
{
	_cleanup_free_ char *buffer = malloc(LOAD_BYTES);
	unsigned newer = journal->files[1].number > journal->files[0].number;
	int r = buffer ? load_journal_file(journal, !newer, buffer, take, context) : -ENOMEM;

	if (r == 0)
		r = load_journal_file(journal, (uint8_t)newer, buffer, take, context);
	for (unsigned i = 0; r == 0 && i < JOURNAL_FILES; i++)
		r = cut_journal(journal, i, cut_off);
	journal->current = newer;
	if (r == 0 && journal->files[newer].number == 0)
		r = journal_file_turn(journal);
	return r;
}

/* Writes the names of the files through to the disk. */
static int sync_names(int directory_fd)
{
	_cleanup_close_ int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int journal_file_open(int directory_fd, bool durable, journal_take take, void *context,
	struct journal_file *ret, uint64_t *ret_cut)
{
	struct journal_file journal = {.files = {{.fd = -1}, {.fd = -1}}};
	uint64_t cut_off = 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < JOURNAL_FILES; i++) {
		int fd = open_one(directory_fd, names[i]);

		r = fd < 0 ? fd : 0;
		journal.files[i].fd = fd < 0 ? -1 : fd;
		journal.files[i].number = fd < 0 ? 0 : read_journal_file_number(fd);
	}
	if (r == 0)
		r = load_all(&journal, take, context, &cut_off);
	if (r == 0 && durable)
		r = sync_names(directory_fd);
	if (r < 0) {
		journal_file_close(&journal);
		return r;
	}
	*ret = journal;
	*ret_cut = cut_off;
	return 0;
}

static int append_to(struct journal_file *journal, unsigned file, struct text record)
{
	uint64_t *size = &journal->files[file].size;
	int fd = journal->files[file].fd, r;

	if (*size + record.len > LIMIT_JOURNAL_FILE_BYTES)
		return -EFBIG;
	r = io_write(fd, record.data, record.len, (off_t)*size);
	if (r == 0)
		*size += record.len;
	else /* what is left of it must not be taken for a record */
		(void)!ftruncate(fd, (off_t)*size);
	return r;
}

int journal_file_append(
	struct journal_file *journal, struct text record, struct journal_place *ret_place)
{
	struct journal_place place = {journal->files[journal->current].size, (uint32_t)record.len,
		(uint8_t)journal->current};
	int r = append_to(journal, journal->current, record);

	if (r == 0)
		*ret_place = place;
	return r;
}

int journal_file_turn(struct journal_file *journal)
{
	unsigned other = !journal->current;
	struct journal_record record = {
		.type = JOURNAL_FILE, .number = journal->files[journal->current].number + 1};
	char buffer[64];
	size_t len = journal_record_put(&record, buffer, sizeof(buffer));
	int r;

	if (ftruncate(journal->files[other].fd, 0) < 0)
		return -errno;
	journal->files[other].size = 0;
	journal->files[other].number = 0;
	r = append_to(journal, other, (struct text){buffer, len});
	if (r < 0)
		return r;
	journal->files[other].number = record.number;
	journal->current = other;
	return 0;
}

int journal_file_try(const struct journal_file *journal, struct text bytes)
{
	uint64_t size = journal->files[journal->current].size;
	int fd = journal->files[journal->current].fd, r;

	if (size + bytes.len > LIMIT_JOURNAL_FILE_BYTES)
		return -EFBIG;
	r = io_write(fd, bytes.data, bytes.len, (off_t)size);
	/* If cloisterd dies before this, the next start does it. */
	return ftruncate(fd, (off_t)size) < 0 && r == 0 ? -errno : r;
}

int journal_file_sync(const struct journal_file *journal)
{
	return fdatasync(journal->files[journal->current].fd) < 0 ? -errno : 0;
}

int journal_file_read(const struct journal_file *journal, struct journal_place place, char *buffer,
	struct journal_record *ret)
{
	ssize_t n = io_read(journal->files[place.file].fd, buffer, place.size, (off_t)place.offset);

	if (n < 0)
		return (int)n;
	return journal_record_get((struct text){buffer, (size_t)n}, ret) == (int)place.size
		       ? 0
		       : -EBADMSG;
}

void journal_file_close(struct journal_file *journal)
{
	for (unsigned i = 0; i < JOURNAL_FILES; i++)
		close_fd(&journal->files[i].fd);
}
