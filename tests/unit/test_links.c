// SPDX-License-Identifier: Apache-2.0
/* An entry of a list cannot be linked again, and an entry of no list cannot be unlinked. */
#undef NDEBUG
#include "common/links.h"
#include "tests/lib/unit.h"

#include <sys/resource.h>

struct item {
	LIST_ENTRY(item) in_list;
	TAILQ_ENTRY(item) in_queue;
};

static LIST_HEAD(, item) list;
static TAILQ_HEAD(, item) queue;
static struct item items[2];

static int set_up(void **state)
{
	(void)state;
	LIST_INIT(&list);
	TAILQ_INIT(&queue);
	items[0] = items[1] = (struct item){0};
	return 0;
}

FIXTURE(set_up, NULL)

static void link_list(struct item *item)
{
	LIST_LINK_HEAD(&list, item, in_list);
}

static void unlink_list(struct item *item)
{
	LIST_UNLINK(item, in_list);
}

static void link_first(struct item *item)
{
	TAILQ_LINK_HEAD(&queue, item, in_queue);
}

static void link_last(struct item *item)
{
	TAILQ_LINK_TAIL(&queue, item, in_queue);
}

static void unlink_queue(struct item *item)
{
	TAILQ_UNLINK(&queue, item, in_queue);
}

static void assert_aborts(void (*act)(struct item *item), struct item *item)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		signal(SIGABRT, SIG_DFL);
		act(item);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST(test_lists)
{
	for (int round = 0; round < 2; round++) {
		assert_aborts(unlink_list, &items[0]);
		link_list(&items[0]);
		link_list(&items[1]);
		assert_ptr_equal(LIST_FIRST(&list), &items[1]);
		assert_aborts(link_list, &items[0]);
		assert_aborts(link_list, &items[1]);
		unlink_list(&items[0]);
		unlink_list(&items[1]);
		assert_true(LIST_EMPTY(&list));
	}
}

TEST(test_queues)
{
	for (int round = 0; round < 2; round++) {
		assert_aborts(unlink_queue, &items[0]);
		link_last(&items[0]);
		link_first(&items[1]);
		assert_ptr_equal(TAILQ_FIRST(&queue), &items[1]);
		assert_aborts(link_first, &items[0]);
		assert_aborts(link_last, &items[1]);
		unlink_queue(&items[1]);
		unlink_queue(&items[0]);
		assert_true(TAILQ_EMPTY(&queue));
	}
}
