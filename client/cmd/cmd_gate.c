// SPDX-License-Identifier: Apache-2.0
/*
 * cloister gate: a cloisterd and a cloister-gate for the calling user alone. Both have the sockets
 * from here, so that nobody waits for them to begin, and both end with this process. The key is for
 * whoever reads this program's output.
 */
#include "client/cmd/command.h"
#include "client/private_instance.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/host_root.h"
#include "common/keys/gate_key.h"
#include "libcloister/cloister.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define USUAL_PORT   7080
#define PASSED_START 3 /* sd_listen_fds(3) */
#define PASSED_MAX   2

struct gate {
	char directory[PATH_MAX]; /* of sockets, keys and configuration; "": not made */
	char state[PATH_MAX];
	int agent, control, http; /* listening */
	unsigned port;
	char key[GATE_KEY_LENGTH + 1];
	pid_t service, gate; /* 0: not started */
};

static int path_in(const struct gate *gate, const char *name, char path[static PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/%s", gate->directory, name);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int listen_unix(const struct gate *gate, const char *name, int *ret)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATH_MAX];
	int r = path_in(gate, name, path);

	if (r < 0 || strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	*ret = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*ret < 0 || bind(*ret, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(*ret, SOMAXCONN) < 0)
		return -errno;
	return 0;
}

/* At the usual port, or if somebody has that at any. */
static int listen_http(struct gate *gate)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int one = 1;

	gate->http = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (gate->http < 0 ||
		setsockopt(gate->http, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	address.sin_port = htons(USUAL_PORT);
	if (bind(gate->http, (struct sockaddr *)&address, sizeof(address)) < 0) {
		address.sin_port = 0;
		if (bind(gate->http, (struct sockaddr *)&address, sizeof(address)) < 0)
			return -errno;
	}
	if (listen(gate->http, SOMAXCONN) < 0 ||
		getsockname(gate->http, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	gate->port = ntohs(address.sin_port);
	return 0;
}

/* Workspaces outlive this process; the rest is in the runtime directory, which the user alone has.
 */
static int make_directories(struct gate *gate)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *state = getenv("XDG_STATE_HOME"),
		   *home = getenv("HOME");
	char template[PATH_MAX];

	snprintf(template, sizeof(template), "%s/cloister-gate.XXXXXX",
		runtime && *runtime == '/' ? runtime : "/tmp");
	if (!mkdtemp(template))
		return -errno;
	memcpy(gate->directory, template, sizeof(template));
	if (state && *state == '/')
		snprintf(gate->state, sizeof(gate->state), "%s/cloister-gate", state);
	else if (home && *home == '/')
		snprintf(gate->state, sizeof(gate->state), "%s/.local/state/cloister-gate", home);
	else
		return path_in(gate, "state", gate->state);
	return 0;
}

static int write_file(const struct gate *gate, const char *name, const char *content)
{
	char path[PATH_MAX];
	int r = path_in(gate, name, path);
	_cleanup_close_ int fd =
		r < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t len = (ssize_t)strlen(content);

	if (r < 0 || fd < 0 || write(fd, content, (size_t)len) != len)
		return r < 0 ? r : -errno;
	return 0;
}

static int write_files(struct gate *gate, const char *tenant)
{
	struct gate_key key = {.name = "terminal"};
	const struct gate_key_list list = {&key, 1};
	_cleanup_free_ char *keys = NULL;
	char config[2 * PATH_MAX + 64];
	int r;

	if (!gate_key_is_word(text_from(tenant), LIMIT_CONFIG_NAME_BYTES))
		return -EINVAL;
	snprintf(key.tenant, sizeof(key.tenant), "%s", tenant);
	r = gate_key_make(&key, gate->key);
	keys = r == 0 ? gate_keys_write(&list) : NULL;
	if (r < 0 || !keys)
		return r < 0 ? r : -ENOMEM;
	snprintf(config, sizeof(config), "[gate]\nagent_socket = %s/agent.sock\nkeys = %s/keys\n",
		gate->directory, gate->directory);
	r = write_file(gate, "keys", keys);
	return r < 0 ? r : write_file(gate, "gate.conf", config);
}

/* In the child: passes @fds as the service manager would, and executes. */
__attribute__((noreturn)) static void exec_with(
	const char *path, char *const *argv, const int *fds, size_t n, const char *names)
{
	char number[32];
	int moved[PASSED_MAX];
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	/* A terminal's Ctrl-C is for this program, which then ends both. */
	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < n; i++) {
		moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, PASSED_START + PASSED_MAX);
		if (moved[i] < 0)
			_exit(STATUS_OWN_FAILURE);
	}
	for (size_t i = 0; i < n; i++)
		if (dup2(moved[i], PASSED_START + (int)i) < 0)
			_exit(STATUS_OWN_FAILURE);
	close_range(PASSED_START + (unsigned)n, ~0U, 0);
	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv("LISTEN_PID", number, 1);
	snprintf(number, sizeof(number), "%zu", n);
	setenv("LISTEN_FDS", number, 1);
	setenv("LISTEN_FDNAMES", names, 1);
	execv(path, argv);
	complain("cannot start %s: %s", path, strerror(errno));
	_exit(STATUS_OWN_FAILURE);
}

static char **add_all(char **next, char *option, const char *const *values)
{
	for (; *values; values++) {
		*next++ = option;
		*next++ = (char *)*values;
	}
	return next;
}

static int start_service(struct gate *gate, const struct invocation *invocation)
{
	static char state[] = "--state-dir", socket[] = "--control-socket", tools[] = "--tools",
		    offered[] = MODELS_TOOLS, readonly[] = "--readonly-path",
		    allow[] = "--allow-net", private[] = "--allow-private-net";
	/* Unlike a person, a program opens one workspace after the other. */
	static char spares[] = "--spare-cells=2";
	char program[PATH_MAX], control[PATH_MAX];
	char *argv[9 + 2 * LIMIT_READONLY_PATHS + 4 * LIMIT_ALLOW_NET] = {
		program, state, gate->state, socket, control, tools, offered, spares};
	char **next = argv + 8;
	int fds[] = {gate->agent, gate->control};
	int r = program_find("cloisterd", program);

	if (r == 0)
		r = path_in(gate, "control.sock", control);
	if (r < 0)
		return r;
	next = add_all(next, readonly, invocation->readonly_paths);
	next = add_all(next, allow, invocation->allow_net);
	(void)add_all(next, private, invocation->allow_private_net);
	gate->service = fork();
	if (gate->service == 0)
		exec_with(program, argv, fds, ARRAY_SIZE(fds), "agent:control");
	/* If it ends, whoever connects is told. */
	close_fd(&gate->agent);
	close_fd(&gate->control);
	return gate->service < 0 ? -errno : 0;
}

static int start_gate(struct gate *gate)
{
	char program[PATH_MAX], config[PATH_MAX];
	static char option[] = "--config";
	char *argv[] = {program, option, config, NULL};
	int r = program_find("cloister-gate", program);

	if (r == 0)
		r = path_in(gate, "gate.conf", config);
	if (r < 0)
		return r;
	gate->gate = fork();
	if (gate->gate == 0)
		exec_with(program, argv, &gate->http, 1, "http");
	close_fd(&gate->http);
	return gate->gate < 0 ? -errno : 0;
}

/* Asks the cloisterd that was started for its one tenant: the socket listens already. */
static int ask_tenant(const struct gate *gate, char *tenant, size_t size)
{
	struct cloister_message *reply = NULL;
	struct cloister *control = NULL;
	char path[PATH_MAX];
	const char *name;
	int r = path_in(gate, "control.sock", path);

	if (r == 0)
		r = cloister_open(path, &control);
	if (r == 0)
		r = cloister_request(control, "tenants", NULL, &reply);
	name = r == 0 ? cloister_get_string(reply, "/tenants/0/tenant", NULL) : NULL;
	if (r == 0 && (!name || strlen(name) >= size))
		r = -EPROTO;
	if (r == 0)
		memcpy(tenant, name, strlen(name) + 1);
	cloister_message_free(reply);
	cloister_close(control);
	return r;
}

static void print(const struct gate *gate, bool json)
{
	char url[64];

	snprintf(url, sizeof(url), "http://127.0.0.1:%u", gate->port);
	if (json)
		printf("{\"url\":\"%s\",\"key\":\"%s\"}\n", url, gate->key);
	else
		printf("url  %s\nkey  %s\n", url, gate->key);
	fflush(stdout);
}

/* Waits for a signal, or the end of one of the two. Returns the status. */
static int wait_for_end(const struct gate *gate, const sigset_t *signals)
{
	siginfo_t ended = {0};

	while (sigwaitinfo(signals, NULL) == SIGCHLD) {
		if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid) {
			complain("%s has ended",
				ended.si_pid == gate->gate ? "cloister-gate" : "cloisterd");
			return STATUS_OWN_FAILURE;
		}
	}
	return STATUS_OK;
}

static void end_process(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void gate_done(struct gate *gate)
{
	static const char *const names[] = {"agent.sock", "control.sock", "keys", "gate.conf"};
	char path[PATH_MAX];

	end_process(gate->gate);
	end_process(gate->service);
	close_fd(&gate->agent);
	close_fd(&gate->control);
	close_fd(&gate->http);
	explicit_bzero(gate->key, sizeof(gate->key));
	if (!gate->directory[0])
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (path_in(gate, names[i], path) == 0)
			(void)unlink(path);
	(void)rmdir(gate->directory);
}

static int begin_gate(struct gate *gate, const struct invocation *invocation)
{
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
	int r = make_directories(gate);

	if (r == 0)
		r = listen_unix(gate, "agent.sock", &gate->agent);
	if (r == 0)
		r = listen_unix(gate, "control.sock", &gate->control);
	if (r == 0)
		r = listen_http(gate);
	if (r == 0)
		r = start_service(gate, invocation);
	if (r == 0)
		r = ask_tenant(gate, tenant, sizeof(tenant));
	if (r == 0)
		r = write_files(gate, tenant);
	return r < 0 ? r : start_gate(gate);
}

static int run_gate(const struct invocation *invocation)
{
	_cleanup_(gate_done) struct gate gate = {.agent = -1, .control = -1, .http = -1};
	sigset_t signals;
	int r;

	if (host_root_is_us()) {
		complain("start it as the user whose workspaces these are to be, not as root");
		return STATUS_OWN_FAILURE;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	r = begin_gate(&gate, invocation);
	if (r < 0) {
		complain("cannot start the gate: %s", strerror(-r));
		return STATUS_OWN_FAILURE;
	}
	print(&gate, invocation->json);
	return wait_for_end(&gate, &signals);
}

const struct command command_gate = {
	.help = {"gate", NULL,
		"Serve HTTP on this machine for yourself: prints the URL and a key, until Ctrl-C.",
		"cloister gate --allow-net=pypi.org", NULL},
	.run = run_gate,
};
