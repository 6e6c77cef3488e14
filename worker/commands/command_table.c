// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker. It trusts cloisterd to choose the commands, and still checks every message.
 * Commands are hostile; the worker learns nothing from a command but its end, from the report of
 * its init and from wait4(2).
 */
#include "worker/commands/command_table.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/limits.h"
#include "common/wire/wire_commands.h"
#include "common/zero_pages.h"
#include "worker/commands/command_cgroup.h"
#include "worker/commands/command_env.h"
#include "worker/commands/command_pause.h"
#include "worker/commands/command_pool.h"
#include "worker/commands/command_terminal.h"
#include "worker/commands/forward.h"
#include "worker/commands/input_wait.h"
#include "worker/commands/ipc_remains.h"
#include "worker/commands/network_tries.h"
#include "worker/commands/worker_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define INITS_AHEAD_MS 10000 /* waiting inits are ended after this time without a command */

enum command_state {
	COMMAND_UNUSED,
	COMMAND_RECEIVING, /* its text is not complete yet */
	COMMAND_PREPARED,  /* COMMAND_HELD was sent, COMMAND_GO has not come */
	COMMAND_RUNNING,
};

struct command {
	enum command_state state;
	uint64_t call;
	struct command_run run;
	/* the text, a NUL, the environment, and the directory: run has their lengths */
	char *body;
	size_t body_len;
	struct command_cgroup cgroup;
	char **env;
	int fds[COMMAND_FDS];     /* shared with the init, so they stay open until it is reaped */
	struct terminal terminal; /* likewise */
	struct command_init *init;
	bool killed;
	uint32_t signals[2];    /* a bit for each that came before it ran: for all, foreground */
	int64_t look_at;        /* when it is looked at next, as now_ms(); 0: never */
	struct input_wait wait; /* what the last look found */
};

/* Only what was used of it takes memory. */
struct command_table {
	int report_fd;
	const char *home;
	bool root_inside;
	int null_fd, workspace_fd;
	struct command_cgroups *cgroups;
	struct command_pool *pool;
	struct network_tries tries;
	bool ended;          /* a command has ended since inits were last made ahead */
	int queue_names;     /* borrowed from the set-up */
	bool ipc_is_used;    /* a command may have left objects in the IPC namespace */
	int64_t quiet_since; /* the last request or end, as now_ms() */
	struct forwards forwards;
	struct command_pause_state pause;
	struct command commands[LIMIT_COMMANDS_AT_ONCE];
};

int command_table_new(int report_fd, const struct worker_setup *setup,
	struct command_cgroups *cgroups, struct command_table **ret)
{
	struct command_table *table = zero_pages_new(sizeof(*table));
	int r;

	if (!table)
		return -ENOMEM;
	table->report_fd = table->forwards.report_fd = report_fd;
	table->home = setup->home;
	table->root_inside = setup->inside >= 0;
	table->cgroups = table->pause.cgroups = cgroups;
	table->pause.report_fd = report_fd;
	table->queue_names = setup->queue_names;
	table->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* The worker is in the workspace. */
	table->workspace_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (table->null_fd < 0 || table->workspace_fd < 0)
		return -errno;
	table->tries = network_tries_open();
	r = command_pool_new(
		setup->cookie, setup->inside, &setup->ruleset, &table->tries, &table->pool);
	if (r < 0)
		return r;
	*ret = table;
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct command *find_command(struct command_table *table, uint64_t call)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++)
		if (table->commands[i].state != COMMAND_UNUSED && table->commands[i].call == call)
			return &table->commands[i];
	return NULL;
}

static void close_fds(struct command *command)
{
	if (command->init && atomic_load(&command->init->report->input_given))
		command->fds[COMMAND_FD_STDIN] = -1;
	for (size_t i = 0; i < COMMAND_FDS; i++)
		close_fd(&command->fds[i]);
	terminal_close(&command->terminal);
}

static void forget_command(struct command_table *table, struct command *command)
{
	close_fds(command);
	command_cgroup_remove(table->cgroups, &command->cgroup);
	free(command->body);
	free(command->env);
	*command = (struct command){0};
}

/* Reports the end of @command and frees its entry. */
static int finish_command(
	struct command_table *table, struct command *command, const struct command_ended *ended)
{
	uint64_t call = command->call;

	forget_command(table, command);
	return command_report_end(table->report_fd, call, ended);
}

static int finish_not_begun(struct command_table *table, struct command *command, int error)
{
	struct command_ended ended = {
		.end = COMMAND_END_NOT_BEGUN,
		.launch_error = (uint32_t)error,
	};

	return finish_command(table, command, &ended);
}

/* Waits for a child to end and frees the entries of all children that have ended. */
static int make_room_for_command(struct command_table *table)
{
	siginfo_t info;

	if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) < 0 && errno != EINTR)
		return -errno;
	return command_table_reap(table);
}

static struct command *find_unused(struct command_table *table)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++)
		if (table->commands[i].state == COMMAND_UNUSED)
			return &table->commands[i];
	return NULL;
}

/*
 * Whether an init has reported its end to cloisterd and is not reaped yet. cloisterd may already
 * count on the free entry.
 */
static bool any_over(const struct command_table *table)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++)
		if (table->commands[i].state == COMMAND_RUNNING &&
			atomic_load(&table->commands[i].init->report->over))
			return true;
	return false;
}

/*
 * Returns a free entry for one more command, or NULL if cloisterd has begun more commands than
 * there are entries.
 */
static struct command *take_place(struct command_table *table)
{
	struct command *command;

	while (!(command = find_unused(table)) && any_over(table) &&
		make_room_for_command(table) == 0)
		;
	return command;
}

static bool any_alive(const struct command_table *table)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++)
		if (table->commands[i].state == COMMAND_RUNNING &&
			!atomic_load(&table->commands[i].init->report->over))
			return true;
	return false;
}

/*
 * Removes the objects that ended commands have left in the IPC namespace. Later commands must not
 * find them, and the kernel charges them to the user of all workspaces.
 */
static void empty_ipc(struct command_table *table)
{
	if (!table->ipc_is_used || any_alive(table))
		return;
	ipc_remains_remove(table->queue_names);
	table->ipc_is_used = false;
}

/* The terminal takes the place of the pipes, which go to the init. */
static int give_terminal(struct command *command, struct command_start *start)
{
	int r = terminal_open(&command->run.terminal, &command->terminal);

	if (r == 0)
		r = terminal_relay(&command->terminal, command->fds[COMMAND_FD_STDIN],
			command->fds[COMMAND_FD_STDOUT], &start->relay);
	if (r < 0)
		return r;
	/* What is written on a terminal is one stream. */
	close_fd(&command->fds[COMMAND_FD_STDERR]);
	for (size_t i = 0; i <= COMMAND_FD_STDIN; i++)
		start->fds[i] = command->terminal.slave;
	start->has_terminal = true;
	start->gives_input = false;
	start->report_fd = -1;
	return 0;
}

/* Sends those that came before the command ran. */
static void send_early_signals(struct command *command)
{
	for (unsigned foreground = 0; foreground < 2; foreground++)
		for (unsigned number = 1; command->signals[foreground] >> number; number++)
			if (command->signals[foreground] >> number & 1)
				command_init_signal(command->init, number, foreground);
}

/* Bytes of the body, as it comes. */
static size_t body_len(const struct command_run *run)
{
	return (size_t)run->command_len + run->env_len + run->cwd_len;
}

/* Returns the directory that @command begins in; NULL: the workspace's root. */
static const char *cwd_of(const struct command *command)
{
	const struct command_run *run = &command->run;

	return run->cwd_len > 0 ? command->body + run->command_len + 1 + run->env_len : NULL;
}

static int start_command(struct command_table *table, struct command *command)
{
	struct command_start start = {
		.command = command->body,
		.cwd = cwd_of(command),
		.shell = command->run.shell,
		.env = command->env,
		.cgroup_fd = command->cgroup.fd,
		.tries_fork = !(table->cgroups->controllers & CGROUP_PIDS),
		.call = command->call,
		.no_network = command->run.no_network,
		.disk = command->run.disk,
		.workspace_fd = table->workspace_fd,
		/*
		 * With a cgroup the worker reports the end itself, because it adds the cgroup's
		 * counters.
		 */
		.report_fd = command->cgroup.fd < 0 ? table->report_fd : -1,
	};
	int r;

	/*
	 * Left by commands that cloisterd knows to be over and the worker has not reaped until now.
	 */
	empty_ipc(table);
	table->ipc_is_used = true;
	memcpy(start.fds, command->fds, sizeof(start.fds));
	start.gives_input = start.fds[COMMAND_FD_STDIN] >= 0;
	if (start.fds[COMMAND_FD_STDIN] < 0)
		start.fds[COMMAND_FD_STDIN] = table->null_fd;
	if (command->run.terminal.rows > 0) {
		r = give_terminal(command, &start);
		if (r < 0)
			return finish_not_begun(table, command, -r);
	}
	while ((r = command_pool_start(table->pool, &start, &command->init)) == -EBUSY) {
		r = make_room_for_command(table);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return finish_not_begun(table, command, -r);
	command->state = COMMAND_RUNNING;
	send_early_signals(command);
	command->look_at =
		command->run.input_wait_ms > 0 ? now_ms() + command->run.input_wait_ms : 0;
	return 0;
}

/*
 * cloister-egress must know the cgroup before the command makes a connection, and cloisterd before
 * it is asked for a port of it. One write, which the writes of inits to this socket cannot divide.
 */
static int hold_before_start(struct command_table *table, struct command *command)
{
	const struct command_held held = {.cgroup = command_cgroup_inode(&command->cgroup)};
	uint8_t frame[WIRE_HEADER_SIZE + COMMAND_HELD_SIZE];
	struct wire_writer writer = wire_writer(frame + WIRE_HEADER_SIZE, COMMAND_HELD_SIZE);
	struct wire_header header = {.version = WIRE_VERSION,
		.type = COMMAND_HELD,
		.length = COMMAND_HELD_SIZE,
		.call = command->call};

	command_held_put(&writer, &held);
	memcpy(frame, &header, sizeof(header));
	command->state = COMMAND_PREPARED;
	return io_write(table->report_fd, frame, sizeof(frame), IO_POSITION);
}

static int launch(struct command_table *table, struct command *command)
{
	struct text extra = {command->body + command->run.command_len + 1, command->run.env_len};
	int r = command_env_build(table->home, table->root_inside, command->run.no_network,
		command->run.terminal.rows > 0, extra, &command->env);

	if (r < 0)
		return r;
	if (command->run.cwd_len > 0 && memchr(cwd_of(command), '\0', command->run.cwd_len) !=
						cwd_of(command) + command->run.cwd_len - 1)
		return -EBADMSG;
	r = command_cgroup_make(table->cgroups, &command->run.limits, &command->cgroup);
	if (r < 0)
		return finish_not_begun(table, command, -r);
	return command->cgroup.fd >= 0 && command->run.tells_cgroup
		       ? hold_before_start(table, command)
		       : start_command(table, command);
}

/*
 * Whether all of @fds are pipes, but for the last one of a call that @has_gate. Any other
 * descriptor could give a command access to something outside its workspace. It never has the gate.
 */
static bool are_pipes(const int *fds, unsigned n_fds, bool has_gate)
{
	for (unsigned i = 0; i < n_fds; i++) {
		const mode_t kind = has_gate && i == n_fds - 1 ? S_IFSOCK : S_IFIFO;
		struct stat stat_buf;

		if (fstat(fds[i], &stat_buf) < 0 || (stat_buf.st_mode & S_IFMT) != kind)
			return false;
	}
	return true;
}

/* Takes the descriptors of @frame, which are as many as @command's run says. */
static void take_fds(struct command *command, struct channel_frame *frame)
{
	unsigned next = 0;

	for (unsigned i = 0; i < COMMAND_FDS; i++)
		command->fds[i] = (i == COMMAND_FD_STDIN && !command->run.has_stdin) ||
						  (i == COMMAND_FD_GATE && !command->run.has_gate)
					  ? -1
					  : frame->fds[next++];
	frame->n_fds = 0;
}

static int begin_table_command(struct command_table *table, struct channel_frame *frame)
{
	struct command *command = take_place(table);
	struct command_run run;

	if (!command || find_command(table, frame->call) ||
		command_run_get(frame->payload, &run) < 0 ||
		frame->n_fds != command_run_fds(&run) ||
		!are_pipes(frame->fds, frame->n_fds, run.has_gate))
		return -EBADMSG;
	*command = (struct command){
		.state = COMMAND_RECEIVING,
		.call = frame->call,
		.run = run,
		.terminal = TERMINAL_NONE,
		.cgroup = COMMAND_CGROUP_NONE,
		.body = calloc(1, body_len(&run) + 1),
	};
	take_fds(command, frame);
	if (!command->body)
		return finish_not_begun(table, command, ENOMEM);
	return body_len(&run) == 0 ? launch(table, command) : 0;
}

/* The body is the text followed by the rest. In memory a NUL separates them. */
static int receive_body(struct command_table *table, struct command *command, struct text part)
{
	size_t total = body_len(&command->run);

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
	if (command->state != COMMAND_RUNNING)
		return finish_not_begun(table, command, ECANCELED);
	command->killed |= signal_number == SIGKILL;
	/* The init is our child and not reaped, so its pid cannot have been reused. */
	if (signal_number == SIGTERM) {
		command_init_tell(command->init);
		return 0;
	}
	kill(command->init->pid, SIGKILL);
	command_cgroup_kill(&command->cgroup);
	return 0;
}

/* A command that does not run yet is sent it when it does; like a pending signal, once. */
static int send_signal(struct command *command, struct text payload)
{
	struct command_signal message;

	if (command_signal_get(payload, &message) < 0)
		return -EBADMSG;
	if (command->state == COMMAND_RUNNING)
		command_init_signal(command->init, message.number, message.foreground);
	else
		command->signals[message.foreground] |= UINT32_C(1) << message.number;
	return 0;
}

static int resize_terminal(struct command *command, struct text payload)
{
	struct command_terminal size;

	if (command->run.terminal.rows == 0 || command_terminal_get(payload, &size) < 0)
		return -EBADMSG;
	command->run.terminal = size;
	if (command->state == COMMAND_RUNNING)
		terminal_resize(&command->terminal, &size);
	return 0;
}

int command_table_handle(struct command_table *table, struct channel_frame *frame)
{
	struct command *command;

	table->quiet_since = now_ms();
	if (frame->type == COMMAND_RUN)
		return begin_table_command(table, frame);
	if (frame->type == COMMAND_FORWARD)
		return forward_begin(&table->forwards, frame);
	if (frame->type == COMMAND_PAUSE)
		return command_pause_handle(&table->pause, frame, table->quiet_since);
	if (frame->n_fds > 0 || frame->type < COMMAND_RUN || frame->type > COMMAND_RESIZE ||
		(frame->type != COMMAND_BODY && frame->type != COMMAND_SIGNAL &&
			frame->type != COMMAND_RESIZE && frame->payload.len > 0))
		return -EBADMSG;
	command = find_command(table, frame->call);
	if (!command)
		return 0; /* it ended while the request was on its way */
	switch (frame->type) {
	case COMMAND_BODY:
		return receive_body(table, command, frame->payload);
	case COMMAND_GO:
		return command->state == COMMAND_PREPARED ? start_command(table, command)
							  : -EBADMSG;
	case COMMAND_TERMINATE:
		return terminate(table, command, SIGTERM);
	case COMMAND_SIGNAL:
		return send_signal(command, frame->payload);
	case COMMAND_RESIZE:
		return resize_terminal(command, frame->payload);
	default: /* COMMAND_KILL */
		return terminate(table, command, SIGKILL);
	}
}

static uint64_t rusage_microseconds(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static struct command *find_by_init(struct command_table *table, const struct command_init *init)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++)
		if (table->commands[i].state == COMMAND_RUNNING && table->commands[i].init == init)
			return &table->commands[i];
	return NULL;
}

/* The init was killed before it could report. The kernel has ended its namespace. */
static struct command_ended ended_unsaid(
	const struct command *command, int init_status, const struct rusage *usage)
{
	return (struct command_ended){
		.end = command->killed ? COMMAND_END_TERMINATED : COMMAND_END_EXIT,
		.wait_status = (uint32_t)init_status,
		.user_us = rusage_microseconds(usage->ru_utime),
		.system_us = rusage_microseconds(usage->ru_stime),
		.max_rss_bytes = (uint64_t)usage->ru_maxrss * KIB,
	};
}

static int finish_reaped(struct command_table *table, struct command *command, int init_status,
	const struct rusage *usage)
{
	struct command_report *report = command->init->report;
	struct command_ended ended;

	if (atomic_load(&report->reported)) {
		forget_command(table, command);
		return 0;
	}
	/* What an init that was killed has not passed on. */
	if (command->run.terminal.rows > 0)
		relay_rest(&command->init->start.relay, 0);
	ended = atomic_load(&report->over) ? report->ended
					   : ended_unsaid(command, init_status, usage);
	command_cgroup_measure(table->cgroups, &command->cgroup, &ended);
	return finish_command(table, command, &ended);
}

int command_table_reap(struct command_table *table)
{
	struct rusage usage;
	pid_t pid;
	int status, r = 0;

	while (r == 0 && (pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
		struct command_init *init = command_pool_find(table->pool, pid);
		struct command *command = find_by_init(table, init);

		if (command)
			r = finish_reaped(table, command, status, &usage);
		if (init)
			command_pool_reaped(table->pool, init);
		table->ended |= command != NULL;
		if (r == 0 && !init)
			r = forward_reaped(&table->forwards, pid);
		r = r > 0 ? 0 : r;
	}
	empty_ipc(table);
	return r;
}

/* When the next command is looked at, as now_ms(); 0: none is. */
static int64_t next_look(const struct command_table *table)
{
	int64_t next = 0;

	for (size_t i = 0; i < ARRAY_SIZE(table->commands); i++) {
		const struct command *command = &table->commands[i];

		if (command->state == COMMAND_RUNNING && command->look_at > 0 &&
			(next == 0 || command->look_at < next))
			next = command->look_at;
	}
	return next;
}

int command_table_rest(struct command_table *table)
{
	int64_t now = now_ms(), look_at_command = next_look(table), until = 0;
	int pause;

	/* The loop notices itself that nobody reads reports any more. */
	(void)command_pause_look(&table->pause, now, &pause);

	if (table->ended) {
		command_pool_make_ahead(table->pool);
		table->quiet_since = now;
	}
	table->ended = false;
	if (command_pool_has_ahead(table->pool))
		until = table->quiet_since + INITS_AHEAD_MS;
	if (look_at_command > 0 && (until == 0 || look_at_command < until))
		until = look_at_command;
	if (pause >= 0 && (until == 0 || now + pause < until))
		until = now + pause;
	if (until == 0)
		return -1;
	return until > now ? (int)(until - now) : 0;
}

/* Tells cloisterd once that the command waits for input, if two looks in succession found so. */
static int look_at_command(struct command_table *table, struct command *command)
{
	struct wire_header header = {
		.version = WIRE_VERSION, .type = COMMAND_WAITS, .call = command->call};
	struct input_wait now = {0};
	bool certain;

	/* What is stopped on its way out of a system call looks as if it waited in there. */
	if (!table->pause.on)
		now = input_wait_look(command->init->pid);
	certain = input_wait_is_certain(&command->wait, &now);
	command->wait = now;
	command->look_at = certain ? 0 : now_ms() + command->run.input_wait_ms;
	if (!certain)
		return 0;
	/* One write, which the writes of inits to this socket cannot divide. */
	return io_write(table->report_fd, &header, sizeof(header), IO_POSITION);
}

int command_table_idle(struct command_table *table)
{
	int64_t now = now_ms();
	int r = 0;

	if (now >= table->quiet_since + INITS_AHEAD_MS)
		command_pool_end_ahead(table->pool);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(table->commands); i++) {
		struct command *command = &table->commands[i];

		if (command->state == COMMAND_RUNNING && command->look_at > 0 &&
			command->look_at <= now)
			r = look_at_command(table, command);
	}
	return r;
}
