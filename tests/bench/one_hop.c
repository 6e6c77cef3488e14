// SPDX-License-Identifier: Apache-2.0
/*
 * A minimal file tool server with which bench_files compares cloister: one process and one hop. It
 * confines nothing and checks only the path. It reads MCP's tools/call of read_text_file from
 * standard input, one message a line, and answers on standard output. usage: bench_one_hop ROOT
 *
 * With any second argument it shows the cost of a second hop. A process in front of this server
 * then passes all bytes on, down a socket and up a pipe, as cloisterd does.
 */
#include <fcntl.h>
#include <json-c/json.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define INPUT_BYTES  (1 << 20)
#define FILE_BYTES   (2 << 20)
#define OUTPUT_BYTES (16 << 20)
#define FLUSH_BYTES  (1 << 20)

static int root_fd;
static size_t root_len;
static char input[INPUT_BYTES], file_bytes[FILE_BYTES], output[OUTPUT_BYTES];
static size_t input_len, output_len;

static void put(const char *text, size_t len)
{
	memcpy(output + output_len, text, len);
	output_len += len;
}

/* Copies bytes that need no escape to @to in blocks, and returns their number. */
static size_t copy_plain(char *to, const char *from, size_t len)
{
	size_t at = 0;

#ifdef __SSE2__
	for (; len - at >= 16; at += 16) {
		__m128i block = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
		__m128i control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
		__m128i marks = _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
			_mm_cmpeq_epi8(block, _mm_set1_epi8('\\')));
		unsigned mask = (unsigned)_mm_movemask_epi8(_mm_or_si128(control, marks));

		_mm_storeu_si128((__m128i *)(void *)(to + at), block);
		if (mask)
			return at + (size_t)__builtin_ctz(mask);
	}
#endif
	for (; at < len && (unsigned char)from[at] >= 0x20 && from[at] != '"' && from[at] != '\\';
		at++)
		to[at] = from[at];
	return at;
}

static void put_escaped(const char *text, size_t len)
{
	while (len > 0) {
		size_t plain = copy_plain(output + output_len, text, len);

		output_len += plain;
		text += plain;
		len -= plain;
		if (len == 0)
			return;
		if (*text == '\n')
			put("\\n", 2);
		else if (*text == '"' || *text == '\\')
			put((char[]){'\\', *text}, 2);
		else
			output_len += (size_t)sprintf(
				output + output_len, "\\u%04x", (unsigned char)*text);
		text++;
		len--;
	}
}

static void flush_to(int fd)
{
	for (size_t at = 0; at < output_len;) {
		ssize_t n = write(fd, output + at, output_len - at);

		if (n <= 0)
			exit(0);
		at += (size_t)n;
	}
	output_len = 0;
}

static void flush(void)
{
	flush_to(STDOUT_FILENO);
}

static bool put_file(const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	struct stat st;
	ssize_t n;
	int fd;

	if (*path == '/')
		path += root_len + 1;
	fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (fd < 0)
		return false;
	n = fstat(fd, &st) < 0 || st.st_size > FILE_BYTES
		    ? -1
		    : read(fd, file_bytes, (size_t)st.st_size);
	close(fd);
	if (n > 0)
		put_escaped(file_bytes, (size_t)n);
	return n >= 0;
}

static void answer(struct json_object *request)
{
	struct json_object *id, *params, *arguments, *path;
	bool done;

	if (!json_object_object_get_ex(request, "id", &id))
		return;
	output_len += (size_t)sprintf(
		output + output_len, "{\"jsonrpc\":\"2.0\",\"id\":%d,", json_object_get_int(id));
	if (!json_object_object_get_ex(request, "params", &params) ||
		!json_object_object_get_ex(params, "arguments", &arguments) ||
		!json_object_object_get_ex(arguments, "path", &path)) {
		output_len += (size_t)sprintf(output + output_len, "\"result\":{}}\n");
		return;
	}
	output_len += (size_t)sprintf(
		output + output_len, "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"");
	done = put_file(json_object_get_string(path));
	output_len +=
		(size_t)sprintf(output + output_len, "\"}]%s}}\n", done ? "" : ",\"isError\":true");
}

static void answer_lines(struct json_tokener *tokener)
{
	char *line = input, *newline;

	while ((newline = memchr(line, '\n', input_len - (size_t)(line - input)))) {
		struct json_object *request;

		json_tokener_reset(tokener);
		request = json_tokener_parse_ex(tokener, line, (int)(newline - line));
		answer(request);
		json_object_put(request);
		line = newline + 1;
		if (output_len > FLUSH_BYTES)
			flush();
	}
	flush();
	input_len -= (size_t)(line - input);
	memmove(input, line, input_len);
}

static void pass_on(int from, int to)
{
	ssize_t n = read(from, output, sizeof(output));

	if (n <= 0)
		exit(0);
	output_len = (size_t)n;
	flush_to(to);
}

/*
 * Forks the server and returns only in it. This process then passes bytes between the server and
 * the client.
 */
static void stand_between(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int down[2], up[2], epoll = epoll_create1(EPOLL_CLOEXEC);
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, down) < 0 || pipe(up) < 0 || (pid = fork()) < 0)
		exit(1);
	if (pid == 0) {
		dup2(down[1], STDIN_FILENO);
		dup2(up[1], STDOUT_FILENO);
		close(down[0]);
		return;
	}
	close(down[1]);
	close(up[1]);
	event.data.fd = STDIN_FILENO;
	epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event);
	event.data.fd = up[0];
	epoll_ctl(epoll, EPOLL_CTL_ADD, up[0], &event);
	while (epoll_wait(epoll, &event, 1, -1) > 0) {
		if (event.data.fd == STDIN_FILENO)
			pass_on(STDIN_FILENO, down[0]);
		else
			pass_on(up[0], STDOUT_FILENO);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	struct json_tokener *tokener = json_tokener_new();
	ssize_t n;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: bench_one_hop ROOT [two]\n");
		return 2;
	}
	if (argc == 3)
		stand_between();
	root_len = strlen(argv[1]);
	root_fd = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	while ((n = read(STDIN_FILENO, input + input_len, sizeof(input) - input_len)) > 0) {
		input_len += (size_t)n;
		answer_lines(tokener);
	}
	return 0;
}
