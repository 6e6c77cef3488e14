// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-worker: trusts cloisterd for which commands run, and re-checks every message all the
 * same. Commands are hostile; all that comes back from one is its end, from its init's report and
 * wait4(2).
 */
#include "worker/commands/command_table.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire_commands.h"
#include "worker/commands/command_cgroup.h"
#include "worker/commands/command_env.h"
#include "worker/commands/command_init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum command_state {
	COMMAND_UNUSED,
	COMMAND_RECEIVING, /* its text is not complete */
	COMMAND_RUNNING,
};

struct command {
	enum command_state state;
	uint64_t call;
	struct command_run run;
	char *body; /* run.command_len + 1 + run.env_len bytes: the text, a NUL, the environment */
	size_t body_len;
	int fds[COMMAND_FDS];
	pid_t init;
	bool killed;
	struct command_cgroup cgroup;
	char **env;
	struct command_start
		start; /* the init reads it, and what it points to, until it is reaped */
};

struct command_table {
	struct channel *channel;
	const char *home;
	struct command_cgroups *cgroups;
	struct command commands[LIMIT_COMMANDS_PER_WORKSPACE];
	struct command_report *reports; /* shared with the inits, one for each of commands */
	char *stacks;                   /* of the inits, stride apart */
	size_t stride;
};

/* A stack for each init, and below each a page that nobody may touch. */
static int map_stacks(struct command_table *table)
{
	size_t guard = (size_t)sysconf(_SC_PAGESIZE);

	table->stride = guard + COMMAND_INIT_STACK;
	table->stacks = mmap(NULL, LIMIT_COMMANDS_PER_WORKSPACE * table->stride,
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table->stacks == MAP_FAILED)
		return -errno;
	for (size_t i = 0; i < LIMIT_COMMANDS_PER_WORKSPACE; i++)
		if (mprotect(table->stacks + i * table->stride, guard, PROT_NONE) < 0)
			return -errno;
	table->stacks += guard;
	return 0;
}

int command_table_new(struct channel *channel, const char *home, struct command_cgroups *cgroups,
	struct command_table **ret)
{
	_cleanup_free_ struct command_table *table = calloc(1, sizeof(*table));
	int r;

	if (!table)
		return -ENOMEM;
	table->channel = channel;
	table->home = home;
	table->cgroups = cgroups;
	table->reports = mmap(NULL, LIMIT_COMMANDS_PER_WORKSPACE * sizeof(*table->reports),
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table->reports == MAP_FAILED)
		return -errno;
	r = map_stacks(table);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(table);
	return 0;
}

static struct command *find(struct command_table *table, uint64_t call)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++)
		if (table->commands[i].state != COMMAND_UNUSED && table->commands[i].call == call)
			return &table->commands[i];
	return NULL;
}

static struct command *find_unused(struct command_table *table)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++)
		if (table->commands[i].state == COMMAND_UNUSED)
			return &table->commands[i];
	return NULL;
}

static void close_fds(struct command *command)
{
	for (size_t i = 0; i < COMMAND_FDS; i++)
		close_fd(&command->fds[i]);
}

/* Reports @command's end and frees its place. */
static int finish(
	struct command_table *table, struct command *command, const struct command_ended *ended)
{
	uint8_t payload[128];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	uint64_t call = command->call;

	close_fds(command);
	command_cgroup_remove(table->cgroups, &command->cgroup);
	free(command->body);
	free(command->env);
	*command = (struct command){0};
	command_ended_put(&writer, ended);
	assert(wire_writer_ok(&writer));
	return channel_send(table->channel, COMMAND_ENDED, call,
		(struct text){(char *)payload, writer.len}, NULL, 0);
}

static int finish_not_begun(struct command_table *table, struct command *command, int error)
{
	struct command_ended ended = {
		.end = COMMAND_END_NOT_BEGUN,
		.launch_error = (uint32_t)error,
	};

	return finish(table, command, &ended);
}

static int launch(struct command_table *table, struct command *command)
{
	size_t place = (size_t)(command - table->commands);
	struct text extra = {command->body + command->run.command_len + 1, command->run.env_len};
	int r = command_env_build(table->home, extra, &command->env);

	if (r < 0)
		return r;
	if (command->fds[COMMAND_FD_STDIN] < 0) {
		command->fds[COMMAND_FD_STDIN] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (command->fds[COMMAND_FD_STDIN] < 0)
			return finish_not_begun(table, command, errno);
	}
	r = command_cgroup_make(table->cgroups, &command->run.limits, &command->cgroup);
	if (r < 0)
		return finish_not_begun(table, command, -r);
	table->reports[place] = (struct command_report){.end = COMMAND_END_COUNT};
	command->start = (struct command_start){
		.command = command->body,
		.env = command->env,
		.cgroup_fd = command->cgroup.fd,
		.report = &table->reports[place],
		.stack = table->stacks + place * table->stride,
	};
	memcpy(command->start.fds, command->fds, sizeof(command->fds));
	r = command_init_start(&command->start, &command->init);
	if (r < 0)
		return finish_not_begun(table, command, -r);
	command->state = COMMAND_RUNNING;
	close_fds(command);
	return 0;
}

static int begin(struct command_table *table, struct channel_frame *frame)
{
	struct command *command = find_unused(table);
	struct command_run run;

	if (!command || find(table, frame->call) || command_run_get(frame->payload, &run) < 0 ||
		frame->n_fds != (run.has_stdin ? COMMAND_FDS : COMMAND_FDS - 1U))
		return -EBADMSG;
	*command = (struct command){
		.state = COMMAND_RECEIVING,
		.call = frame->call,
		.run = run,
		.fds = {-1, -1, -1},
		.cgroup = COMMAND_CGROUP_NONE,
		.body = calloc(1, (size_t)run.command_len + 1 + run.env_len),
	};
	memcpy(command->fds, frame->fds, frame->n_fds * sizeof(int));
	frame->n_fds = 0;
	if (!command->body)
		return finish_not_begun(table, command, ENOMEM);
	return run.command_len + run.env_len == 0 ? launch(table, command) : 0;
}

/* The body is the text and then the environment; in memory a NUL stands between them. */
static int receive_body(struct command_table *table, struct command *command, struct text part)
{
	size_t total = (size_t)command->run.command_len + command->run.env_len;

	if (command->state != COMMAND_RECEIVING || part.len > total - command->body_len)
		return -EBADMSG;
	while (part.len > 0) {
		bool in_env = command->body_len >= command->run.command_len;
		size_t left = in_env ? part.len : command->run.command_len - command->body_len;
		size_t n = part.len < left ? part.len : left;

		memcpy(command->body + command->body_len + (in_env ? 1 : 0), part.data, n);
		command->body_len += n;
		part.data += n;
		part.len -= n;
	}
	return command->body_len == total ? launch(table, command) : 0;
}

static int terminate(struct command_table *table, struct command *command, int signal_number)
{
	if (command->state == COMMAND_RECEIVING)
		return finish_not_begun(table, command, ECANCELED);
	command->killed |= signal_number == SIGKILL;
	/* Our child and not reaped: the pid is its own. */
	kill(command->init, signal_number);
	if (signal_number == SIGKILL)
		command_cgroup_kill(&command->cgroup);
	return 0;
}

int command_table_handle(struct command_table *table, struct channel_frame *frame)
{
	struct command *command;

	if (frame->type == COMMAND_RUN)
		return begin(table, frame);
	if (frame->n_fds > 0)
		return -EBADMSG;
	command = find(table, frame->call);
	if (!command)
		return 0; /* it has ended while this was on its way */
	switch (frame->type) {
	case COMMAND_BODY:
		return receive_body(table, command, frame->payload);
	case COMMAND_TERMINATE:
		return terminate(table, command, SIGTERM);
	case COMMAND_KILL:
		return terminate(table, command, SIGKILL);
	default:
		return -EBADMSG;
	}
}

static uint64_t microseconds(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static int finish_reaped(struct command_table *table, struct command *command, int init_status,
	const struct rusage *usage)
{
	const struct command_report *report = &table->reports[command - table->commands];
	struct command_ended ended = {
		.end = report->end,
		.wait_status = report->wait_status,
		.launch_error = report->launch_error,
		.user_us = microseconds(usage->ru_utime),
		.system_us = microseconds(usage->ru_stime),
		.max_rss_bytes = (uint64_t)usage->ru_maxrss * KIB,
	};

	command_cgroup_measure(table->cgroups, &command->cgroup, &ended);
	if (report->end >= COMMAND_END_COUNT) {
		ended.end = command->killed ? COMMAND_END_TOLD : COMMAND_END_EXIT;
		ended.wait_status = (uint32_t)init_status;
	}
	return finish(table, command, &ended);
}

int command_table_reap(struct command_table *table)
{
	struct rusage usage;
	pid_t pid;
	int status, r = 0;

	while (r == 0 && (pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
		for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++)
			if (table->commands[i].state == COMMAND_RUNNING &&
				table->commands[i].init == pid) {
				r = finish_reaped(table, &table->commands[i], status, &usage);
				break;
			}
	return r;
}
