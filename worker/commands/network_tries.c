// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker and in the inits of commands, which share its memory: raw system calls only.
 * The text comes from the kernel. proc_pid_net(5); RFC 4293 describes the counters.
 */
#include "worker/commands/network_tries.h"

#include "worker/commands/raw_syscall.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#define BYTES 1024 /* the counters are in the first lines */

struct network_tries network_tries_open(void)
{
	return (struct network_tries){
		.v4 = open("/proc/net/snmp", O_RDONLY | O_CLOEXEC),
		.v6 = open("/proc/net/snmp6", O_RDONLY | O_CLOEXEC),
	};
}

static uint64_t number_at(const char *text)
{
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

/* The first line names the columns of the second one. */
uint64_t network_tries_read_snmp(const char *text)
{
	const char *name = strstr(text, " OutNoRoutes"), *line = strchr(text, '\n');

	if (!name || !line || name > line)
		return 0;
	for (const char *at = text; at <= name; at++)
		if (*at == ' ' && line)
			line = strchr(line + 1, ' ');
	return line ? number_at(line + 1) : 0;
}

uint64_t network_tries_read_snmp6(const char *text)
{
	static const char name[] = "Ip6OutNoRoutes";
	const char *at = strstr(text, name);

	if (!at)
		return 0;
	at += sizeof(name) - 1;
	return number_at(at + strspn(at, " \t"));
}

static uint64_t read_counter(int fd, uint64_t (*get)(const char *text))
{
	char text[BYTES];
	long n = fd < 0 ? -1 : RAW4(SYS_pread64, fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return get(text);
}

uint64_t network_tries_count(const struct network_tries *tries)
{
	return read_counter(tries->v4, network_tries_read_snmp) +
	       read_counter(tries->v6, network_tries_read_snmp6);
}
