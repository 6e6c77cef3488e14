/* links: cloister-unpack-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * An archive of any bytes, as an import and as layers of an image. Nothing outside of the template
 * changes, the template has files, directories and symbolic links only, none with set-user-ID or
 * set-group-ID, and no more of them and no more bytes than its bounds say.
 *
 * Input: one byte, then the archive. If that byte is odd, blocks that say "ustar" get the right
 * checksum, because most mutations would not get past it; if its next bit is set, it is a layer,
 * above one with links that lead out.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tar_checksums.h"
#include "tests/lib/scratch.h"
#include "worker/unpack/unpack_archive.h"

#include <errno.h>
#include <sys/mman.h>

#define BYTES (1 * MIB)
#define FILES 64
#define BLOCK 512

static uint64_t found_files, found_bytes;

static int check_one(const char *path, const struct stat *stat_buf, int type, struct FTW *place)
{
	(void)path;
	(void)type;
	found_files += place->level > 0;
	found_bytes += S_ISREG(stat_buf->st_mode) ? (uint64_t)stat_buf->st_blocks * BLOCK : 0;
	CHECK((stat_buf->st_mode & 06000) == 0);
	CHECK(S_ISREG(stat_buf->st_mode) || S_ISDIR(stat_buf->st_mode) ||
		S_ISLNK(stat_buf->st_mode));
	return 0;
}

static void check_outside(const struct scratch *scratch)
{
	struct stat stat_buf;

	CHECK(fstatat(scratch->fd, "out", &stat_buf, 0) == 0 && stat_buf.st_nlink == 2);
	CHECK(fstatat(scratch->fd, "out/f", &stat_buf, 0) == 0);
	CHECK(stat_buf.st_nlink == 1 && stat_buf.st_size == 7);
	CHECK(fstatat(scratch->fd, ".", &stat_buf, 0) == 0 && stat_buf.st_nlink == 4);
}

static void prepare_below(struct unpack_tree *tree)
{
	const struct unpack_entry link = {.path = "a"}, other = {.path = "etc/l"};

	unpack_tree_next_layer(tree);
	CHECK(unpack_tree_symlink(tree, &link, "../out") == 0);
	CHECK(unpack_tree_symlink(tree, &other, "../../out/f") == 0);
	unpack_tree_next_layer(tree);
}

static int read_archive(struct unpack_tree *tree, int archive, enum unpack_pass pass)
{
	static struct unpack_source source;

	unpack_source_init(&source, archive);
	return unpack_archive(tree, &source, pass);
}

static void unpack(int archive, bool layer)
{
	struct scratch scratch = scratch_new();
	struct unpack_tree tree;
	char top[300];
	int root, r;

	scratch_text(&scratch, "out/f", "outside");
	CHECK(mkdirat(scratch.fd, "to", 0700) == 0);
	root = openat(scratch.fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(root >= 0 && unpack_tree_init(&tree, root, BYTES, FILES) == 0);
	if (layer)
		prepare_below(&tree);
	r = layer ? read_archive(&tree, archive, UNPACK_WHITEOUTS) : 0;
	if (r == 0)
		r = read_archive(&tree, archive, layer ? UNPACK_ENTRIES : UNPACK_ALL);
	if (r == 0)
		r = unpack_tree_finish(&tree);
	CHECK((r == -UNPACK_REFUSAL) == (tree.report.fault != UNPACK_NONE));
	check_outside(&scratch);
	found_files = found_bytes = 0;
	snprintf(top, sizeof(top), "%s/to", scratch.path);
	CHECK(nftw(top, check_one, 16, FTW_PHYS) == 0);
	CHECK(found_files <= FILES && found_bytes <= BYTES);
	unpack_tree_done(&tree);
	close(root);
	scratch_done(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size);
	uint8_t how = fuzz_byte(&rest);
	char *copy = fuzz_copy(rest);
	int archive = memfd_create("archive", MFD_CLOEXEC);

	if (how & 1)
		set_checksums(copy, rest.len);
	CHECK(archive >= 0 && write(archive, copy, rest.len) == (ssize_t)rest.len);
	unpack(archive, how & 2);
	close(archive);
	free(copy);
	return 0;
}
