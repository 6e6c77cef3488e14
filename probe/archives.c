// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program: writes the archives that the self-test imports, tar
 * files with one or two entries each, and lets cloister's own user read them.
 */
#include "probe/probe.h"

#include <fcntl.h>

#define BLOCK 512

/* The header of an entry of a tar file. tar(5) */
struct header {
	char name[100];
	char mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
	char type;
	char target[100];
	char magic[8];
	char user[32], group[32], major[8], minor[8];
	char rest[167];
};

_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

/* The types of entries. */
enum { REGULAR = '0', HARD_LINK = '1', SYMBOLIC_LINK = '2', CHARACTER_DEVICE = '3' };

struct entry {
	const char *name;
	char type; /* 0: there is no such entry */
	const char *mode, *target;
};

/* The names of the files are those of the suite's imports. */
static const struct {
	const char *file;
	struct entry entries[2];
} archives[] = {
	{"archive-parent", {{"../escaped", REGULAR, "0000644", ""}}},
	{"archive-parent-inside", {{"a/../../escaped", REGULAR, "0000644", ""}}},
	{"archive-absolute", {{"/tmp/escaped", REGULAR, "0000644", ""}}},
	{"archive-link", {{"out", SYMBOLIC_LINK, "0000777", "/tmp"},
				 {"out/escaped", REGULAR, "0000644", ""}}},
	{"archive-link-up",
		{{"out", SYMBOLIC_LINK, "0000777", ".."}, {"out/escaped", REGULAR, "0000644", ""}}},
	{"archive-hard-link", {{"passwd", HARD_LINK, "0000644", "/etc/passwd"}}},
	{"archive-hard-link-up", {{"passwd", HARD_LINK, "0000644", "../../../etc/passwd"}}},
	{"archive-hard-link-link", {{"out", SYMBOLIC_LINK, "0000777", "/etc"},
					   {"passwd", HARD_LINK, "0000644", "out/passwd"}}},
	{"archive-device", {{"null", CHARACTER_DEVICE, "0000666", ""}}},
	{"archive-set-id", {{"program", REGULAR, "0006755", ""}}},
};

static void put_tar_field(char *to, const char *text)
{
	while (*text)
		*to++ = *text++;
}

static void put_octal(char *to, unsigned digits, unsigned number)
{
	for (; digits > 0; number /= 8)
		to[--digits] = (char)('0' + number % 8);
}

/* Returns the header of @entry, which has no content. */
static const struct header *header_of(const struct entry *entry)
{
	static struct header header;
	unsigned sum = 0;

	header = (struct header){.type = entry->type};
	put_tar_field(header.name, entry->name);
	put_tar_field(header.mode, entry->mode);
	put_tar_field(header.uid, "0000000");
	put_tar_field(header.gid, "0000000");
	put_tar_field(header.size, "00000000000");
	put_tar_field(header.mtime, "00000000000");
	put_tar_field(header.checksum, "        ");
	put_tar_field(header.target, entry->target);
	put_tar_field(header.magic, "ustar");
	put_tar_field(header.magic + 6, "00");
	put_octal(header.major, 7, 1);
	put_octal(header.minor, 7, 3);
	for (unsigned i = 0; i < sizeof(header); i++)
		sum += ((const unsigned char *)&header)[i];
	put_octal(header.checksum, 6, sum);
	header.checksum[6] = '\0';
	return &header;
}

static long write_archive(const char *file, const struct entry entries[2])
{
	static const char end[2 * BLOCK];
	long fd = RAW4(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	long r = fd;

	for (unsigned i = 0; r >= 0 && i < 2 && entries[i].type; i++)
		r = RAW3(SYS_write, fd, header_of(&entries[i]), BLOCK);
	if (r >= 0)
		r = RAW3(SYS_write, fd, end, sizeof(end));
	/* whatever the umask is */
	if (r >= 0)
		r = RAW2(SYS_fchmod, fd, 0644);
	if (fd >= 0)
		RAW1(SYS_close, fd);
	return r;
}

/* In system mode cloister's own user is another one. It may go through the workspace then. */
static const char *write_archives(void)
{
	long r = RAW3(SYS_fchmodat, AT_FDCWD, ".", 0711);

	for (unsigned i = 0; r >= 0 && i < sizeof(archives) / sizeof(archives[0]); i++)
		r = write_archive(archives[i].file, archives[i].entries);
	return probe_answer(r);
}

const struct probe probes_of_archives[] = {
	{"archive-write", write_archives},
	{NULL, NULL},
};
