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
#include "gate/probe.h"
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

/* Reads a PEM file. Returns its content, or NULL with the reason in errno. */
static char *read_pem(const char *path)
{
	char *content = calloc(1, PEM_BYTES + 1);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 || !content ? -1 : read(fd, content, PEM_BYTES);

	if (n < 0)
		free(TAKE_PTR(content));
	return content;
}

/* Gives certificate and key to @use. Returns what it returns, or -errno with the file in @ret_at.
 */
static int with_certificate(struct gate *gate,
	int (*use)(struct gate *gate, const char *certificate, const char *key),
	const char **ret_at)
{
	const struct gate_config *config = gate->config;
	char *certificate = read_pem(*ret_at = config->tls_certificate);
	char *key = certificate ? read_pem(*ret_at = config->tls_key) : NULL;
	int r = -errno;

	if (key) {
		*ret_at = "libmicrohttpd: the certificate and its key";
		r = use(gate, certificate, key);
		explicit_bzero(key, PEM_BYTES);
	}
	free(key);
	free(certificate);
	return r;
}

static void start_server(struct gate *gate)
{
	const char *at = "libmicrohttpd";
	int r = gate->config->tls == GATE_TLS_CERTIFICATE
			? with_certificate(gate, gate_server_new, &at)
			: gate_server_new(gate, NULL, NULL);

	if (r < 0)
		die(at, r);
}

/* SIGHUP: the certificate was renewed, or the keys that verify tokens. */
static void on_hangup(evutil_socket_t number, short what, void *context)
{
	struct gate *gate = context;
	const char *at;
	int r;

	(void)number;
	(void)what;
	if (gate_keys_read_issuer(gate->keys, &at) < 0)
		gate_say("%s: %s; the keys that were read before stay", gate->config->jwt_keys, at);
	else if (gate->config->jwt_keys)
		gate_say("tokens are verified with the keys in %s", gate->config->jwt_keys);
	if (gate->config->tls != GATE_TLS_CERTIFICATE)
		return;
	r = with_certificate(gate, gate_server_renew, &at);
	if (r < 0)
		gate_say("%s: %s; the certificate that was read before stays", at, strerror(-r));
	else
		gate_say("new connections have the certificate in %s",
			gate->config->tls_certificate);
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

static void handle_signals(struct gate *gate)
{
	const struct {
		int number;
		event_callback_fn call;
		void *context;
	} signals[] = {{SIGTERM, on_signal, gate->base}, {SIGINT, on_signal, gate->base},
		{SIGHUP, on_hangup, gate}};

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct event *event = evsignal_new(
			gate->base, signals[i].number, signals[i].call, signals[i].context);

		if (!event || event_add(event, NULL) < 0)
			die("signals", ENOMEM);
	}
	signal(SIGPIPE, SIG_IGN);
}

struct arguments {
	const char *config, *probe_keys;
	bool check, probe;
};

static struct arguments read_arguments(int argc, char **argv)
{
	static const struct option names[] = {{"config", required_argument, NULL, 'c'},
		{"check", no_argument, NULL, 'n'}, {"probe", no_argument, NULL, 'p'},
		{"probe-keys", required_argument, NULL, 'k'}, {"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}};
	struct arguments arguments = {.config = DEFAULT_CONFIG};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 'c')
			arguments.config = optarg;
		else if (option == 'n')
			arguments.check = true;
		else if (option == 'p')
			arguments.probe = true;
		else if (option == 'k')
			arguments.probe_keys = optarg;
		else if (option == 'V') {
			puts("cloister-gate " CLOISTER_VERSION);
			exit(0);
		} else
			exit(2);
	}
	if (optind != argc) {
		gate_say("usage: cloister-gate [--config FILE] [--check | --probe [--probe-keys "
			 "FILE]]");
		exit(2);
	}
	return arguments;
}

/* Probes the gate that serves by this configuration. */
static int probe_gate(const struct gate_config *config, const char *keys)
{
	int failed = gate_probe(config, keys);

	if (failed < 0)
		die(keys, failed);
	return failed > 0;
}

static void serve_gate(struct gate *gate, struct gate_listeners *listeners)
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
	struct arguments arguments = read_arguments(argc, argv);
	const char *step = NULL;
	int r;

	r = gate_config_read(arguments.config, &config);
	if (r < 0)
		die(arguments.config, r);
	if (arguments.check)
		return 0;
	if (arguments.probe)
		return probe_gate(&config, arguments.probe_keys);
	if (host_root_is_us())
		die("it must not run as root: start it as a user of its own", EPERM);
	gate.config = &config;
	raise_descriptors();
	make_loop(&gate);
	handle_signals(&gate);
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
	if (gate_keys_read_issuer(gate.keys, &step) < 0) {
		gate_say("%s: %s", config.jwt_keys, step);
		return 1;
	}
	r = http_loop_new(&gate);
	if (r < 0)
		die("libcurl", r);
	r = gate_confine(&config, &step);
	if (r < 0)
		die(step, r);
	serve_gate(&gate, listeners);
	return 0;
}
