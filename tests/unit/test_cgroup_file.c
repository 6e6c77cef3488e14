// SPDX-License-Identifier: Apache-2.0
/* Reads a cgroup's files: as the kernel writes them, and malformed. */
#include "common/cgroup_file.h"
#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"

TEST(test_flat_keys)
{
	const struct text events = TEXT_LITERAL("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n"
						"oom_group_kill 1\n");
	uint64_t value = 77;

	assert_int_equal(cgroup_key(events, "oom_kill", &value), 0);
	assert_int_equal(value, 2);
	assert_int_equal(cgroup_key(events, "oom", &value), 0);
	assert_int_equal(value, 3);
	assert_int_equal(cgroup_key(events, "oom_", &value), -ENOENT);
	assert_int_equal(cgroup_key(events, "", &value), -ENOENT);
	assert_int_equal(cgroup_key((struct text){NULL, 0}, "max", &value), -ENOENT);
	assert_int_equal(cgroup_key(TEXT_LITERAL("max 18446744073709551615"), "max", &value), 0);
	assert_true(value == UINT64_MAX);
}

TEST(test_malformed_keys)
{
	static const char *const texts[] = {"max", "max ", "max -1\n", "max 1 2\n", "max 0x1\n",
		"max 18446744073709551616\n", "max 99999999999999999999\n", "max max\n", "max  1\n",
		"low 1\nmax \n"};
	uint64_t value = 77;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(cgroup_key(text_from(texts[i]), "max", &value), -EBADMSG);
	assert_int_equal(value, 77);
}

TEST(test_io)
{
	uint64_t bytes_read = 7, bytes_written = 7;

	assert_int_equal(
		cgroup_io_total(TEXT_LITERAL("254:0 rbytes=4096 wbytes=10 rios=1 wios=2 dbytes=0 "
					     "dios=0\n8:16 rbytes=1 wbytes=0 rios=1 wios=0\n"),
			&bytes_read, &bytes_written),
		0);
	assert_int_equal(bytes_read, 4097);
	assert_int_equal(bytes_written, 10);
	/* A device without figures, as some kernels list it; and no device. */
	assert_int_equal(
		cgroup_io_total(TEXT_LITERAL("7:0\n254:0 rbytes=5\n"), &bytes_read, &bytes_written),
		0);
	assert_int_equal(bytes_read, 5);
	assert_int_equal(bytes_written, 0);
	assert_int_equal(cgroup_io_total((struct text){NULL, 0}, &bytes_read, &bytes_written), 0);
	assert_int_equal(bytes_read, 0);
}

TEST(test_malformed_io)
{
	static const char *const texts[] = {"8:0 rbytes=\n", "8:0 rbytes\n", "8:0 wbytes=1x\n",
		"8:0 rbytes=18446744073709551615\n8:1 rbytes=1\n",
		"8:0 rbytes=1 wbytes=99999999999999999999"};
	uint64_t bytes_read = 7, bytes_written = 7;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(cgroup_io_total(text_from(texts[i]), &bytes_read, &bytes_written),
			-EBADMSG);
	assert_int_equal(bytes_read, 7);
	assert_int_equal(bytes_written, 7);
}

TEST(test_controllers)
{
	assert_int_equal(
		cgroup_controllers(TEXT_LITERAL("cpuset cpu io memory hugetlb pids rdma misc\n")),
		CGROUP_CONTROLLERS_END - 1);
	assert_int_equal(cgroup_controllers(TEXT_LITERAL("pids")), CGROUP_PIDS);
	assert_int_equal(cgroup_controllers(TEXT_LITERAL("memor cpus  ioio\n")), 0);
	assert_int_equal(cgroup_controllers(TEXT_LITERAL("\n")), 0);
	assert_int_equal(cgroup_controllers((struct text){NULL, 0}), 0);
}

static void put(int directory, const char *name, size_t size)
{
	_cleanup_close_ int fd = openat(directory, name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	_cleanup_free_ char *data = malloc(size + 1);

	assert_true(fd >= 0 && data);
	memset(data, '1', size);
	assert_int_equal(write(fd, data, size), size);
}

TEST_WITH(test_files, scratch_set_up, scratch_tear_down)
{
	char buffer[CGROUP_FILE_BYTES];
	_cleanup_close_ int directory = -1;
	struct text text = {NULL, 0};
	uint64_t value;

	directory = open(scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(cgroup_read(directory, "none", buffer, &text), -ENOENT);
	assert_int_equal(cgroup_write(directory, "none", "1"), -ENOENT);
	put(directory, "file", CGROUP_FILE_BYTES - 1);
	assert_int_equal(cgroup_read(directory, "file", buffer, &text), 0);
	assert_int_equal(text.len, CGROUP_FILE_BYTES - 1);
	assert_int_equal(buffer[text.len], '\0');
	assert_int_equal(cgroup_read_number(directory, "file", &value), -EBADMSG);
	put(directory, "file", CGROUP_FILE_BYTES);
	assert_int_equal(cgroup_read(directory, "file", buffer, &text), -EMSGSIZE);
	put(directory, "file", 0);
	assert_int_equal(cgroup_read_number(directory, "file", &value), -EBADMSG);
	assert_int_equal(cgroup_write_number(directory, "file", 8589934592), 0);
	assert_int_equal(cgroup_read_number(directory, "file", &value), 0);
	assert_int_equal(value, 8589934592);
	/* A link is not followed. */
	assert_int_equal(symlinkat("file", directory, "link"), 0);
	assert_int_equal(cgroup_write(directory, "link", "1"), -ELOOP);
}
