// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Hosts were chosen by the programs of a workspace; egress has checked their
 * form. */
#include "supervisor/workspace/network/network_use.h"

#include "common/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct network_denial *find_network_denial(
	struct network_use *use, const struct egress_denied *denied)
{
	for (size_t i = 0; i < use->n_denials; i++) {
		struct network_denial *denial = &use->denials[i];

		if (denial->port == denied->port && denial->reason == denied->reason &&
			denial->via == denied->via &&
			text_equal(text_from(denial->host), denied->host))
			return denial;
	}
	return NULL;
}

static struct network_denial *add_network_denial(
	struct network_use *use, const struct egress_denied *denied)
{
	struct network_denial *denial;

	if (!use->denials)
		use->denials = calloc(LIMIT_NETWORK_DENIALS, sizeof(*use->denials));
	if (!use->denials || use->n_denials == LIMIT_NETWORK_DENIALS)
		return NULL;
	denial = &use->denials[use->n_denials++];
	*denial = (struct network_denial){
		.port = denied->port, .reason = denied->reason, .via = denied->via};
	snprintf(denial->host, sizeof(denial->host), "%.*s", (int)denied->host.len,
		denied->host.data ? denied->host.data : "");
	return denial;
}

void network_use_deny(struct network_use *use, const struct egress_denied *denied)
{
	struct network_denial *denial = find_network_denial(use, denied);

	use->denied++;
	use->is_lost |= denied->reason == EGRESS_PROXY_LOST;
	if (!denial)
		denial = add_network_denial(use, denied);
	if (denial)
		denial->count++;
}

/* Returns the entry of a host, which is added if there is room; otherwise NULL. */
static struct network_reached *reached(struct network_use *use, const struct egress_closed *closed)
{
	struct network_reached *host;

	for (size_t i = 0; i < use->n_reached; i++)
		if (use->reached[i].port == closed->port &&
			text_equal(text_from(use->reached[i].host), closed->host))
			return &use->reached[i];
	if (!use->reached)
		use->reached = calloc(LIMIT_NETWORK_DENIALS, sizeof(*use->reached));
	if (!use->reached || use->n_reached == LIMIT_NETWORK_DENIALS)
		return NULL;
	host = &use->reached[use->n_reached++];
	host->port = closed->port;
	snprintf(host->host, sizeof(host->host), "%.*s", (int)closed->host.len,
		closed->host.data ? closed->host.data : "");
	return host;
}

void network_use_close(struct network_use *use, const struct egress_closed *closed)
{
	struct network_reached *host = reached(use, closed);

	if (host) {
		host->connections++;
		host->bytes_in += closed->bytes_in;
		host->bytes_out += closed->bytes_out;
	}
	use->connections++;
	use->bytes_in += closed->bytes_in;
	use->bytes_out += closed->bytes_out;
}

void network_use_sum(struct network_use *use, const struct egress_call_ended *sums)
{
	use->is_summed = true;
	use->connections = sums->connections;
	use->bytes_in = sums->bytes_in;
	use->bytes_out = sums->bytes_out;
	if (sums->denied > use->denied)
		use->denied = sums->denied;
}

uint64_t network_use_unlisted(const struct network_use *use)
{
	uint64_t listed = 0;

	for (size_t i = 0; i < use->n_denials; i++)
		listed += use->denials[i].count;
	return use->denied > listed ? use->denied - listed : 0;
}

static uint64_t left_of(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

struct network_reached network_use_unlisted_hosts(const struct network_use *use)
{
	struct network_reached others = {.connections = use->connections,
		.bytes_in = use->bytes_in,
		.bytes_out = use->bytes_out};

	for (size_t i = 0; i < use->n_reached; i++) {
		const struct network_reached *host = &use->reached[i];

		others.connections = left_of(others.connections, host->connections);
		others.bytes_in = left_of(others.bytes_in, host->bytes_in);
		others.bytes_out = left_of(others.bytes_out, host->bytes_out);
	}
	return others;
}

void network_use_done(struct network_use *use)
{
	free(use->denials);
	free(use->reached);
	use->denials = NULL;
	use->reached = NULL;
	use->n_denials = use->n_reached = 0;
}
