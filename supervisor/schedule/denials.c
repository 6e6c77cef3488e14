// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Hosts were chosen by the programs of a workspace. */
#include "supervisor/schedule/denials.h"

#include "common/limits.h"
#include "common/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void denials_init(struct denials *denials)
{
	TAILQ_INIT(&denials->list);
	denials->n = 0;
}

static bool is_same_denial(const struct denial *denial, const struct denial *other)
{
	return denial->call == other->call && denial->port == other->port &&
	       denial->reason == other->reason && denial->via == other->via &&
	       strcmp(denial->host, other->host) == 0 &&
	       strcmp(denial->workspace, other->workspace) == 0;
}

/* Takes from the list the entry that @made is to be counted in. NULL: memory is out. */
static struct denial *take_denial_row(struct denials *denials, const struct denial *made)
{
	struct denial *denial;

	TAILQ_FOREACH (denial, &denials->list, entry)
		if (is_same_denial(denial, made))
			break;
	if (!denial && denials->n < LIMIT_DENIALS_KEPT) {
		denial = malloc(sizeof(*denial));
		if (denial)
			*denial = *made;
		denials->n += denial != NULL;
		return denial;
	}
	if (!denial) {
		denial = TAILQ_FIRST(&denials->list);
		TAILQ_REMOVE(&denials->list, denial, entry);
		*denial = *made;
		return denial;
	}
	TAILQ_REMOVE(&denials->list, denial, entry);
	return denial;
}

void denials_add(struct denials *denials, const char *workspace, const struct egress_denied *denied,
	int64_t now_ms)
{
	struct text name = utf8_cut(text_from(workspace), LIMIT_NAME_BYTES);
	struct denial *denial, made = {.port = denied->port,
				       .reason = denied->reason,
				       .via = denied->via,
				       .call = denied->call};

	snprintf(made.workspace, sizeof(made.workspace), "%.*s", (int)name.len, name.data);
	snprintf(made.host, sizeof(made.host), "%.*s", (int)denied->host.len,
		denied->host.data ? denied->host.data : "");
	denial = take_denial_row(denials, &made);
	if (!denial)
		return;
	denial->count++;
	denial->last_ms = now_ms;
	TAILQ_INSERT_TAIL(&denials->list, denial, entry);
}

void denials_done(struct denials *denials)
{
	struct denial *denial;

	while ((denial = TAILQ_FIRST(&denials->list))) {
		TAILQ_REMOVE(&denials->list, denial, entry);
		free(denial);
	}
	denials->n = 0;
}
