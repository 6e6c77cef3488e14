// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The socket is connected before lock-down, which forbids connect(2). cloisterd
 * never waits for the manager: a datagram that finds its queue full is dropped.
 */
#include "supervisor/daemon/notify.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define STATUS_US 1000000ULL

static int notify_fd = -1;
static uint64_t watchdog_us; /* 0: there is no watchdog */
static struct timer beat;
static int64_t beat_ns;  /* interval between notifications */
static char status[256]; /* the status sent last */

/* Parses a whole number; 0 if it is none. */
static uint64_t number_of(const char *text)
{
	char *end;
	unsigned long long number;

	if (!text || text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	return errno != 0 || *end != '\0' ? 0 : number;
}

static void read_watchdog(void)
{
	const char *pid = getenv("WATCHDOG_PID");

	/* The variables may be inherited from another process: check the pid. */
	if (!pid || number_of(pid) == (uint64_t)getpid())
		watchdog_us = number_of(getenv("WATCHDOG_USEC"));
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

static int connect_to_manager(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(path);
	_cleanup_close_ int fd = -1;

	if ((path[0] != '/' && path[0] != '@') || len < 2)
		return -EAFNOSUPPORT;
	if (len >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, len);
	/* unix(7): an abstract name begins with a NUL and is not terminated. */
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		return -errno;
	notify_fd = TAKE_FD(fd);
	return 0;
}

int notify_open(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	int r = path && path[0] != '\0' ? connect_to_manager(path) : 0;

	read_watchdog();
	unsetenv("NOTIFY_SOCKET");
	return r;
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
	char message[512];
	va_list arguments;
	int len;

	if (notify_fd < 0)
		return;
	va_start(arguments, format);
	len = vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (len > 0 && (size_t)len < sizeof(message))
		(void)send(notify_fd, message, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void count_notify_call(void *context, struct call *call)
{
	(void)call;
	++*(size_t *)context;
}

static void count_workspace(void *context, struct workspace *workspace)
{
	(void)workspace;
	++*(size_t *)context;
}

static void tell_status(const struct service *service)
{
	size_t calls = 0, workspaces = 0;
	struct audit_state audit = {0};
	char text[sizeof(status)], lost[64] = "";

	call_foreach(count_notify_call, &calls);
	workspaces_foreach(service->workspaces, count_workspace, &workspaces);
	(void)audit_look(service->audit, &audit);
	if (audit.lost > 0 || audit.error != 0)
		snprintf(lost, sizeof(lost), "; audit log: %llu lines lost%s",
			(unsigned long long)audit.lost,
			audit.error != 0 ? ", cannot be written" : "");
	snprintf(text, sizeof(text), "%s: %zu calls, %zu workspaces, %zu connections%s",
		service->shutting_down ? "shutting down"
		: service->draining    ? "draining"
				       : "serving",
		calls, workspaces, service->connections, lost);
	if (strcmp(text, status) == 0)
		return;
	memcpy(status, text, sizeof(status));
	tell("STATUS=%s", status);
}

/* Called only while the loop turns, which is what the watchdog checks. */
static void on_beat(void *context)
{
	timer_set_ns(&beat, beat_ns);
	if (watchdog_us > 0)
		tell("WATCHDOG=1");
	tell_status(context);
}

void notify_start(struct service *service)
{
	uint64_t every =
		watchdog_us > 0 && watchdog_us / 2 < STATUS_US ? watchdog_us / 2 : STATUS_US;

	if (notify_fd < 0)
		return;
	beat_ns = (int64_t)every * CLOCK_NS_PER_US;
	timer_init(&beat, on_beat, service);
	notify_ready();
	on_beat(service);
}

void notify_reloading(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	tell("RELOADING=1\nMONOTONIC_USEC=%llu",
		(unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
}

void notify_ready(void)
{
	tell("READY=1");
}

void notify_stopping(uint64_t within_ms)
{
	tell("STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu\nSTATUS=shutting down",
		(unsigned long long)within_ms * 1000);
}

void notify_main_process(pid_t pid)
{
	tell("MAINPID=%lld", (long long)pid);
	notify_close(); /* what this process does from now on is not the service's state */
}

uint64_t notify_watchdog_us(void)
{
	return watchdog_us;
}

void notify_set_watchdog(uint64_t us)
{
	watchdog_us = us;
}

void notify_close(void)
{
	timer_cancel(&beat);
	close_fd(&notify_fd);
}
