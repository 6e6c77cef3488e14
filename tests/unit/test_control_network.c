/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* What cloister-egress tells of connections, as administrators see it: counters, events, and the
 * refusals that the control socket's denials lists, oldest first. Hosts are hostile. */
#include "supervisor/control/control_network.h"

#include "common/wire/wire_egress.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/network/egress_cell_state.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#define OBSERVERS 51

/* A service with an observer, and a cell of the tenant "one". */
struct house {
	struct fake_service *fake;
	struct fake_client observer;
	struct egress_cell cell;
	struct tenant_usage *usage;
};

static int set_up(void **state)
{
	static struct house house;
	static char tenant[] = "one", workspace[] = "w";

	house.fake = fake_service_new("[cloister]\n"
				      "observer_group = 51\n"
				      "[tenant one]\n"
				      "users = 1001\n"
				      "[tenant two]\n"
				      "users = 1002\n");
	house.observer = fake_client_connect(house.fake, &control_endpoint, 2, OBSERVERS);
	house.cell = (struct egress_cell){.tenant = tenant, .workspace = workspace};
	house.usage = house.fake->service.config->tenants[0]->usage;
	*state = &house;
	return 0;
}

static int tear_down(void **state)
{
	struct house *house = *state;

	fake_client_close(&house->observer);
	fake_service_free(house->fake);
	return 0;
}

FIXTURE(set_up, tear_down)

static void says(struct house *house, const char *line, const char *answer)
{
	fake_client_talk(&house->observer, &(struct fake_exchange){line, answer}, 1);
}

/* An event, or none. */
static void hears(struct house *house, const char *event)
{
	fake_service_match(house->fake, fake_client_take(&house->observer), event);
}

static void denied(struct house *house, const char *host, uint16_t port, enum egress_reason reason)
{
	control_network_denied(&house->fake->service, &house->cell,
		&(struct egress_denied){.call = 26,
			.host = text_from(host),
			.port = port,
			.reason = reason,
			.via = EGRESS_VIA_CONNECT});
}

#define DENIALS(params) REQUEST("1", "denials", params)
#define LISTED(rows)    RESULT("1", "{\"denials\":[" rows "]}")
#define ROW(host, port, reason, count)                                                         \
	"{\"tenant\":\"one\",\"workspace\":\"w\",\"call\":\"000000000000001a\",\"host\":" host \
	",\"port\":" port ",\"reason\":\"" reason "\",\"via\":\"connect\",\"count\":" count    \
	",\"time_ms\":*,\"age_ms\":*}"
#define EVENT(rest)                                                                           \
	"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{*\"network_denied\"*\"call\":" \
	"\"000000000000001a\",\"tenant\":\"one\",\"workspace\":\"w\"," rest "}}"

TEST(test_refusals_are_kept)
{
	struct house *house = *state;

	says(house, DENIALS("{}"), LISTED(""));
	denied(house, "a.example", 443, EGRESS_NOT_ALLOWED);
	denied(house, "", 80, EGRESS_BAD_REQUEST);
	denied(house, "b\"\n.example", 443, EGRESS_PRIVATE_ADDRESS);
	/* Another port, or another reason, is another row; the latest comes last. */
	denied(house, "a.example", 443, EGRESS_PORT);
	denied(house, "a.example", 443, EGRESS_NOT_ALLOWED);
	says(house, DENIALS("{}"),
		LISTED(ROW("null", "80", "bad_request", "1") "," ROW("\"b\\\"\\n.example\"", "443",
			"private_address", "1") "," ROW("\"a.example\"", "443", "port",
			"1") "," ROW("\"a.example\"", "443", "not_allowed", "2")));
	says(house, DENIALS("{\"tenant\":\"one\"}"), LISTED("*\"count\":2,*"));
	says(house, DENIALS("{\"tenant\":\"two\"}"), LISTED(""));
	says(house, DENIALS("{\"tenant\":\"three\"}"),
		ERROR("1", "-32000", "\"message\":\"There is no tenant of this name;*\"*"));
	says(house, DENIALS("{\"tenant\":1}"),
		ERROR("1", "-32602", "\"message\":\"tenant must be a string\"*"));
	says(house, NOTIFICATION("denials", "{}"), NULL);
	assert_int_equal(house->usage->network_denied[EGRESS_NOT_ALLOWED], 2);
	assert_int_equal(house->usage->network_denied[EGRESS_PORT], 1);
}

/* The end of cloister-egress is of no host. */
TEST(test_what_is_counted_only)
{
	struct house *house = *state;
	char gone[] = "gone";

	denied(house, "", 0, EGRESS_PROXY_LOST);
	says(house, DENIALS("{}"), LISTED(""));
	assert_int_equal(house->usage->network_denied[EGRESS_PROXY_LOST], 1);
	for (int i = 0; i < 2; i++)
		control_network_closed(&house->fake->service, &house->cell,
			&(struct egress_closed){.bytes_in = 5, .bytes_out = UINT32_MAX});
	assert_int_equal(house->usage->network_connections, 2);
	assert_int_equal(house->usage->network_bytes_in, 10);
	assert_int_equal(house->usage->network_bytes_out, 2ULL * UINT32_MAX);
	/* A reload has removed the tenant while its cell ends. */
	house->cell.tenant = gone;
	denied(house, "a.example", 443, EGRESS_NOT_ALLOWED);
	control_network_closed(
		&house->fake->service, &house->cell, &(struct egress_closed){.bytes_in = 5});
	says(house, DENIALS("{}"), LISTED(""));
	assert_int_equal(house->usage->network_connections, 2);
}

/* A workspace makes up hosts: the oldest rows go. */
TEST(test_many_hosts)
{
	struct house *house = *state;
	char host[LIMIT_EGRESS_HOST_BYTES + 1];
	struct denial *oldest;

	for (int i = 0; i < LIMIT_DENIALS_KEPT + 3; i++) {
		snprintf(host, sizeof(host), "%0*d", LIMIT_EGRESS_HOST_BYTES, i);
		denied(house, host, 443, EGRESS_NOT_ALLOWED);
	}
	assert_int_equal(house->usage->denials.n, LIMIT_DENIALS_KEPT);
	oldest = TAILQ_FIRST(&house->usage->denials.list);
	assert_int_equal(strlen(oldest->host), LIMIT_EGRESS_HOST_BYTES);
	assert_int_equal(atoi(oldest->host), 3);
	assert_int_equal(oldest->count, 1);
	/* One that is refused again is not the oldest any more. */
	denied(house, oldest->host, 443, EGRESS_NOT_ALLOWED);
	oldest = TAILQ_FIRST(&house->usage->denials.list);
	assert_int_equal(atoi(oldest->host), 4);
}

/* In one second only so many are told to who watches; those that were not are counted. */
TEST(test_events)
{
	struct house *house = *state;

	denied(house, "a.example", 443, EGRESS_NOT_ALLOWED);
	says(house, REQUEST("1", "events", "{}"), RESULT("1", "{}"));
	denied(house, "a.example", 443, EGRESS_NOT_ALLOWED);
	hears(house, EVENT("\"host\":\"a.example\",\"port\":443,\"reason\":\"not_allowed\","
			   "\"via\":\"connect\",\"untold\":0"));
	fake_service_pass(house->fake, 1000);
	for (int i = 0; i < LIMIT_REFUSALS_TOLD; i++) {
		denied(house, "", 80, EGRESS_BAD_REQUEST);
		hears(house, EVENT("\"host\":null,*\"untold\":0"));
	}
	for (int i = 0; i < 5; i++) {
		denied(house, "", 80, EGRESS_BAD_REQUEST);
		hears(house, "");
	}
	fake_service_pass(house->fake, 1000);
	denied(house, "", 80, EGRESS_BAD_REQUEST);
	hears(house, EVENT("*\"untold\":5"));
}
