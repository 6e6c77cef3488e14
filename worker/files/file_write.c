// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process; file_write.h explains it. The tenant may rename anything meanwhile:
 * every name is used relative to the directory that root_place() verified, and no call here follows
 * a link of the tenant's.
 */
#include "worker/files/file_write.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "common/limits.h"
#include "common/path_rules.h"
#include "worker/files/edit/file_version.h"
#include "worker/files/file_attributes.h"
#include "worker/files/file_exchange.h"
#include "worker/files/file_settle.h"
#include "worker/files/file_write_state.h"
#include "worker/files/walk/dir_marks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

void file_write_fail(struct file_write *staged, enum tool_error error, const char *sentence)
{
	if (staged->error != TOOL_OK)
		return;
	staged->error = error;
	snprintf(staged->sentence, sizeof(staged->sentence), "%s", sentence);
}

/*
 * Whether the file system of @fd has free blocks but no or few free inodes. A few may be those of
 * directories that this write has made and removed again. A file system that allocates inodes on
 * demand (btrfs) reports a total of 0.
 */
static bool lacks_inodes(int fd)
{
	struct statfs statfs_buf;

	return fstatfs(fd, &statfs_buf) == 0 && statfs_buf.f_files > 0 &&
	       statfs_buf.f_ffree <= LIMIT_PATH_DEPTH && statfs_buf.f_bavail > 0;
}

static bool is_read_only(int fd)
{
	struct statfs statfs_buf;

	return fstatfs(fd, &statfs_buf) == 0 && statfs_buf.f_flags & ST_RDONLY;
}

/* Opens the deepest existing directory of the path with O_PATH. Returns the descriptor or -1. */
static int open_nearest(const struct file_write *staged)
{
	struct text path = {staged->path, staged->path_len};
	int fd;

	do {
		const char *slash = memrchr(path.data, '/', path.len);

		path.len = slash ? (size_t)(slash - path.data) : 0;
		if (root_open(staged->root, path.len > 0 ? path : TEXT_LITERAL("."),
			    O_PATH | O_DIRECTORY, &fd, NULL) == TOOL_OK)
			return fd;
	} while (path.len > 0);
	return -1;
}

/*
 * A removed directory can still be open, but nothing can be created in it. An overlay counts no
 * links of one that comes from a lower layer; no directory that was removed can be listed.
 */
static bool is_removed(int fd)
{
	_cleanup_close_ int directory = -1;
	char entry[512];
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_nlink == 0)
		return true;
	directory = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return directory >= 0 && getdents64(directory, entry, sizeof(entry)) < 0 && errno == ENOENT;
}

/* Returns a sentence if the directory cannot be written and is the user's own, or NULL. */
static const char *sentence_of_directory(int fd)
{
	static char sentence[160];
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
		faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
		return NULL;
	snprintf(sentence, sizeof(sentence),
		"The directory cannot be written (its mode is %04o), and a file is replaced by a "
		"new one in its directory: chmod u+wx the directory first",
		(unsigned)st.st_mode & 07777);
	return sentence;
}

/* Returns a sentence about @error_number that depends on this file system, or NULL. */
static const char *sentence_here(const struct file_write *staged, int error_number)
{
	_cleanup_close_ int fd = open_nearest(staged);
	const char *sentence;

	if (is_removed(staged->root->fd))
		return "The workspace's directory was removed from the host; nothing can be "
		       "written until the user opens another workspace";
	if (error_number == ENOSPC && fd >= 0 && lacks_inodes(fd))
		return "The file system has free space but no free inode for another file, and "
		       "the old content is unchanged; remove files that are not needed or "
		       "ask the user";
	if (error_number == EACCES && fd >= 0 && is_read_only(fd))
		return tool_errno_sentence(EROFS);
	if (error_number == EACCES && fd >= 0 && (sentence = sentence_of_directory(fd)))
		return sentence;
	return tool_errno_sentence(error_number);
}

void file_write_fail_errno(struct file_write *staged, int error_number)
{
	enum tool_error error = tool_error_from_errno(error_number);

	if (is_removed(staged->root->fd))
		error = TOOL_NOT_FOUND;
	file_write_fail(staged, error, sentence_here(staged, error_number));
}

void file_write_fail_place(struct file_write *staged, enum tool_error error)
{
	static const struct {
		enum tool_error error;
		int error_number;
	} errnos[] = {
		{TOOL_NO_SPACE, ENOSPC},
		{TOOL_PERMISSION_DENIED, EACCES},
		{TOOL_NOT_FOUND, ENOENT},
	};
	const struct text path = {staged->path, staged->path_len};
	const char *sentence = path_rules_sentence(error, path);

	if (error == TOOL_OK)
		return;
	/*
	 * tmpfs(5) makes files in a removed directory; only their naming fails, again and again. An
	 * overlay finds in the place of one from a lower layer what stands for its removal.
	 */
	if ((error == TOOL_BUSY || error == TOOL_NOT_A_DIRECTORY) && is_removed(staged->root->fd))
		error = TOOL_NOT_FOUND;
	if (error == TOOL_BUSY)
		sentence = "The file is being renamed by another process; try again";
	for (size_t i = 0; i < ARRAY_SIZE(errnos); i++)
		if (errnos[i].error == error)
			sentence = sentence_here(staged, errnos[i].error_number);
	file_write_fail(staged, error, sentence);
}

static bool old_file_exists(const struct stat *st)
{
	return st->st_mode != 0;
}

/* Whether a file of @mode may be replaced; 0 means that there is none. */
static enum tool_error judge_mode(mode_t mode)
{
	if (S_ISDIR(mode))
		return TOOL_IS_A_DIRECTORY;
	if (S_ISLNK(mode)) /* created after root_place() looked */
		return TOOL_BUSY;
	return S_ISREG(mode) || mode == 0 ? TOOL_OK : TOOL_NOT_A_REGULAR_FILE;
}

enum tool_error file_write_examine(const struct root_place *place, struct stat *ret_old)
{
	enum tool_error error;

	*ret_old = (struct stat){.st_mode = 0};
	if (fstatat(place->parent, place->name, ret_old, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? TOOL_OK : tool_error_from_errno(errno);
	error = judge_mode(ret_old->st_mode);
	if (error != TOOL_OK)
		return error;
	/*
	 * This check only avoids surprises: a rename needs just the directory's permission. It does
	 * not matter that it would follow a link that was created in between.
	 */
	if (faccessat(place->parent, place->name, W_OK, 0) < 0 && errno != ENOENT)
		return tool_error_from_errno(errno);
	return TOOL_OK;
}

/*
 * Finds the place of the file, again if a rename interfered. It only reports errors early: the
 * place is examined again before anything is replaced.
 */
static enum tool_error find_place(struct file_write *staged)
{
	const struct text path = {staged->path, staged->path_len};
	struct root_place *place = &staged->place;
	enum tool_error error = TOOL_BUSY;
	struct stat old;

	for (int i = 0; error == TOOL_BUSY && i < LIMIT_OPEN_RETRIES; i++) {
		made_dirs_undo(&place->made);
		root_place_done(place);
		error = root_place(staged->root, path, staged->create_dirs, place);
		if (error == TOOL_OK && place->parent < 0)
			error = TOOL_IS_A_DIRECTORY;
		if (error == TOOL_OK)
			error = place->looked_at ? judge_mode(place->mode)
						 : file_write_examine(place, &old);
	}
	return error;
}

/*
 * Keeps sweeps from the temporary name, before the name exists. Where no mark can be set, a sweep
 * still finds the new file open for writing, and a directory that cannot be read it does not read.
 */
static int mark_directory(struct file_write *staged)
{
	int fd = dir_mark_call(staged->place.parent, staged->call);

	close_fd(&staged->marks);
	if (fd < 0)
		return fd == -EOPNOTSUPP ? 0 : fd;
	staged->marks = fd;
	return 0;
}

/* O_EXCL: a name that the tenant has put in the way is removed once, never written through. */
static int create_named(struct file_write *staged)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd, r = mark_directory(staged);

	if (r < 0)
		return r;
	fd = openat(staged->place.parent, staged->temporary, flags, 0666);
	if (fd < 0 && errno == EEXIST) {
		unlinkat(staged->place.parent, staged->temporary, 0);
		fd = openat(staged->place.parent, staged->temporary, flags, 0666);
	}
	if (fd < 0)
		return -errno;
	staged->named = true;
	return fd;
}

static int create_temporary(struct file_write *staged)
{
	int fd;

	/* Naming an O_TMPFILE file needs procfs. */
	if (staged->root->proc_self_fd < 0)
		return create_named(staged);
	fd = openat(staged->place.parent, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (fd >= 0)
		return fd;
	/* Kernels and file systems without O_TMPFILE answer EISDIR. */
	if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
		return create_named(staged);
	return -errno;
}

static struct file_write *write_new(
	const struct root *root, const struct files_write *request, uint64_t call)
{
	struct file_write *staged = calloc(1, sizeof(*staged));

	if (!staged)
		return NULL;
	staged->root = root;
	staged->place = ROOT_PLACE_NONE;
	staged->fd = -1;
	staged->marks = -1;
	staged->old_fd = -1;
	staged->source = FILE_SOURCE_NONE;
	staged->version = file_version_new();
	staged->size = request->streamed ? UINT64_MAX : request->size;
	staged->streamed = request->streamed;
	staged->mode = request->mode;
	staged->call = call;
	staged->durable = request->durable;
	staged->look = request->look;
	staged->create_dirs = request->create_dirs;
	staged->path_len = request->path.len;
	staged->path = malloc(request->path.len + 1);
	staged->attributes_len = request->attributes.len;
	if (request->sets_attributes)
		staged->attributes = malloc(request->attributes.len + 1);
	if (!staged->path || (request->sets_attributes && !staged->attributes)) {
		file_write_free(staged);
		return NULL;
	}
	if (request->path.len > 0)
		memcpy(staged->path, request->path.data, request->path.len);
	if (staged->attributes && request->attributes.len > 0)
		memcpy(staged->attributes, request->attributes.data, request->attributes.len);
	if (request->expect.len > 0)
		memcpy(staged->expect, request->expect.data, request->expect.len);
	snprintf(staged->temporary, sizeof(staged->temporary), ".cloister-%016" PRIx64, call);
	return staged;
}

int file_write_begin(const struct root *root, const struct files_write *request, uint64_t call,
	struct file_write **ret_write)
{
	struct file_write *staged = write_new(root, request, call);
	int fd;

	if (!staged)
		return -ENOMEM;
	*ret_write = staged;
	file_write_fail_place(staged, find_place(staged));
	if (staged->error != TOOL_OK)
		return 0;
	fd = create_temporary(staged);
	if (fd < 0)
		file_write_fail_errno(staged, -fd);
	else
		staged->fd = fd;
	return 0;
}

bool file_write_has_failed(const struct file_write *staged)
{
	return staged->error != TOOL_OK;
}

void file_write_append(struct file_write *staged, const void *data, size_t len)
{
	int r;

	/* More than announced makes commit fail, so the surplus need not fill the disk. */
	staged->received += len;
	if (staged->received > staged->size)
		return;
	file_version_add(staged->version, data, len);
	r = staged->error == TOOL_OK ? io_write(staged->fd, data, len, IO_POSITION) : 0;
	if (r < 0)
		file_write_fail_errno(staged, -r);
}

static int link_to(const struct file_write *staged, const char *name)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", staged->fd);
	if (linkat(staged->root->proc_self_fd, number, staged->place.parent, name,
		    AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return 0;
}

int file_write_name(struct file_write *staged)
{
	int r;

	if (staged->named)
		return 0;
	r = mark_directory(staged);
	if (r == 0)
		r = link_to(staged, staged->temporary);
	if (r == -EEXIST) {
		unlinkat(staged->place.parent, staged->temporary, 0);
		r = link_to(staged, staged->temporary);
	}
	if (r == 0)
		staged->named = true;
	return r;
}

/* Like link_to(), for a temporary that has a name: returns -EEXIST if @name exists. */
static int rename_to(struct file_write *staged, const char *name)
{
	int dir = staged->place.parent;

	if (renameat2(dir, staged->temporary, dir, name, RENAME_NOREPLACE) == 0) {
		staged->named = false;
		return 0;
	}
	/*
	 * Some file systems have neither O_TMPFILE nor RENAME_NOREPLACE; there file_write_examine()
	 * must do.
	 */
	if (errno == EINVAL && renameat(dir, staged->temporary, dir, name) == 0) {
		staged->named = false;
		return 0;
	}
	return -errno;
}

static int replace_expected(struct file_write *staged)
{
	return file_exchange(&(struct file_exchange){.call = staged->call,
				     .parent = staged->place.parent,
				     .marks = staged->marks,
				     .temporary = staged->temporary,
				     .name = staged->place.name,
				     .new_fd = staged->fd,
				     .old_fd = staged->old_fd,
				     .old_content = staged->old_content},
		&staged->named);
}

static int replace_by_rename(struct file_write *staged)
{
	int r = file_write_name(staged);

	if (r == 0 && staged->old_fd >= 0)
		return replace_expected(staged);
	if (r < 0)
		return r;
	if (renameat(staged->place.parent, staged->temporary, staged->place.parent,
		    staged->place.name) < 0)
		return -errno;
	staged->named = false;
	return 0;
}

/* The file does not have the version that the call expects. */
static int fail_stale(struct file_write *staged, const char *version)
{
	if (staged->held)
		file_write_fail(staged, TOOL_STALE_FILE,
			"Another process changed the file while the call was recorded; read it "
			"again. Nothing was written");
	else if (strcmp(staged->expect, FILE_WRITE_ABSENT) == 0)
		file_write_fail(staged, TOOL_STALE_FILE,
			"The file exists, and expect is \"absent\": read it, or leave expect out "
			"to "
			"replace it. Nothing was written");
	else if (!version)
		file_write_fail(staged, TOOL_STALE_FILE,
			"The file does not exist any more: leave expect out to make it anew. "
			"Nothing was written");
	else
		file_write_fail(staged, TOOL_STALE_FILE,
			"The file has changed since the version in expect: read it again and "
			"decide anew. Nothing was written");
	return -ERROR_CHANGED;
}

/*
 * Reads the file to be replaced and compares its version with the one that the call expects.
 * Returns 0, or -ERROR_CHANGED or another -errno.
 */
static int check_version(struct file_write *staged, const struct stat *old)
{
	struct file_source *source = &staged->source;
	char version[FILES_VERSION_BYTES + 1];
	int r;

	if (strcmp(staged->expect, FILE_WRITE_ABSENT) == 0)
		return old_file_exists(old) ? fail_stale(staged, NULL) : 0;
	if (!old_file_exists(old))
		return fail_stale(staged, NULL);
	file_source_done(source);
	source->fd = openat(staged->place.parent, staged->place.name,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	r = source->fd < 0 ? -errno : file_source_read(source);
	if (r == -EFBIG || r == -EAGAIN || r == -ENOENT)
		return fail_stale(staged, NULL);
	if (r < 0)
		return r;
	if (strcmp(file_version_of(file_source_text(source), version), staged->expect) != 0)
		return fail_stale(staged, version);
	file_write_expect(staged, source->fd, file_source_text(source));
	return 0;
}

void file_write_expect(struct file_write *staged, int fd, struct text content)
{
	staged->old_fd = fd;
	staged->old_content = content;
}

int file_write_ready(struct file_write *staged, const struct stat *old)
{
	int r = 0;

	if (old_file_exists(old))
		r = file_attributes_keep(staged->fd, staged->place.parent, staged->place.name, old);
	if (r == 0 && staged->attributes)
		r = file_attributes_set(
			staged->fd, (struct text){staged->attributes, staged->attributes_len});
	if (r == 0 && staged->mode > 0 && fchmod(staged->fd, staged->mode) < 0)
		r = -errno;
	if (r == 0 && staged->durable && fsync(staged->fd) < 0)
		r = -errno;
	return r;
}

/*
 * Tries once to give the file its name. Returns 0 or -errno; -EEXIST if a file has appeared there.
 */
static int publish(struct file_write *staged, const struct stat *old)
{
	int r = staged->expect[0] ? check_version(staged, old) : 0;

	if (r == 0 && staged->old_fd >= 0 && !old_file_exists(old))
		r = -ERROR_CHANGED;
	if (r == 0 && !staged->prepared)
		r = file_write_ready(staged, old);
	if (r < 0)
		return r;
	if (old_file_exists(old))
		return replace_by_rename(staged);
	return staged->named ? rename_to(staged, staged->place.name)
			     : link_to(staged, staged->place.name);
}

/*
 * Finds or makes the target directory again if it is gone. Another write that failed may have
 * removed a directory that it had made and this one was about to use.
 */
static bool found_again(struct file_write *staged)
{
	if (!staged->create_dirs || staged->named || !is_removed(staged->place.parent))
		return false;
	return find_place(staged) == TOOL_OK;
}

/*
 * Gives the file its name and stores the status of the file that it replaces in @ret_old. Returns 0
 * or -errno.
 */
static int publish_somehow(struct file_write *staged, struct stat *ret_old)
{
	int r = -EEXIST;

	for (int i = 0; r == -EEXIST && i < LIMIT_OPEN_RETRIES; i++) {
		file_write_fail_place(staged, file_write_examine(&staged->place, ret_old));
		if (staged->error != TOOL_OK)
			return 0;
		r = publish(staged, ret_old);
		if (r < 0 && r != -EEXIST && found_again(staged))
			r = -EEXIST;
	}
	return r;
}

static void put_in_place(struct file_write *staged)
{
	struct stat old;
	int r = publish_somehow(staged, &old);

	if (r == -EEXIST && strcmp(staged->expect, FILE_WRITE_ABSENT) == 0)
		r = fail_stale(staged, NULL);
	if (r == -EEXIST)
		file_write_fail_place(staged, TOOL_BUSY);
	else if (r == -ERROR_CHANGED)
		file_write_fail(staged, TOOL_STALE_FILE,
			"Another process changed the file during the call; read it again. Nothing "
			"was written");
	else if (r == -ERROR_NO_TURN)
		file_write_fail(staged, TOOL_BUSY,
			"Another process edits the file at this moment; try again. Nothing was "
			"written");
	else if (r < 0)
		file_write_fail_errno(staged, -r);
	if (staged->error != TOOL_OK)
		return;
	staged->published = true;
	staged->created = !old_file_exists(&old);
	if (!staged->durable)
		return;
	r = file_settle_directory(staged->place.parent);
	if (r < 0)
		file_write_fail(staged, tool_error_from_errno(-r),
			"The file was written, but its directory could not be synced to disk");
}

enum tool_error file_write_publish(struct file_write *staged)
{
	if (!staged->streamed && staged->received != staged->size)
		file_write_fail(staged, TOOL_EXECUTION_ERROR,
			"cloisterd did not send as many bytes of content as it announced");
	if (staged->error == TOOL_OK)
		put_in_place(staged);
	return staged->error;
}

const char *file_write_path(const struct file_write *staged)
{
	return staged->place.path;
}

const char *file_write_sentence(const struct file_write *staged)
{
	return staged->sentence;
}

/* Writes the version of the file that is there to @version; "" if it is too large to read. */
static int version_there(
	const struct file_write *staged, const struct stat *old, char *version, uint64_t *ret_size)
{
	struct file_source source = FILE_SOURCE_NONE;
	int r;

	if (!old_file_exists(old)) {
		memcpy(version, FILE_WRITE_ABSENT, sizeof(FILE_WRITE_ABSENT));
		return 0;
	}
	source.fd = openat(staged->place.parent, staged->place.name,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	/* One that may be written and not read is replaced without a look, as ever. */
	r = source.fd < 0 ? (errno == EACCES ? -EFBIG : -errno) : file_source_read(&source);
	if (r == 0) {
		file_version_of(file_source_text(&source), version);
		*ret_size = source.len;
	}
	file_source_done(&source);
	return r == -EFBIG || r == -EAGAIN ? 0 : r;
}

bool file_write_hold(struct file_write *staged, struct reply *reply)
{
	char before[FILES_VERSION_BYTES + 1] = "", after[FILES_VERSION_BYTES + 1];
	struct files_held held = {0};
	struct stat old;
	int r = 0;

	if (staged->error == TOOL_OK)
		file_write_fail_place(staged, file_write_examine(&staged->place, &old));
	if (staged->error == TOOL_OK && staged->look && staged->durable)
		r = file_settle(staged->root, (struct text){staged->path, staged->path_len});
	if (staged->error == TOOL_OK && r == 0)
		r = version_there(staged, &old, before, &held.size);
	if (r < 0)
		file_write_fail_errno(staged, -r);
	if (staged->error != TOOL_OK) {
		reply_error(reply, staged->error, "%s", staged->sentence);
		return false;
	}
	if (!staged->expect[0]) {
		staged->held = true;
		memcpy(staged->expect, before, sizeof(staged->expect));
	}
	held.before = text_from(before);
	held.after = text_from(file_version_text(staged->version, after));
	reply_held(reply, &held);
	return true;
}

void file_write_commit(struct file_write *staged, struct reply *reply)
{
	char version[FILES_VERSION_BYTES + 1];

	if (file_write_publish(staged) != TOOL_OK) {
		reply_error(reply, staged->error, "%s", staged->sentence);
		return;
	}
	reply_end(reply, &(struct files_end){
				 .path = text_from(staged->place.path),
				 .size = staged->received,
				 .created = staged->created,
				 .version = text_from(file_version_text(staged->version, version)),
			 });
}

void file_write_free(struct file_write *staged)
{
	if (!staged)
		return;
	if (staged->named)
		unlinkat(staged->place.parent, staged->temporary, 0);
	close_fd(&staged->marks);
	close_fd(&staged->fd);
	file_source_done(&staged->source);
	file_version_free(staged->version);
	if (!staged->published)
		made_dirs_undo(&staged->place.made);
	root_place_done(&staged->place);
	free(staged->attributes);
	free(staged->path);
	free(staged);
}
