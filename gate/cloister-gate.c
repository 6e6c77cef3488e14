// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-gate: HTTP for cloisterd's agent socket. It trusts its configuration and its file of
 * keys, and nobody who connects. It has no privilege of its own: cloisterd binds each of its
 * connections to one tenant.
 */
#include "common/cleanup.h"
#include "common/host_root.h"
#include "common/limits.h"
#include "gate/confine.h"
#include "gate/failures.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/keys.h"
#include "gate/listener.h"
#include "gate/ports/http_loop.h"
#include "gate/server.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define DEFAULT_CONFIG "/etc/cloister-gate/gate.conf"
#define PEM_BYTES      (256 * KIB)

void gate_say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("cloister-gate: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

static _Noreturn void die(const char *what, int error)
{
	gate_say("%s: %s", what, strerror(error < 0 ? -error : error));
	exit(1);
}

/* Each request of a face may take two descriptors, its client's and a link's. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("RLIMIT_NOFILE", errno);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("RLIMIT_NOFILE", errno);
}

/* Reads a PEM file. */
static char *read_pem(const char *path)
{
	char *content = calloc(1, PEM_BYTES + 1);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 || !content ? -1 : read(fd, content, PEM_BYTES);

	if (n < 0)
		die(path, errno);
	return content;
}

static void start_server(struct gate *gate)
{
	const struct gate_config *config = gate->config;
	char *certificate = NULL, *key = NULL;
	int r;

	if (config->tls == GATE_TLS_CERTIFICATE) {
		certificate = read_pem(config->tls_certificate);
		key = read_pem(config->tls_key);
	}
	r = gate_server_new(gate, certificate, key);
	if (r < 0)
		die(certificate ? "libmicrohttpd: the certificate and its key do not fit"
				: "libmicrohttpd",
			r);
	if (key)
		explicit_bzero(key, PEM_BYTES);
}

static void make_loop(struct gate *gate)
{
	struct event_config *config = event_config_new();

	if (!config || event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) < 0 ||
		event_config_require_features(config, EV_FEATURE_EARLY_CLOSE) < 0)
		die("event_config_new", ENOMEM);
	gate->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!gate->base)
		die("event_base_new_with_config", ENOMEM);
}

static void on_signal(evutil_socket_t number, short what, void *context)
{
	(void)number;
	(void)what;
	event_base_loopbreak(context);
}

static void end_on_signals(struct gate *gate)
{
	static const int numbers[] = {SIGTERM, SIGINT};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct event *event = evsignal_new(gate->base, numbers[i], on_signal, gate->base);

		if (!event || event_add(event, NULL) < 0)
			die("signals", ENOMEM);
	}
	signal(SIGPIPE, SIG_IGN);
}

/* Returns the path of the configuration, or exits. */
static const char *read_arguments(int argc, char **argv, bool *ret_check)
{
	static const struct option names[] = {{"config", required_argument, NULL, 'c'},
		{"check", no_argument, NULL, 'n'}, {"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}};
	const char *path = DEFAULT_CONFIG;
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 'c')
			path = optarg;
		else if (option == 'n')
			*ret_check = true;
		else if (option == 'V') {
			puts("cloister-gate " CLOISTER_VERSION);
			exit(0);
		} else
			exit(2);
	}
	if (optind != argc) {
		gate_say("usage: cloister-gate [--config FILE] [--check]");
		exit(2);
	}
	return path;
}

static void serve(struct gate *gate, struct gate_listeners *listeners)
{
	int r = gate_server_begin(listeners);

	if (r < 0)
		die("listen", r);
	event_base_dispatch(gate->base);
}

int main(int argc, char **argv)
{
	struct gate gate = {0};
	struct gate_config config;
	struct gate_listeners *listeners;
	const char *path, *step = NULL;
	bool check = false;
	int r;

	path = read_arguments(argc, argv, &check);
	r = gate_config_read(path, &config);
	if (r < 0)
		die(path, r);
	if (check)
		return 0;
	if (host_root_is_us())
		die("it must not run as root: start it as a user of its own", EPERM);
	gate.config = &config;
	raise_descriptors();
	make_loop(&gate);
	end_on_signals(&gate);
	gate.failures = gate_failures_new();
	if (!gate.failures)
		die("failures", ENOMEM);
	r = gate_listeners_open(&gate, &listeners, &step);
	if (r < 0)
		die(step, r);
	start_server(&gate);
	r = gate_keys_open(&gate, config.keys, gate_server_check_keys, &gate.keys);
	if (r < 0)
		die(config.keys, r);
	r = http_loop_new(&gate);
	if (r < 0)
		die("libcurl", r);
	r = gate_confine(&config, &step);
	if (r < 0)
		die(step, r);
	serve(&gate, listeners);
	return 0;
}
