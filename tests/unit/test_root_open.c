/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include <sys/un.h>

#include "tests/lib/files_fixture.h"
#include "tests/lib/rounds.h"
#include "tests/lib/unit.h"

struct open_case {
	const char *path; /* "@" stands for the visible root */
	enum tool_error error;
	const char *content;  /* of a regular file; NULL: it is a directory */
	const char *reported; /* path */
};

#define OUTSIDE      TOOL_PATH_OUTSIDE_WORKSPACE
#define LINK_OUTSIDE TOOL_SYMLINK_OUTSIDE_WORKSPACE
#define NAME_256                                                           \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct open_case cases[] = {
	{"file", TOOL_OK, "inside\n", "file"},
	{"./dir//sub/./deep", TOOL_OK, "deep\n", "dir/sub/deep"},
	{"@/file", TOOL_OK, "inside\n", "file"},
	{"@//dir/file", TOOL_OK, "in dir\n", "dir/file"},
	{".", TOOL_OK, NULL, "."},
	{"@", TOOL_OK, NULL, "."},
	{"dir/", TOOL_OK, NULL, "dir"},
	{"dir/..", TOOL_OK, NULL, "."},
	{"dir/../file", TOOL_OK, "inside\n", "file"},
	{"dir/sub/../../dir/./file", TOOL_OK, "in dir\n", "dir/file"},
	{"a\\b", TOOL_OK, "backslash\n", "a\\b"},

	{"link", TOOL_OK, "inside\n", "link"},
	{"dirlink/sub/deep", TOOL_OK, "deep\n", "dirlink/sub/deep"},
	{"dir/uplink", TOOL_OK, "inside\n", "dir/uplink"},
	/* the result differs from what the string suggests */
	{"deepup/../file", TOOL_OK, "in dir\n", "dir/file"},
	{"deepup/../../file", TOOL_OK, "inside\n", "file"},
	{"abs", TOOL_OK, "in dir\n", "abs"},
	{"dir/back", TOOL_OK, "inside\n", "dir/back"},
	{"dir/sub/../back", TOOL_OK, "inside\n", "file"},
	{"absroot/file", TOOL_OK, "inside\n", "absroot/file"},
	{"absroot/absroot/dir/../dirlink/sub/deep", TOOL_OK, "deep\n", "dir/sub/deep"},
	{"chain39", TOOL_OK, "inside\n", "chain39"},
	{"abschain", TOOL_OK, "inside\n", "abschain"},

	{"out", LINK_OUTSIDE, NULL, NULL},
	{"outdir/secret", LINK_OUTSIDE, NULL, NULL},
	{"relout", LINK_OUTSIDE, NULL, NULL},
	{"up/outside/secret", LINK_OUTSIDE, NULL, NULL},
	{"absup", LINK_OUTSIDE, NULL, NULL},
	{"beside", LINK_OUTSIDE, NULL, NULL},
	{"dirlink/../relout", LINK_OUTSIDE, NULL, NULL},

	{"/etc/passwd", OUTSIDE, NULL, NULL},
	{"@x/file", OUTSIDE, NULL, NULL},
	{"../outside/secret", OUTSIDE, NULL, NULL},
	{"dir/../../outside/secret", OUTSIDE, NULL, NULL},
	{"missing/../../outside/secret", OUTSIDE, NULL, NULL},
	{"file/../../outside/secret", OUTSIDE, NULL, NULL},
	{"dirlink/../../outside/secret", OUTSIDE, NULL, NULL},
	{"deepup/../../../outside/secret", OUTSIDE, NULL, NULL},
	{"absroot/../outside/secret", OUTSIDE, NULL, NULL},
	{"@/../outside/secret", OUTSIDE, NULL, NULL},
	{"dir/../../ws/file", OUTSIDE, NULL, NULL}, /* also if the path comes back inside */

	{"", TOOL_INVALID_ARGUMENTS, NULL, NULL},
	{"missing", TOOL_NOT_FOUND, NULL, NULL},
	{"missing/../file", TOOL_NOT_FOUND, NULL, NULL},
	{"dangling", TOOL_NOT_FOUND, NULL, NULL},
	{"file/x", TOOL_NOT_A_DIRECTORY, NULL, NULL},
	{"file/", TOOL_NOT_A_DIRECTORY, NULL, NULL},
	{"file/.", TOOL_NOT_A_DIRECTORY, NULL, NULL},
	{"file/..", TOOL_NOT_A_DIRECTORY, NULL, NULL},
	{"slash", TOOL_NOT_A_DIRECTORY, NULL, NULL},
	{"self", TOOL_TOO_MANY_LINKS, NULL, NULL},
	{"loop1/x", TOOL_TOO_MANY_LINKS, NULL, NULL},
	{"absloop", TOOL_TOO_MANY_LINKS, NULL, NULL},
	{"chain40", TOOL_TOO_MANY_LINKS, NULL, NULL},
	{NAME_256, TOOL_NAME_TOO_LONG, NULL, NULL},
	{"long", TOOL_NAME_TOO_LONG, NULL, NULL},
	{"fifo", TOOL_NOT_A_REGULAR_FILE, NULL, NULL},
	{"socket", TOOL_NOT_A_REGULAR_FILE, NULL, NULL},
	{"noread", TOOL_PERMISSION_DENIED, NULL, NULL},
	{"nosearch/x", TOOL_PERMISSION_DENIED, NULL, NULL},
};

static void make_chain(int dir)
{
	put_link(dir, "chain0", "", "file");
	for (int i = 1; i <= 40; i++) {
		char name[16], target[16];

		snprintf(name, sizeof(name), "chain%d", i);
		snprintf(target, sizeof(target), "chain%d", i - 1);
		put_link(dir, name, "", target);
	}
}

static void make_socket(const struct fixture *fixture)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", fixture->visible);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void make_links(const struct fixture *fixture)
{
	int ws = fixture->ws;

	put_link(ws, "link", "", "file");
	put_link(ws, "dirlink", "", "dir");
	put_link(ws, "dir/uplink", "", "../file");
	put_link(ws, "deepup", "", "dir/sub");
	put_link(ws, "abs", fixture->visible, "/dir/file");
	put_link(ws, "absroot", fixture->visible, "");
	put_link(ws, "dir/back", fixture->visible, "/file");
	put_link(ws, "abschain", fixture->visible, "/dirlink/../abschain2");
	put_link(ws, "abschain2", fixture->visible, "//absroot/./link");
	put_link(ws, "out", "", "/etc/passwd");
	put_link(ws, "outdir", fixture->base, "/outside");
	put_link(ws, "relout", "", "../outside/secret");
	put_link(ws, "up", "", "..");
	put_link(ws, "absup", fixture->visible, "/../outside/secret");
	put_link(ws, "beside", fixture->visible, "x/file");
	put_link(ws, "dangling", "", "nothing");
	put_link(ws, "slash", "", "file/");
	put_link(ws, "self", "", "self");
	put_link(ws, "loop1", "", "loop2");
	put_link(ws, "loop2", "", "loop1");
	put_link(ws, "absloop", fixture->visible, "/absloop");
	assert_int_equal(symlinkat(NAME_256, ws, "long"), 0);
	make_chain(ws);
}

static int make_tree(void **state)
{
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	put_file(fixture->ws, "file", "inside\n");
	put_file(fixture->ws, "a\\b", "backslash\n");
	assert_int_equal(mkdirat(fixture->ws, "dir", 0755), 0);
	assert_int_equal(mkdirat(fixture->ws, "dir/sub", 0755), 0);
	put_file(fixture->ws, "dir/file", "in dir\n");
	put_file(fixture->ws, "dir/sub/deep", "deep\n");
	make_links(fixture);
	make_socket(fixture);
	assert_int_equal(mkfifoat(fixture->ws, "fifo", 0644), 0);
	put_file(fixture->ws, "noread", "x");
	assert_int_equal(fchmodat(fixture->ws, "noread", 0, 0), 0);
	assert_int_equal(mkdirat(fixture->ws, "nosearch", 0), 0);
	return 0;
}

FIXTURE(make_tree, fixture_teardown)

static void expand(const struct fixture *fixture, const char *path, char *ret, size_t size)
{
	if (path[0] == '@')
		snprintf(ret, size, "%s%s", fixture->visible, path + 1);
	else
		snprintf(ret, size, "%s", path);
}

/* Returns the code that a caller of root_open() gets, which also checks the type. */
static enum tool_error open_as_caller(
	const struct root *root, struct text path, int *ret_fd, char **ret_path)
{
	enum tool_error error = root_open(root, path, O_RDONLY, ret_fd, ret_path);
	struct stat st;

	if (error == TOOL_OK && fstat(*ret_fd, &st) == 0 &&
		(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return TOOL_NOT_A_REGULAR_FILE;
	return error;
}

static bool holds(const struct open_case *expected, int fd)
{
	char content[64] = "";
	struct stat st;

	if (!expected->content)
		return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	return read(fd, content, sizeof(content) - 1) >= 0 &&
	       strcmp(content, expected->content) == 0;
}

static bool matches(
	const struct open_case *expected, enum tool_error error, int fd, const char *path)
{
	if (error != expected->error)
		return false;
	return error != TOOL_OK || (strcmp(path, expected->reported) == 0 && holds(expected, fd));
}

/* Returns how many cases failed. */
static int check_cases(const struct fixture *fixture)
{
	const struct root *root = &fixture->root;
	int wrong = 0;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int fd = -1, second = -1;
		_cleanup_free_ char *reported = NULL;
		enum tool_error error, unreported;
		char path[512];

		expand(fixture, cases[i].path, path, sizeof(path));
		error = open_as_caller(root, text_from(path), &fd, &reported);
		unreported = open_as_caller(root, text_from(path), &second, NULL);
		if (matches(&cases[i], error, fd, reported) && unreported == error)
			continue;
		wrong++;
		fprintf(stderr, "%s: %s and %s, path %s\n", path, tool_error_name(error),
			tool_error_name(unreported), reported ? reported : "-");
	}
	return wrong;
}

static void check_walked(const struct root *root, const struct open_case *expected)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *reported = NULL;
	enum tool_error error;
	char path[512];

	snprintf(path, sizeof(path), "dir/../%s", expected->path);
	error = open_as_caller(root, text_from(path), &fd, &reported);
	if (error != expected->error || (error == TOOL_OK && !holds(expected, fd)))
		fail_msg("%s: %s", path, tool_error_name(error));
}

static int open_descriptors(void)
{
	_cleanup_close_ int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return count_entries(fd);
}

GROUP_FIXTURE(fixture_leave_root, NULL)

TEST(test_openat2)
{
	const struct fixture *fixture = *state;
	int before = open_descriptors();

	assert_int_equal(check_cases(fixture), 0);
	assert_int_equal(open_descriptors(), before);
}

/* A path with ".." whose place is reported is walked component by component. */
TEST(test_walked)
{
	const struct fixture *fixture = *state;
	struct root without_proc = fixture->root;

	without_proc.proc_self_fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (strchr("@/", cases[i].path[0])) /* also the empty path */
			continue;
		check_walked(&fixture->root, &cases[i]);
		check_walked(&without_proc, &cases[i]);
	}
}

/* A workspace whose visible root is "/": every absolute path and link is inside. */
TEST(test_visible_slash)
{
	const struct fixture *fixture = *state;
	struct root root = fixture->root;
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *path = NULL;

	root.visible = TEXT_LITERAL("/");
	put_link(fixture->ws, "slashed", "", "/dir/file");
	assert_int_equal(root_open(&root, TEXT_LITERAL("/slashed"), O_RDONLY, &fd, &path), TOOL_OK);
	assert_string_equal(path, "slashed");
	close_fd(&fd);
	assert_int_equal(
		root_open(&root, TEXT_LITERAL("//dir/file"), O_RDONLY, &fd, NULL), TOOL_OK);
	close_fd(&fd);
	assert_int_equal(
		root_open(&root, TEXT_LITERAL("out"), O_RDONLY, &fd, NULL), TOOL_NOT_FOUND);
	assert_int_equal(root_open(&root, TEXT_LITERAL("/.."), O_RDONLY, &fd, NULL), OUTSIDE);
	assert_int_equal(fd, -1);
}

TEST(test_flags)
{
	const struct fixture *fixture = *state;
	_cleanup_close_ int fd = -1;
	struct stat st;

	assert_int_equal(
		root_open(&fixture->root, TEXT_LITERAL("abs"), O_PATH | O_NOFOLLOW, &fd, NULL),
		TOOL_OK);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close_fd(&fd);
	assert_int_equal(root_open(&fixture->root, TEXT_LITERAL("dirlink/../link"),
				 O_RDONLY | O_NOFOLLOW, &fd, &(char *){NULL}),
		TOOL_TOO_MANY_LINKS);
	assert_int_equal(
		root_open(&fixture->root, TEXT_LITERAL("abs"), O_RDONLY | O_DIRECTORY, &fd, NULL),
		TOOL_NOT_A_DIRECTORY);
	assert_int_equal(
		root_open(&fixture->root, TEXT_LITERAL("absroot/dir"), O_WRONLY, &fd, NULL),
		TOOL_IS_A_DIRECTORY);
	assert_int_equal(root_open(&fixture->root, TEXT_LITERAL("absroot/dir"),
				 O_PATH | O_DIRECTORY, &fd, NULL),
		TOOL_OK);
}

/* A tenant's lease on its file must not delay an open for lease-break-time. */
TEST(test_lease)
{
	const struct fixture *fixture = *state;
	_cleanup_close_ int lease = openat(fixture->ws, "file", O_RDWR | O_CLOEXEC), fd = -1;

	signal(SIGIO, SIG_IGN);
	if (fcntl(lease, F_SETLEASE, F_WRLCK) < 0) {
		print_message("no leases on this file system: %s\n", strerror(errno));
		skip();
	}
	/* An open that waits for it succeeds in the end. */
	assert_int_equal(
		root_open(&fixture->root, TEXT_LITERAL("file"), O_RDONLY, &fd, NULL), TOOL_BUSY);
	assert_int_equal(
		root_open(&fixture->root, TEXT_LITERAL("absroot/file"), O_RDONLY, &fd, NULL),
		TOOL_BUSY);
}

TEST(test_device)
{
	const struct fixture *fixture = *state;

	_cleanup_close_ int fd = -1;

	if (mknodat(fixture->ws, "null", S_IFCHR | 0666, 0x103) < 0) {
		print_message("a device node takes privileges to make: %s\n", strerror(errno));
		skip();
	}
	assert_int_equal(open_as_caller(&fixture->root, TEXT_LITERAL("null"), &fd, NULL),
		TOOL_NOT_A_REGULAR_FILE);
}

/* The directory "swap" and the link "evil", which leads outside, are swapped all the time, and
 * "moved" moves up and down in the tree. Every descriptor must lie in the workspace. */
static int check_under_attack(const struct fixture *fixture, const struct root *root)
{
	static const char *const paths[] = {"swap/secret", "evil/secret", "swap/../swap/secret",
		"swap/sub/../../swap/secret", "absroot/swap/secret", "m/a/b/c/../../../../file",
		"absroot/m/a/b/c/../../../../file", "target", "absroot/target"};
	const size_t enough = rounds(2000, 100000);
	struct stat outside, st;
	size_t opened = 0;
	int wrong = 0;

	if (fstatat(fixture->base_fd, "outside/secret", &outside, 0) < 0)
		return 1;
	for (size_t i = 0; opened < enough; i++) {
		const char *path = paths[i % ARRAY_SIZE(paths)];
		_cleanup_close_ int fd = -1;
		_cleanup_free_ char *reported = NULL;

		if (root_open(root, text_from(path), O_RDONLY, &fd, i & 8 ? &reported : NULL) !=
			TOOL_OK)
			continue;
		opened++;
		if (fstat(fd, &st) < 0 || st.st_ino == outside.st_ino) {
			fprintf(stderr, "%s reached what lies outside\n", path);
			wrong++;
		}
	}
	return wrong;
}

/* Makes a tree in which "a/b/c/../../../.." leads outside if c is moved up meanwhile. */
static void make_battlefield(const struct fixture *fixture)
{
	int ws = fixture->ws;

	assert_int_equal(mkdirat(ws, "swap", 0755), 0);
	assert_int_equal(mkdirat(ws, "swap/sub", 0755), 0);
	put_file(ws, "swap/secret", "inside\n");
	put_link(ws, "evil", fixture->base, "/outside");
	assert_int_equal(mkdirat(ws, "m", 0755), 0);
	assert_int_equal(mkdirat(ws, "m/a", 0755), 0);
	assert_int_equal(mkdirat(ws, "m/a/b", 0755), 0);
	assert_int_equal(mkdirat(ws, "m/a/b/c", 0755), 0);
	assert_int_equal(mkdirat(ws, "moved", 0755), 0);
	put_file(ws, "target", "inside\n");
	put_link(ws, "evilfile", fixture->base, "/outside/secret");
}

static int attack(const struct fixture *fixture, const struct root *root)
{
	struct swapper links, files, depths;
	int wrong;

	swapper_start(&links, fixture->ws, "swap", "evil");
	swapper_start(&files, fixture->ws, "target", "evilfile");
	swapper_start(&depths, fixture->ws, "m/a/b/c", "moved");
	wrong = check_under_attack(fixture, root);
	swapper_stop(&links);
	swapper_stop(&files);
	swapper_stop(&depths);
	return wrong;
}

TEST(test_attacked)
{
	const struct fixture *fixture = *state;
	struct root without_proc = fixture->root;

	make_battlefield(fixture);
	assert_int_equal(attack(fixture, &fixture->root), 0);
	without_proc.proc_self_fd = -1;
	assert_int_equal(attack(fixture, &without_proc), 0);
}

struct place_case {
	const char *path;
	bool create_dirs;
	enum tool_error error;
	const char *name;   /* in parent */
	const char *parent; /* its path from the workspace; NULL: the path is the root */
	const char *reported;
};

static const struct place_case place_cases[] = {
	{"new", false, TOOL_OK, "new", ".", "new"},
	{"./dir//new", false, TOOL_OK, "new", "dir", "dir/new"},
	{"@/dir/file", false, TOOL_OK, "file", "dir", "dir/file"},
	{"link", false, TOOL_OK, "file", ".", "link"},
	{"abs", false, TOOL_OK, "file", "dir", "abs"},
	{"dangling", false, TOOL_OK, "nothing", ".", "dangling"},
	{"dirlink/new", false, TOOL_OK, "new", "dir", "dirlink/new"},
	{"dirlink/../new", false, TOOL_OK, "new", ".", "new"},
	{"absroot/dir/new", false, TOOL_OK, "new", "dir", "absroot/dir/new"},
	{"fifo", false, TOOL_OK, "fifo", ".", "fifo"},
	{"dir", false, TOOL_OK, "dir", ".", "dir"},
	{"dir/sub/", false, TOOL_OK, "sub", "dir", "dir/sub"},
	{"dir/sub/..", false, TOOL_OK, "dir", ".", "dir"},
	{".", false, TOOL_OK, "", NULL, "."},
	{"dir/..", false, TOOL_OK, "", NULL, "."},
	{"absroot", false, TOOL_OK, "", NULL, "absroot"},

	{"x/y/z", false, TOOL_NOT_FOUND, NULL, NULL, NULL},
	{"x/y/z", true, TOOL_OK, "z", "x/y", "x/y/z"},
	{"x/./w/./v", true, TOOL_OK, "v", "x/w", "x/w/v"},
	{"absroot/q/r", true, TOOL_OK, "r", "q", "absroot/q/r"},
	{"dangling/y", true, TOOL_OK, "y", "nothing", "dangling/y"},
	{"file/y", true, TOOL_NOT_A_DIRECTORY, NULL, NULL, NULL},

	{"none/", true, TOOL_IS_A_DIRECTORY, NULL, NULL, NULL},
	{"none/.", true, TOOL_NOT_FOUND, NULL, NULL, NULL},
	{"none/sub/", true, TOOL_NOT_FOUND, NULL, NULL, NULL},
	{"none/../x", true, TOOL_NOT_FOUND, NULL, NULL, NULL},
	{"none/../../x", true, OUTSIDE, NULL, NULL, NULL},
	{"dir/../../none", true, OUTSIDE, NULL, NULL, NULL},
	{"file/", true, TOOL_IS_A_DIRECTORY, NULL, NULL, NULL},
	{"out", true, LINK_OUTSIDE, NULL, NULL, NULL},
	{"relout", true, LINK_OUTSIDE, NULL, NULL, NULL},
	{"outdir/none/x", true, LINK_OUTSIDE, NULL, NULL, NULL},
	{"up/none", true, LINK_OUTSIDE, NULL, NULL, NULL},
	{"self", true, TOOL_TOO_MANY_LINKS, NULL, NULL, NULL},
	{"nosearch/x", true, TOOL_PERMISSION_DENIED, NULL, NULL, NULL},
};

static void check_place(const struct fixture *fixture, const struct place_case *expected)
{
	struct root_place place = {.parent = -1};
	struct stat st, wanted;
	enum tool_error error;
	char path[512];

	expand(fixture, expected->path, path, sizeof(path));
	error = root_place(&fixture->root, text_from(path), expected->create_dirs, &place);
	if (error != expected->error)
		fail_msg("%s: %s", path, tool_error_name(error));
	if (error != TOOL_OK) {
		assert_int_equal(place.parent, -1);
		assert_null(place.path);
		return;
	}
	assert_string_equal(place.name, expected->name);
	assert_string_equal(place.path, expected->reported);
	if (expected->parent) {
		assert_int_equal(fstat(place.parent, &st), 0);
		assert_int_equal(fstatat(fixture->ws, expected->parent, &wanted, 0), 0);
		assert_int_equal(st.st_ino, wanted.st_ino);
	} else {
		assert_int_equal(place.parent, -1);
	}
	root_place_done(&place);
}

TEST(test_places)
{
	const struct fixture *fixture = *state;
	int before = open_descriptors();
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(place_cases); i++)
		check_place(fixture, &place_cases[i]);
	assert_int_equal(open_descriptors(), before);
	assert_false(exists_at(fixture->ws, "none"));
	assert_false(exists_at(fixture->ws, "x/y/z"));
	assert_int_equal(fstatat(fixture->ws, "x/y", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_outside_untouched(fixture);
}
