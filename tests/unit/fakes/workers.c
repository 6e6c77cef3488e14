// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/workers.h"

#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "tests/lib/unit.h"

#define CALLS        512
#define FAKE_FETCHED 20000 /* bytes of a file that is read as a stream */

/* A call that has begun and not ended. */
struct work {
	struct fake_process *process; /* NULL: the place is free */
	uint64_t call;
	uint8_t change; /* of a write, an edit or a patch: the type of its request */
	bool held;      /* it waits for FILES_GO when all of its body is there */
	bool streamed;  /* it takes each part, and ends with FILES_GO */
	uint64_t left;  /* bytes of a file that is read as a stream */
	char path[64];  /* of a write or an edit */
	size_t wanted;  /* bytes of its body */
	char *body;
	size_t len;
	struct command_run run;
	int fds[COMMAND_FDS];
	bool begun;
};

static struct work works[CALLS];
static size_t top; /* no place from here on was ever taken */

struct fake_answers fake_workers_answers;

static struct work *find(struct fake_process *process, uint64_t call)
{
	for (size_t i = 0; i < top; i++)
		if (works[i].process == process && works[i].call == call)
			return &works[i];
	return NULL;
}

static struct work *add(struct fake_process *process, uint64_t call)
{
	struct work *work = find(NULL, 0);

	if (!work) {
		assert_true(top < CALLS);
		work = &works[top++];
	}
	*work = (struct work){.process = process, .call = call, .fds = {-1, -1, -1, -1}};
	return work;
}

static void drop(struct work *work)
{
	for (size_t i = 0; i < COMMAND_FDS; i++)
		close_fd(&work->fds[i]);
	free(work->body);
	*work = (struct work){0};
}

uint64_t fake_workers_call(const struct fake_process *process, unsigned n)
{
	uint64_t call = 0;

	for (size_t i = 0; top > 0 && i < top && call == 0; i++)
		if (works[(n + i) % top].process == process)
			call = works[(n + i) % top].call;
	return call;
}

void fake_workers_done(void)
{
	for (size_t i = 0; i < top; i++)
		if (works[i].process)
			drop(&works[i]);
}

void fake_workers_ready(struct fake_cell *cell)
{
	fake_process_say(&cell->worker, COMMAND_READY, 0, (struct text){NULL, 0});
	fake_process_say(
		&cell->files, FILES_READY, 0, TEXT_LITERAL("\0\0\0\0\0\0\0\0")); /* no quota */
}

static void collect(struct work *work, struct text part)
{
	work->body = realloc(work->body, work->len + part.len + 1);
	assert_non_null(work->body);
	memcpy(work->body + work->len, part.data, part.len);
	work->len += part.len;
	work->body[work->len] = '\0';
}

/* Commands. */

static void end_command(struct work *work, struct command_ended ended)
{
	uint8_t payload[COMMAND_ENDED_SIZE];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct fake_process *process = work->process;
	uint64_t call = work->call;

	ended.user_us = 1000;
	ended.system_us = 500;
	ended.max_rss_bytes = 4096;
	command_ended_put(&writer, &ended);
	assert_true(wire_writer_ok(&writer));
	drop(work);
	fake_process_say(process, COMMAND_ENDED, call, (struct text){(char *)payload, writer.len});
}

static void say(struct work *work, int fd, const char *text)
{
	assert_int_equal(write(work->fds[fd], text, strlen(text)), strlen(text));
}

void fake_workers_write(const char *text)
{
	for (size_t i = 0; i < top; i++)
		if (works[i].begun)
			say(&works[i], COMMAND_FD_STDOUT, text);
}

void fake_workers_exit(const char *command)
{
	for (size_t i = 0; i < top; i++)
		if (works[i].begun && strcmp(works[i].body, command) == 0)
			end_command(&works[i], (struct command_ended){.end = COMMAND_END_EXIT});
}

static void say_lines(struct work *work, const char *text)
{
	_cleanup_free_ char *lines = strdup(text);

	for (char *c = lines; *c; c++)
		if (*c == '|')
			*c = '\n';
	say(work, COMMAND_FD_STDOUT, lines);
}

/* Returns the argument of the present command, or NULL if the command is not @name. */
static const char *argument(const struct work *work, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(work->body, name, len) != 0 ||
		(work->body[len] != ' ' && work->body[len] != '\0'))
		return NULL;
	return work->body[len] ? work->body + len + 1 : "";
}

static void copy_input(struct work *work)
{
	char buffer[4096];
	ssize_t n;

	assert_int_equal(fcntl(work->fds[COMMAND_FD_STDIN], F_SETFL, O_NONBLOCK), 0);
	while ((n = read(work->fds[COMMAND_FD_STDIN], buffer, sizeof(buffer))) > 0)
		assert_int_equal(write(work->fds[COMMAND_FD_STDOUT], buffer, (size_t)n), n);
	if (n == 0)
		end_command(work, (struct command_ended){.end = COMMAND_END_EXIT});
}

static void begin_command(struct work *work)
{
	struct command_ended ended = {.end = COMMAND_END_EXIT};
	const char *text;

	work->begun = true;
	work->body[work->run.command_len] = '\0';
	text = fake_workers_answers.command ? fake_workers_answers.command(work->body) : "";
	if (*text) {
		say(work, COMMAND_FD_STDOUT, text);
	} else if ((text = argument(work, "echo"))) {
		say(work, COMMAND_FD_STDOUT, text);
		say(work, COMMAND_FD_STDOUT, "\n");
	} else if ((text = argument(work, "fail"))) {
		say(work, COMMAND_FD_STDERR, "failed\n");
		ended.wait_status = (uint32_t)atoi(text) << 8;
	} else if ((text = argument(work, "signal"))) {
		ended.wait_status = (uint32_t)atoi(text);
	} else if ((text = argument(work, "cannot"))) {
		ended.end = COMMAND_END_NOT_BEGUN;
		ended.launch_error = (uint32_t)atoi(text);
	} else if (argument(work, "memory")) {
		ended.wait_status = SIGKILL;
		ended.cgroup = (struct command_cgroup_usage){.has_memory_peak = true,
			.has_io = true,
			.memory_peak_bytes = 1 << 20,
			.io_read_bytes = 7,
			.io_write_bytes = 9,
			.oom_kills = 1};
	} else if ((text = argument(work, "leave"))) {
		ended.left_over = (uint32_t)atoi(text);
	} else if ((text = argument(work, "connect"))) {
		say(work, COMMAND_FD_STDERR, text);
		ended.wait_status = 1 << 8;
		ended.network_tried = true;
	} else if ((text = argument(work, "ask"))) {
		say(work, COMMAND_FD_STDOUT, text);
		ended.wait_status = 1 << 8;
	} else if ((text = argument(work, "say"))) {
		say_lines(work, text);
		return;
	} else if (argument(work, "hang") || argument(work, "stubborn") || argument(work, "deaf") ||
		   (argument(work, "cat") && work->run.has_stdin)) {
		return;
	}
	end_command(work, ended);
}

static void stop_command(struct work *work, uint8_t type)
{
	int signal = type == COMMAND_KILL ? SIGKILL : SIGTERM;

	if (type == COMMAND_RESIZE || !work || !work->begun || argument(work, "deaf") ||
		(argument(work, "stubborn") && type != COMMAND_KILL))
		return;
	end_command(work, (struct command_ended){
				  .end = COMMAND_END_TERMINATED, .wait_status = (uint32_t)signal});
}

uint64_t fake_workers_pause;

static void act_on_worker_frame(struct fake_process *process, struct channel_frame *frame)
{
	struct work *work;

	if (frame->type == COMMAND_RUN) {
		work = add(process, frame->call);
		assert_int_equal(command_run_get(frame->payload, &work->run), 0);
		assert_int_equal(frame->n_fds, command_run_fds(&work->run));
		memcpy(work->fds, frame->fds, frame->n_fds * sizeof(int));
		frame->n_fds = 0;
		return;
	}
	if (frame->type == COMMAND_PAUSE) {
		fake_workers_pause = frame->call;
		return;
	}
	work = find(process, frame->call);
	if (frame->type != COMMAND_BODY) {
		stop_command(work, frame->type);
		return;
	}
	assert_non_null(work);
	collect(work, frame->payload);
	if (work->len == work->run.command_len + work->run.env_len + work->run.cwd_len)
		begin_command(work);
}

/* Files. */

static void end_files(struct fake_process *process, uint64_t call, const struct files_end *end)
{
	uint8_t payload[8192];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_end_put(&writer, end);
	assert_true(wire_writer_ok(&writer));
	fake_process_say(process, FILES_END, call, (struct text){(char *)payload, writer.len});
}

/* Acts as the name of the file says. Returns false for an ordinary name. */
static bool is_special(struct fake_process *process, uint64_t call, const char *tool,
	struct text path, struct text pattern)
{
	struct files_end end = {0};

	if (fake_workers_answers.file) {
		int error = fake_workers_answers.file(tool, path, pattern, &end.count);

		if (error == FAKE_ORDINARY)
			return false;
		if (error == FAKE_SLOW) {
			add(process, call);
			return true;
		}
		end.error = (uint32_t)error;
		end_files(process, call, &end);
		return true;
	}
	if (text_equal(path, TEXT_LITERAL("missing"))) {
		end_files(process, call, &(struct files_end){.error = TOOL_NOT_FOUND});
		return true;
	}
	if (text_equal(path, TEXT_LITERAL("binary"))) {
		end_files(process, call,
			&(struct files_end){.path = path,
				.binary = true,
				.size = 68,
				.type = TEXT_LITERAL("image/png")});
		return true;
	}
	if (text_equal(path, TEXT_LITERAL("slow"))) {
		add(process, call);
		return true;
	}
	return text_equal(path, TEXT_LITERAL("deaf"));
}

/* Sends the 68 bytes of an image in two parts, as bytes of type @type. */
static void send_image(struct fake_process *process, uint64_t call, uint8_t type)
{
	fake_process_say(process, type, call, TEXT_LITERAL("\211PNG\r\n\032\n"));
	fake_process_say(process, type, call,
		TEXT_LITERAL("012345678901234567890123456789012345678901234567890123456789"));
}

static void read_image(struct fake_process *process, const struct channel_frame *frame,
	const struct files_read *read)
{
	struct files_end end = {.path = read->path, .size = 68, .lines = 2, .total_lines = 2};

	if (read->raw) {
		send_image(process, frame->call, FILES_DATA);
	} else {
		if (read->images)
			send_image(process, frame->call, FILES_IMAGE);
		end.lines = end.total_lines = 0;
		end.binary = true;
		end.type = TEXT_LITERAL("image/png");
	}
	end_files(process, frame->call, &end);
}

static void read_file(struct fake_process *process, const struct channel_frame *frame)
{
	struct files_read read;

	assert_int_equal(files_read_get(frame->payload, &read), 0);
	if (is_special(process, frame->call, "read_file", read.path, (struct text){NULL, 0}))
		return;
	if (text_equal(read.path, TEXT_LITERAL("image"))) {
		read_image(process, frame, &read);
		return;
	}
	fake_process_say(process, FILES_DATA, frame->call, TEXT_LITERAL("one\n"));
	fake_process_say(process, FILES_DATA, frame->call, TEXT_LITERAL("two\n"));
	end_files(process, frame->call,
		&(struct files_end){.path = read.path, .size = 8, .lines = 2, .total_lines = 2});
}

/* Changes of files. */

/* The one file of a patch, whatever the patch says. */
static void tell_patched(struct work *work)
{
	static const struct files_patched patched = {.operation = FILES_UPDATE,
		.path = TEXT_LITERAL("patched"),
		.added = 2,
		.removed = 1,
		.version = TEXT_LITERAL("after"),
		.found = TEXT_LITERAL("before")};
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_patched_put(&writer, &patched);
	fake_process_say(work->process, FILES_PATCHED, work->call,
		(struct text){(char *)payload, writer.len});
}

static void tell_step(struct work *work, enum files_state state)
{
	uint8_t payload[64];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_step_put(&writer, &(struct files_step){.state = (uint8_t)state});
	fake_process_say(
		work->process, FILES_STEP, work->call, (struct text){(char *)payload, writer.len});
}

static void tell_held(struct work *work)
{
	struct files_held held = {0};
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	if (work->change != FILES_PATCH)
		held = (struct files_held){
			TEXT_LITERAL("absent"), TEXT_LITERAL("after"), work->len};
	files_held_put(&writer, &held);
	fake_process_say(
		work->process, FILES_HELD, work->call, (struct text){(char *)payload, writer.len});
}

static void make_change(struct work *work)
{
	struct files_end end = {
		.path = text_from(work->path), .created = work->len > 0, .size = work->len};

	if (work->change == FILES_PATCH) {
		tell_step(work, FILES_BEGUN);
		tell_step(work, FILES_CHANGED);
		end = (struct files_end){0};
	} else if (work->change == FILES_EDIT) {
		fake_process_say(work->process, FILES_DATA, work->call, TEXT_LITERAL("-one\n+1\n"));
		end = (struct files_end){.path = text_from(work->path),
			.size = 8,
			.count = 1,
			.first_line = 1,
			.version = TEXT_LITERAL("after")};
	}
	end_files(work->process, work->call, &end);
	drop(work);
}

/* All of the body of a change is there. */
static void prepare_change(struct work *work)
{
	if (work->change == FILES_PATCH)
		tell_patched(work);
	if (work->held)
		tell_held(work);
	else
		make_change(work);
}

static void begin_change(struct fake_process *process, const struct channel_frame *frame,
	struct text path, uint64_t size, bool held)
{
	struct work *work = add(process, frame->call);

	work->change = frame->type;
	work->wanted = size;
	work->held = held;
	snprintf(work->path, sizeof(work->path), "%.*s", (int)path.len, path.data);
	if (size == 0)
		prepare_change(work);
}

static void write_file(struct fake_process *process, const struct channel_frame *frame)
{
	struct files_write write;

	assert_int_equal(files_write_get(frame->payload, &write), 0);
	if (is_special(process, frame->call, "write_file", write.path, (struct text){NULL, 0}))
		return;
	if (write.streamed)
		begin_change(process, frame, write.path, SIZE_MAX, false);
	else
		begin_change(process, frame, write.path, write.size, write.held);
	if (write.streamed)
		find(process, frame->call)->streamed = true;
}

static void edit_file(struct fake_process *process, const struct channel_frame *frame)
{
	struct files_edit edit;

	assert_int_equal(files_edit_get(frame->payload, &edit), 0);
	if (!is_special(process, frame->call, "edit_file", edit.path, (struct text){NULL, 0}))
		begin_change(process, frame, edit.path, edit.size, edit.held);
}

static void patch_files(struct fake_process *process, const struct channel_frame *frame)
{
	struct files_patch patch;

	assert_int_equal(files_patch_get(frame->payload, &patch), 0);
	begin_change(process, frame, TEXT_LITERAL(""), patch.size, patch.held);
}

static void say_amount(struct fake_process *process, uint64_t call, uint64_t bytes)
{
	uint8_t payload[FILES_AMOUNT_SIZE];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_amount_put(&writer, &(struct files_amount){bytes});
	fake_process_say(process, FILES_TAKEN, call, (struct text){(char *)payload, writer.len});
}

static void take_body(struct fake_process *process, const struct channel_frame *frame)
{
	struct work *work = find(process, frame->call);

	if (!work)
		return;
	collect(work, frame->payload);
	if (work->streamed)
		say_amount(process, frame->call, frame->payload.len);
	else if (work->len >= work->wanted)
		prepare_change(work);
}

static void go(struct fake_process *process, const struct channel_frame *frame)
{
	struct work *work = find(process, frame->call);

	/* A test may have lied for it. */
	if (work && (work->held || work->streamed))
		make_change(work);
}

static void say_node(struct fake_process *process, uint64_t call, struct text path, uint64_t size)
{
	const struct files_node node = {
		.entry = {.path = path, .type = FILES_TYPE_FILE, .size = size}};
	uint8_t payload[8192];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_node_put(&writer, &node);
	fake_process_say(process, FILES_NODE, call, (struct text){(char *)payload, writer.len});
}

static void fetch(struct fake_process *process, const struct channel_frame *frame)
{
	struct files_ask ask;

	assert_int_equal(files_ask_get(frame->payload, &ask), 0);
	if (is_special(process, frame->call, "file.read", ask.path, (struct text){NULL, 0}))
		return;
	add(process, frame->call)->left = FAKE_FETCHED;
	say_node(process, frame->call, ask.path, FAKE_FETCHED);
}

static void fetch_more(struct fake_process *process, const struct channel_frame *frame)
{
	static const char zeros[4096];
	struct work *work = find(process, frame->call);
	struct files_amount amount;

	assert_int_equal(files_amount_get(frame->payload, &amount), 0);
	while (work && work->left > 0 && amount.bytes > 0) {
		size_t n = work->left < sizeof(zeros) ? (size_t)work->left : sizeof(zeros);

		n = amount.bytes < n ? (size_t)amount.bytes : n;
		fake_process_say(process, FILES_DATA, frame->call, (struct text){zeros, n});
		work->left -= n;
		amount.bytes -= n;
	}
	if (!work || work->left > 0)
		return;
	drop(work);
	end_files(process, frame->call,
		&(struct files_end){.path = TEXT_LITERAL("f"), .size = FAKE_FETCHED});
}

/* A method of files that is neither a read nor a write. */
static void act_once(struct fake_process *process, const struct channel_frame *frame)
{
	struct files_ask ask;

	assert_int_equal(files_ask_get(frame->payload, &ask), 0);
	if (is_special(process, frame->call, "file.stat", ask.path, (struct text){NULL, 0}))
		return;
	if (frame->type != FILES_REMOVE)
		say_node(process, frame->call, ask.path, 8);
	end_files(process, frame->call, &(struct files_end){.path = ask.path, .count = 1});
}

static void list(struct fake_process *process, const struct channel_frame *frame)
{
	static const struct files_entry entries[] = {
		{TEXT_LITERAL("a"), FILES_TYPE_FILE, 3, 1700000000123000000, {NULL, 0}, 0},
		{TEXT_LITERAL("d"), FILES_TYPE_DIRECTORY, 0, 1700000000000000000, {NULL, 0}, 0},
		{TEXT_LITERAL("l\\x"), FILES_TYPE_SYMLINK, 1, 0, TEXT_LITERAL("a"), 0},
	};
	struct files_list list;

	assert_int_equal(files_list_get(frame->payload, &list), 0);
	if (is_special(process, frame->call, "list_directory", list.path, list.pattern))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		uint8_t payload[256];
		struct wire_writer writer = wire_writer(payload, sizeof(payload));

		files_entry_put(&writer, &entries[i]);
		fake_process_say(process, FILES_ENTRY, frame->call,
			(struct text){(char *)payload, writer.len});
	}
	end_files(process, frame->call,
		&(struct files_end){.path = list.path, .count = ARRAY_SIZE(entries)});
}

static void search(struct fake_process *process, const struct channel_frame *frame)
{
	static const struct files_match match = {
		TEXT_LITERAL("a"), 2, TEXT_LITERAL("the line"), true, false};
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct files_search search;

	assert_int_equal(files_search_get(frame->payload, &search), 0);
	if (is_special(process, frame->call, "search_files", search.path, search.pattern))
		return;
	files_match_put(&writer, &match);
	fake_process_say(
		process, FILES_MATCH, frame->call, (struct text){(char *)payload, writer.len});
	end_files(process, frame->call,
		&(struct files_end){.count = 1, .files_searched = 5, .files_skipped = 1});
}

/* One file was added. */
static void diff(struct fake_process *process, const struct channel_frame *frame)
{
	static const struct files_change change = {.path = TEXT_LITERAL("made"),
		.after = {.type = FILES_TYPE_FILE, .size = 4, .mode = 0644}};
	static const struct files_totals totals = {.added = 1};
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct files_diff diff;

	assert_int_equal(files_diff_get(frame->payload, &diff), 0);
	if (is_special(process, frame->call, "workspace.diff", TEXT_LITERAL("."),
		    (struct text){NULL, 0}))
		return;
	files_change_put(&writer, &change);
	fake_process_say(
		process, FILES_CHANGE, frame->call, (struct text){(char *)payload, writer.len});
	if (diff.patch)
		fake_process_say(process, FILES_DATA, frame->call, TEXT_LITERAL("+new\n"));
	writer = wire_writer(payload, sizeof(payload));
	files_totals_put(&writer, &totals);
	fake_process_say(
		process, FILES_TOTALS, frame->call, (struct text){(char *)payload, writer.len});
	end_files(process, frame->call, &(struct files_end){.count = 1});
}

static void cancel(struct fake_process *process, const struct channel_frame *frame)
{
	struct work *work = find(process, frame->call);

	if (!work)
		return;
	drop(work);
	end_files(process, frame->call, &(struct files_end){.error = TOOL_CANCELLED});
}

static void clear(struct fake_process *process, const struct channel_frame *frame)
{
	end_files(process, frame->call, &(struct files_end){0});
}

static void sweep(struct fake_process *process, const struct channel_frame *frame)
{
	struct files_sweep message;

	assert_int_equal(frame->call, 0);
	assert_int_equal(files_sweep_get(frame->payload, &message), 0);
	end_files(process, 0, &(struct files_end){.size = 8192, .count = 2});
}

static void act_on_files_frame(struct fake_process *process, const struct channel_frame *frame)
{
	static void (*const acts[])(struct fake_process *, const struct channel_frame *) = {
		[FILES_READ] = read_file,
		[FILES_WRITE] = write_file,
		[FILES_LIST] = list,
		[FILES_SEARCH] = search,
		[FILES_BODY] = take_body,
		[FILES_CANCEL] = cancel,
		[FILES_CLEAR] = clear,
		[FILES_SWEEP] = sweep,
		[FILES_DIFF] = diff,
		[FILES_EDIT] = edit_file,
		[FILES_PATCH] = patch_files,
		[FILES_GO] = go,
		[FILES_FETCH] = fetch,
		[FILES_MORE] = fetch_more,
		[FILES_STAT] = act_once,
		[FILES_TREE] = act_once,
		[FILES_MAKE_DIRECTORY] = act_once,
		[FILES_RENAME] = act_once,
		[FILES_REMOVE] = act_once,
	};

	assert_true(frame->type < ARRAY_SIZE(acts) && acts[frame->type]);
	acts[frame->type](process, frame);
}

bool fake_workers_act(struct fake_cell *cell)
{
	struct channel_frame frame;
	bool acted = false;

	/* The list of cells has all that ever were. */
	if (cell->worker.life < 0 && cell->files.life < 0)
		return false;
	for (; fake_process_hear(&cell->worker, &frame); acted = true) {
		act_on_worker_frame(&cell->worker, &frame);
		channel_frame_done(&frame);
	}
	for (; fake_process_hear(&cell->files, &frame); acted = true) {
		act_on_files_frame(&cell->files, &frame);
		channel_frame_done(&frame);
	}
	for (size_t i = 0; i < top; i++)
		if (works[i].process == &cell->worker && works[i].begun &&
			argument(&works[i], "cat"))
			copy_input(&works[i]);
	return acted;
}
