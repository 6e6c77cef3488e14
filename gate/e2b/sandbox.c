// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate. The table of sandboxes that it has links of. An entry is looked up by labels,
 * its workspace is opened on a link of its own, and requests that come meanwhile wait for that.
 */

#include "gate/e2b/sandbox.h"

#include "common/cleanup.h"
#include "common/keyed_hash.h"
#include "common/keys/gate_key.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "gate/agent_link.h"
#include "gate/e2b/facts.h"
#include "gate/e2b/op.h"
#include "gate/failures.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/keys.h"
#include "gate/request.h"
#include "libcloister/value.h"

#include <event2/event.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <sys/queue.h>

#define BUCKETS      1024
#define HOST_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]"
/*
 * A cloisterd that takes over has a workspace only when the former one has let go of it, and counts
 * a connection until it has seen its end.
 */
#define RETRY_MS  50L
#define RETRY_MAX 40
/* How long after its lease ended a sandbox is forgotten. */
#define LOOK_AGAIN_MS 1000

struct waiting {
	struct waiting *next;
	struct op *op;
	struct gate_peer peer; /* the op's, which may leave first */
	void (*then)(struct op *op);
};

/* Look-ups for tenants with the same letters (sandbox_id.h). */
struct looking {
	unsigned running, n_queued;
	bool goes_on;
	TAILQ_HEAD(, sandbox) queue;
};

struct sandbox {
	struct sandbox *next; /* in its bucket */
	TAILQ_ENTRY(sandbox) queued;
	bool looks; /* it is one of those that run */
	struct gate *gate;
	struct agent_link *link;
	struct event *look_again; /* when the lease, as it was known, is over */
	struct event *retry;      /* after BUSY */
	void (*retried)(struct sandbox *sandbox);
	unsigned n_tries;
	struct waiting *waiting;
	struct json_object *row; /* what facts borrow from */
	struct facts facts;
	size_t key;     /* the index of the key whose tenant is asked */
	unsigned users; /* ops that hold it, and one while it is in the table */
	bool listed;    /* in the table */
	bool ready;
	bool has_root;
	char root[LIMIT_SHOWN_AT_BYTES + 1]; /* where its files are seen */
	char tenant_name[LIMIT_CONFIG_NAME_BYTES + 1];
	char id[SANDBOX_ID_LETTERS + 1];
	char workspace[SANDBOX_ID_LETTERS + 3];
};

static struct sandbox *table[BUCKETS];
static struct looking lookings[BUCKETS];

static struct sandbox **bucket_of(struct text id)
{
	return &table[keyed_hash(id) % BUCKETS];
}

static struct looking *looking_of(struct text id)
{
	size_t at = bucket_of((struct text){id.data, SANDBOX_ID_TENANT_LETTERS}) - table;

	if (!lookings[at].queue.tqh_last)
		TAILQ_INIT(&lookings[at].queue);
	return &lookings[at];
}

static struct sandbox *find_entry(struct text id)
{
	struct sandbox *sandbox = *bucket_of(id);

	while (sandbox && !text_equal(text_from(sandbox->id), id))
		sandbox = sandbox->next;
	return sandbox;
}

void sandbox_release(struct sandbox *sandbox)
{
	if (sandbox == NULL || --sandbox->users > 0)
		return;
	agent_link_close(sandbox->link);
	if (sandbox->look_again)
		event_free(sandbox->look_again);
	if (sandbox->retry)
		event_free(sandbox->retry);
	json_object_put(sandbox->row);
	free(sandbox);
}

/* Ops that hold it go on with its link until cloisterd refuses them. */
void sandbox_forget(struct sandbox *sandbox)
{
	struct sandbox **place = bucket_of(text_from(sandbox->id));

	if (!sandbox->listed)
		return;
	while (*place != sandbox)
		place = &(*place)->next;
	*place = sandbox->next;
	sandbox->listed = false;
	sandbox_release(sandbox);
}

bool sandbox_is_listed(const struct sandbox *sandbox)
{
	return sandbox->listed;
}

void sandbox_forget_id(struct text id)
{
	struct sandbox *sandbox = find_entry(id);

	if (sandbox)
		sandbox_forget(sandbox);
}

static void answer_gone(struct op *op, const char *id)
{
	struct json_object *object;

	if (op->request == NULL)
		return;
	if (op->form != OP_REST) {
		op_fail(op, 502, "unavailable", "The sandbox was not found");
		return;
	}
	object = json_object_new_object();
	json_object_object_add(object, "code", json_object_new_int(502));
	json_put_text(object, "message", TEXT_LITERAL("The sandbox was not found"));
	json_put_text(object, "sandboxId", text_from(id));
	op_answer(op, 502, object);
}

/* Counts for the addresses of all that asked for it, also of those that did not wait. */
static void count_empty(const struct sandbox *sandbox)
{
	struct gate *gate = sandbox->gate;

	for (const struct waiting *one = sandbox->waiting; one; one = one->next) {
		gate->counts[GATE_LOOKUPS_EMPTY]++;
		(void)gate_failures_count(gate->failures, &one->peer, (int64_t)monotonic_ms());
	}
}

/*
 * Refuses a look-up by an address that has tried as many ids and keys as it may, and one that is
 * too many to wait. Otherwise strangers would cost each tenant connections and lines of the audit
 * log. What has been found is not looked up, so its clients go on.
 */
static bool refuse_look_up(struct op *op, struct text id)
{
	struct gate *gate = gate_request_gate(op->request);
	uint64_t failures = gate_failures_have(
		gate->failures, gate_request_peer(op->request), (int64_t)monotonic_ms());

	if (failures < gate->config->failed_keys &&
		looking_of(id)->n_queued < LIMIT_GATE_LOOKUPS_WAITING)
		return false;
	gate->counts[GATE_LOOKUPS_REFUSED]++;
	if (failures >= gate->config->failed_keys) {
		gate_answer_header(op->request, "Retry-After", "60");
		op_fail(op, 429, "resource_exhausted",
			"The address asked for too many sandboxes that are none; try again later");
	} else {
		gate_answer_header(op->request, "Retry-After", "1");
		op_fail(op, 503, "unavailable", "Too many sandboxes are looked up; try again");
	}
	return true;
}

static void ask_next_tenant(struct sandbox *sandbox);

/*
 * Begins the look-ups that may run. Strangers ask for sandboxes that do not exist, and each look-up
 * is one of the tenant's connections.
 */
static void look_up_next(struct looking *looking)
{
	struct sandbox *sandbox;

	if (looking->goes_on)
		return;
	looking->goes_on = true;
	while (looking->running < LIMIT_GATE_LOOKUPS && (sandbox = TAILQ_FIRST(&looking->queue))) {
		TAILQ_REMOVE(&looking->queue, sandbox, queued);
		looking->n_queued--;
		looking->running++;
		sandbox->looks = true;
		ask_next_tenant(sandbox);
		sandbox_release(sandbox);
	}
	looking->goes_on = false;
}

static void look_up(struct sandbox *sandbox)
{
	struct looking *looking = looking_of(text_from(sandbox->id));

	sandbox->users++;
	TAILQ_INSERT_TAIL(&looking->queue, sandbox, queued);
	looking->n_queued++;
	look_up_next(looking);
}

/* Tells those who wait what came of it. One may end the sandbox, so it is held. */
static void tell_sandbox_waiters(struct sandbox *sandbox, const char *failure)
{
	struct waiting *waiting = sandbox->waiting;
	struct looking *looking = sandbox->looks ? looking_of(text_from(sandbox->id)) : NULL;

	sandbox->waiting = NULL;
	sandbox->looks = false;
	sandbox->users++;
	while (waiting) {
		struct waiting *next = waiting->next;
		struct op *op = waiting->op;

		if (op->request && sandbox->ready) {
			sandbox->users++;
			op->sandbox = sandbox;
			op->link = sandbox->link;
			waiting->then(op);
		} else if (op->request && failure) {
			op_fail(op, 503, "unavailable", "%s", failure);
		} else {
			answer_gone(op, sandbox->id);
		}
		op_leave(op);
		free(waiting);
		waiting = next;
	}
	if (!sandbox->ready)
		sandbox_forget(sandbox);
	sandbox_release(sandbox);
	if (looking) {
		looking->running--;
		look_up_next(looking);
	}
}

static void link_closed(__attribute__((unused)) struct agent_link *link,
	__attribute__((unused)) int error, void *context)
{
	sandbox_forget(context);
}

/* The old cloisterd serves this link for as long as it has something to do. */
static void link_retiring(__attribute__((unused)) struct agent_link *link, void *context)
{
	sandbox_forget(context);
}

static const struct agent_link_callbacks link_callbacks = {
	.closed = link_closed, .retiring = link_retiring};

static void on_look_again(__attribute__((unused)) evutil_socket_t fd,
	__attribute__((unused)) short events, void *context)
{
	sandbox_forget(context);
}

static void watch_lease(struct sandbox *sandbox)
{
	int64_t left = sandbox->facts.ends_ms - facts_now() + LOOK_AGAIN_MS;
	struct timeval when = {left / 1000, left % 1000 * 1000};

	if (sandbox->look_again == NULL)
		sandbox->look_again = event_new(sandbox->gate->base, -1, 0, on_look_again, sandbox);
	if (sandbox->look_again)
		event_add(sandbox->look_again, &when);
}

void sandbox_renew(struct text id, int64_t ends_ms)
{
	struct sandbox *sandbox = find_entry(id);

	if (sandbox && sandbox->ready) {
		sandbox->facts.ends_ms = ends_ms;
		watch_lease(sandbox);
	}
}

static void open_workspace(struct sandbox *sandbox);

static void on_retry(__attribute__((unused)) evutil_socket_t fd,
	__attribute__((unused)) short events, void *context)
{
	struct sandbox *sandbox = context;

	sandbox->retried(sandbox);
	sandbox_release(sandbox);
}

/* Returns whether it calls @act again. The sandbox stays held. */
static bool tries_again(struct sandbox *sandbox, void (*act)(struct sandbox *sandbox))
{
	static const struct timeval soon = {.tv_usec = RETRY_MS * 1000};

	if (sandbox->n_tries == RETRY_MAX)
		return false;
	sandbox->n_tries++;
	sandbox->retried = act;
	if (sandbox->retry == NULL)
		sandbox->retry = event_new(sandbox->gate->base, -1, 0, on_retry, sandbox);
	return sandbox->retry && event_add(sandbox->retry, &soon) == 0;
}

static void opened(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, int error, const struct cloister_message *reply,
	void *userdata)
{
	struct sandbox *sandbox = userdata;
	const char *root;

	sandbox->ready = error == 0 && cloister_succeeded(reply);
	if (error == 0 && cloister_error(reply) == CLOISTER_ERROR_BUSY &&
		tries_again(sandbox, open_workspace))
		return;
	if (!sandbox->ready) {
		tell_sandbox_waiters(sandbox,
			error < 0 || cloister_error(reply) == CLOISTER_ERROR_WORKSPACE_NOT_FOUND
				? NULL
				: cloister_error_message(reply));
	} else {
		root = cloister_get_string(reply, "/root", NULL);
		snprintf(sandbox->root, sizeof(sandbox->root), "%s", root ? root : "");
		(void)cloister_get_bool(reply, "/root_inside", &sandbox->has_root);
		watch_lease(sandbox);
		tell_sandbox_waiters(sandbox, NULL);
	}
	sandbox_release(sandbox);
}

static void open_workspace(struct sandbox *sandbox)
{
	struct json_object *params = sandbox_opening(sandbox);

	json_put_text(params, "tenant", text_from(sandbox->tenant_name));
	sandbox->users++;
	if (agent_link_request(sandbox->link, "workspace.open",
		    json_object_to_json_string_ext(params, JSON_C_TO_STRING_PLAIN), opened, sandbox,
		    NULL) < 0) {
		tell_sandbox_waiters(sandbox, "cloisterd cannot be asked");
		sandbox_release(sandbox);
	}
	json_object_put(params);
}

/* Returns the sandbox's row, which the caller puts, or NULL. */
static struct json_object *row_of(
	const struct sandbox *sandbox, const struct cloister_message *reply)
{
	return json_object_get(
		facts_row(cloister_value(reply, "/workspaces"), text_from(sandbox->id)));
}

static void ask_tenant(struct sandbox *sandbox);

static void listed(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, int error, const struct cloister_message *reply,
	void *userdata)
{
	struct sandbox *sandbox = userdata;
	struct facts facts;

	if (error < 0 && agent_link_found_no_room(sandbox->link) &&
		tries_again(sandbox, ask_tenant)) {
		agent_link_close(TAKE_PTR(sandbox->link));
		return;
	}
	json_object_put(sandbox->row);
	sandbox->row = error == 0 ? row_of(sandbox, reply) : NULL;
	if (sandbox->row && facts_read(sandbox->row, facts_now(), &facts) &&
		text_equal(facts.id, text_from(sandbox->id))) {
		sandbox->facts = facts;
		if (facts.state == FACTS_RUNNING)
			open_workspace(sandbox);
		else
			tell_sandbox_waiters(sandbox, NULL);
	} else if (error < 0) {
		tell_sandbox_waiters(sandbox, "The connection to cloisterd was lost");
	} else {
		sandbox->key++;
		ask_next_tenant(sandbox);
	}
	sandbox_release(sandbox);
}

static bool open_link(struct sandbox *sandbox)
{
	agent_link_close(sandbox->link);
	sandbox->link = NULL;
	if (agent_link_open(sandbox->gate,
		    &(struct gate_identity){sandbox->tenant_name, sandbox->workspace, sandbox->id},
		    &link_callbacks, sandbox, &sandbox->link) < 0) {
		tell_sandbox_waiters(sandbox, "cloisterd cannot be reached");
		return false;
	}
	return true;
}

/* An id tells which tenants it may be of: mostly one of all that have keys. */
static void ask_next_tenant(struct sandbox *sandbox)
{
	const struct gate_key *key;

	while ((key = gate_keys_at(sandbox->gate->keys, sandbox->key)) != NULL &&
		(strcmp(key->tenant, sandbox->tenant_name) == 0 ||
			!sandbox_id_of_tenant(text_from(sandbox->id), text_from(key->tenant))))
		sandbox->key++;
	if (key == NULL) {
		count_empty(sandbox);
		tell_sandbox_waiters(sandbox, NULL);
		return;
	}
	snprintf(sandbox->tenant_name, sizeof(sandbox->tenant_name), "%s", key->tenant);
	ask_tenant(sandbox);
}

static void ask_tenant(struct sandbox *sandbox)
{
	if (!open_link(sandbox))
		return;
	sandbox->users++;
	/* The link's one workspace. */
	if (agent_link_request(sandbox->link, "workspace.list", NULL, listed, sandbox, NULL) < 0) {
		tell_sandbox_waiters(sandbox, "cloisterd cannot be asked");
		sandbox_release(sandbox);
	}
}

static struct sandbox *new_entry(struct gate *gate, struct text id)
{
	struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
	struct sandbox **place = bucket_of(id);

	if (sandbox == NULL)
		return NULL;
	sandbox->gate = gate;
	memcpy(sandbox->id, id.data, SANDBOX_ID_LETTERS);
	facts_workspace(id, sandbox->workspace);
	sandbox->users = 1;
	sandbox->listed = true;
	sandbox->next = *place;
	*place = sandbox;
	return sandbox;
}

void sandbox_find(struct op *op, struct text id, void (*then)(struct op *op))
{
	struct sandbox *sandbox;
	struct waiting *waiting;
	bool is_new;

	if (!sandbox_id_valid(id)) {
		answer_gone(op, "");
		return;
	}
	sandbox = find_entry(id);
	if (sandbox && sandbox->ready) {
		sandbox->users++;
		op->sandbox = sandbox;
		op->link = sandbox->link;
		then(op);
		return;
	}
	is_new = sandbox == NULL;
	if (is_new && refuse_look_up(op, id))
		return;
	if (is_new)
		sandbox = new_entry(gate_request_gate(op->request), id);
	waiting = sandbox ? malloc(sizeof(*waiting)) : NULL;
	if (waiting == NULL) {
		if (is_new && sandbox)
			sandbox_forget(sandbox);
		op_no_memory(op);
		return;
	}
	*waiting = (struct waiting){sandbox->waiting, op, *gate_request_peer(op->request), then};
	sandbox->waiting = waiting;
	op_stay(op);
	if (is_new)
		look_up(sandbox);
}

void sandbox_warm(struct gate *gate, const char *tenant, struct json_object *row)
{
	struct sandbox *sandbox;
	struct facts facts;

	if (!facts_read(row, facts_now(), &facts) || find_entry(facts.id))
		return;
	sandbox = new_entry(gate, facts.id);
	if (sandbox == NULL)
		return;
	snprintf(sandbox->tenant_name, sizeof(sandbox->tenant_name), "%s", tenant);
	sandbox->row = json_object_get(row);
	sandbox->facts = facts;
	if (open_link(sandbox))
		open_workspace(sandbox);
}

static struct text header(const struct op *op, const char *name)
{
	return text_from(gate_request_header(op->request, name));
}

/* Whether @token is of a valid key of the sandbox's tenant, with which the request ends. */
static bool token_fits(const struct op *op, enum sandbox_token kind, struct text token)
{
	const struct sandbox *sandbox = op->sandbox;
	char id[SANDBOX_KEY_LETTERS + 1] = "";
	const struct gate_key *key;

	if (token.len != SANDBOX_TOKEN_LETTERS)
		return false;
	memcpy(id, token.data, SANDBOX_KEY_LETTERS);
	key = gate_keys_find(sandbox->gate->keys, id);
	if (!key || strcmp(key->tenant, sandbox->tenant_name) != 0 ||
		!sandbox_token_fits((struct sandbox_key){key->id, key->hash}, kind,
			sandbox->facts.id, sandbox->facts.generation, token))
		return false;
	return gate_request_uses_key(op->request, key);
}

bool sandbox_admits(const struct op *op)
{
	return op->sandbox->facts.open ||
	       token_fits(op, SANDBOX_TOKEN_ACCESS, header(op, "X-Access-Token"));
}

bool sandbox_admits_traffic(const struct op *op)
{
	return !op->sandbox->facts.private_ports ||
	       token_fits(op, SANDBOX_TOKEN_TRAFFIC, header(op, "E2b-Traffic-Access-Token"));
}

/* The signature does not tell which key the token is of, with which the request ends. */
bool sandbox_admits_url(const struct op *op, struct text path, struct text operation,
	struct text user, struct text expiration, struct text signature)
{
	const struct sandbox *sandbox = op->sandbox;
	const struct gate_key *key, *fitting = NULL;

	for (size_t i = 0; (key = gate_keys_at(sandbox->gate->keys, i)) != NULL; i++) {
		char token[SANDBOX_TOKEN_LETTERS + 1];

		if (strcmp(key->tenant, sandbox->tenant_name) != 0 ||
			!gate_keys_find(sandbox->gate->keys, key->id))
			continue;
		sandbox_token_make((struct sandbox_key){key->id, key->hash}, SANDBOX_TOKEN_ACCESS,
			sandbox->facts.id, sandbox->facts.generation, token);
		if (sandbox_signature_fits(
			    path, operation, user, text_from(token), expiration, signature))
			fitting = key;
	}
	return fitting && gate_request_uses_key(op->request, fitting);
}

void sandbox_answer_gone(struct op *op)
{
	answer_gone(op, op->sandbox ? op->sandbox->id : "");
}

void sandbox_ask_row(struct op *op, op_next *next)
{
	op_ask(op, "workspace.list", NULL, next);
}

bool sandbox_row_runs(const struct op *op, const struct cloister_message *reply)
{
	struct json_object *row = row_of(op->sandbox, reply);
	struct facts facts;
	bool runs = row && facts_read(row, facts_now(), &facts) && facts.state == FACTS_RUNNING;

	json_object_put(row);
	return runs;
}

void sandbox_mask_host(const struct sandbox *sandbox, uint16_t port, char *ret_host, size_t size)
{
	static const char variable[] = "${PORT}";
	struct json_object *network = json_of(json_text_of(sandbox->facts.labels, FACTS_NETWORK));
	struct text mask = json_text_of(network, "maskRequestHost");
	const char *at = mask.data ? memmem(mask.data, mask.len, variable, strlen(variable)) : NULL;
	int n;

	ret_host[0] = '\0';
	if (at)
		n = snprintf(ret_host, size, "%.*s%u%.*s", (int)(at - mask.data), mask.data, port,
			(int)(mask.data + mask.len - at - strlen(variable)), at + strlen(variable));
	else
		n = snprintf(ret_host, size, "%.*s", (int)mask.len, mask.data ? mask.data : "");
	if (n < 0 || (size_t)n >= size || ret_host[strspn(ret_host, HOST_LETTERS)] != '\0')
		ret_host[0] = '\0';
	json_object_put(network);
}

bool sandbox_has_root(const struct sandbox *sandbox)
{
	return sandbox->has_root;
}

struct text sandbox_id_of(const struct sandbox *sandbox)
{
	return text_from(sandbox->id);
}

struct text sandbox_workspace(const struct sandbox *sandbox)
{
	return text_from(sandbox->workspace);
}

const char *sandbox_tenant(const struct sandbox *sandbox)
{
	return sandbox->tenant_name;
}

bool sandbox_is_rootfs(const struct sandbox *sandbox)
{
	return strcmp(sandbox->root, "/") == 0;
}

const char *sandbox_root(const struct sandbox *sandbox)
{
	return sandbox->root;
}

struct json_object *sandbox_opening(const struct sandbox *sandbox)
{
	return facts_opening(&sandbox->facts, sandbox_workspace(sandbox));
}
