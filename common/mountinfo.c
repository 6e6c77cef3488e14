// SPDX-License-Identifier: Apache-2.0
#include "common/mountinfo.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>

#define FIRST_BYTES (16 * KIB) /* enough for the file on most hosts */

int mountinfo_read(const char *path, struct text *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *data = malloc(FIRST_BYTES);
	size_t len = 0, size = FIRST_BYTES;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (!data)
		return -ENOMEM;
	while ((n = read(fd, data + len, size - len)) > 0) {
		char *more = data;

		len += (size_t)n;
		if (len == LIMIT_MOUNTINFO_BYTES)
			return -EMSGSIZE;
		if (len == size)
			more = realloc(data, size *= 2);
		if (!more)
			return -ENOMEM;
		data = more;
	}
	if (n < 0)
		return -errno;
	*ret = (struct text){TAKE_PTR(data), len};
	return 0;
}

static bool is_octal(const char *digits)
{
	return digits[0] >= '0' && digits[0] <= '3' && digits[1] >= '0' && digits[1] <= '7' &&
	       digits[2] >= '0' && digits[2] <= '7';
}

/*
 * Copies @field to @ret, which holds PATH_MAX bytes, and decodes octal escapes such as \040. Stores
 * "" if the field is not a path.
 */
static void unescape_mount_field(struct text field, char *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < field.len && n + 1 < PATH_MAX; i++) {
		const char *c = field.data + i;

		if (*c == '\\' && field.len - i > 3 && is_octal(c + 1)) {
			ret[n++] = (char)((c[1] - '0') << 6 | (c[2] - '0') << 3 | (c[3] - '0'));
			i += 3;
		} else {
			ret[n++] = *c;
		}
	}
	ret[ret[0] == '/' && n + 1 < PATH_MAX ? n : 0] = '\0';
}

static bool parse_mountinfo(struct text line, struct mountinfo_entry *ret)
{
	struct text field;

	for (int i = 0; i < 3; i++)
		(void)text_take(&line, ' '); /* skip mount id, parent id and device */
	unescape_mount_field(text_take(&line, ' '), ret->root);
	unescape_mount_field(text_take(&line, ' '), ret->point);
	do
		/* skip mount options and the optional fields up to "-" */
		field = text_take(&line, ' ');
	while (field.len > 0 && !text_equal(field, TEXT_LITERAL("-")));
	ret->type = text_take(&line, ' ');
	return ret->type.len > 0;
}

bool mountinfo_next(struct text *text, struct mountinfo_entry *ret)
{
	while (text->len > 0)
		if (parse_mountinfo(text_take(text, '\n'), ret))
			return true;
	return false;
}
