// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate: "Upgrade: cloister" on /agent gives the agent socket's protocol. The gate
 * copies bytes and reads none of them. What the client may do there is cloisterd's to say: the
 * connection is bound to the key's tenant, and workspace, before the client has it.
 */
#include "common/cleanup.h"
#include "gate/agent_link.h"
#include "gate/face.h"
#include "gate/gate.h"
#include "gate/relay.h"
#include "gate/request.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

struct tunnel {
	struct gate_request *request;
	struct agent_socket *opening; /* NULL: it is open, or over */
	int agent;
	struct gate_socket *client;
	struct gate_relay *relay;
};

static void on_tunnel_request_end(struct gate_request *request)
{
	struct tunnel *tunnel = gate_request_context(request);

	gate_relay_free(tunnel->relay);
	agent_socket_cancel(tunnel->opening);
	if (tunnel->agent >= 0)
		gate_request_gate(request)->links--;
	close_fd(&tunnel->agent);
	free(tunnel);
}

/* Both have said all, one is gone, or the key was revoked. on_tunnel_request_end() comes later. */
static void end_tunnel(struct tunnel *tunnel)
{
	gate_relay_free(TAKE_PTR(tunnel->relay));
	gate_socket_close(tunnel->client);
}

static void on_relayed(void *context)
{
	end_tunnel(context);
}

static void on_lost(struct gate_socket *socket, void *context)
{
	(void)socket;
	end_tunnel(context);
}

static void on_taken(struct gate_socket *socket, struct text first, void *context)
{
	struct tunnel *tunnel = context;

	tunnel->client = socket;
	tunnel->relay = gate_relay_new(gate_request_gate(tunnel->request)->base,
		gate_socket_fd(socket), tunnel->agent, on_relayed, tunnel);
	if (!tunnel->relay || gate_relay_send(tunnel->relay, first) < 0)
		end_tunnel(tunnel);
}

static void on_opened(int fd, int error, void *context)
{
	struct tunnel *tunnel = context;

	tunnel->opening = NULL;
	tunnel->agent = fd;
	if (error == -EACCES) {
		gate_answer_error(tunnel->request, 403, "the key's tenant does not use the gate");
	} else if (error < 0) {
		gate_answer_header(tunnel->request, "Retry-After", "1");
		gate_answer_error(tunnel->request, 503, "cloisterd cannot be reached now");
	} else {
		gate_request_gate(tunnel->request)->links++;
		gate_answer_upgrade(tunnel->request, "cloister", on_taken, on_lost, tunnel);
	}
}

static void agent(struct gate_request *request)
{
	struct tunnel *tunnel = calloc(1, sizeof(*tunnel));
	const char *upgrade = gate_request_header(request, "Upgrade");
	int r = -ENOMEM;

	if (!upgrade || strcasecmp(upgrade, "cloister") != 0) {
		free(tunnel);
		gate_answer_header(request, "Upgrade", "cloister");
		gate_answer_error(request, 426, "this path needs Upgrade: cloister");
		return;
	}
	if (tunnel) {
		*tunnel = (struct tunnel){.request = request, .agent = -1};
		gate_request_set_context(request, tunnel);
		gate_request_on_end(request, on_tunnel_request_end);
		r = agent_socket_open(gate_request_gate(request), gate_request_identity(request), 0,
			on_opened, tunnel, &tunnel->opening);
	}
	if (r < 0) {
		gate_answer_header(request, "Retry-After", "1");
		gate_answer_error(request, 503, "cloisterd cannot be reached now");
	}
}

static const struct gate_route routes[] = {{"GET", "/agent", agent, .takes_token = true}};

extern const struct gate_face face_native;
const struct gate_face face_native = {"native", NULL, routes, ARRAY_SIZE(routes)};
