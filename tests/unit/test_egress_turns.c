/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/* How much the relays of a tenant carry in one turn of the loop, however many they are. */
#include "egress/conn_state.h"
#include "tests/lib/unit.h"

#include <event2/event.h>

#define BUSY (16 * 64)

static struct egress egress;
static struct tenant tenants[2];
static unsigned n_relays;
static size_t carried; /* of the first tenant, in the last turn */
static size_t other;   /* the share of the second one's only relay */

static size_t share_of(struct tenant *tenant)
{
	struct cell cell = {.egress = &egress, .tenant = tenant};
	struct conn conn = {.cell = &cell};

	return conn_share_of_turn(&conn);
}

static void on_turn(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	(void)context;
	carried = 0;
	for (unsigned i = 0; i < n_relays; i++)
		carried += share_of(&tenants[0]);
	other = share_of(&tenants[1]);
}

static void turn(unsigned relays)
{
	struct event event;

	n_relays = relays;
	evtimer_assign(&event, egress.base, on_turn, NULL);
	event_active(&event, EV_TIMEOUT, 0);
	assert_true(event_base_loop(egress.base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
}

TEST(test_share_of_turn)
{
	egress.base = event_base_new();
	turn(1);
	assert_int_equal(carried, 256 * KIB);
	turn(4);
	turn(4);
	assert_int_equal(carried, 4 * 256 * KIB);
	turn(64);
	turn(64);
	assert_int_equal(carried, MIB);
	/* The least is what a relay needs to be worth its turn. */
	turn(BUSY);
	assert_true(carried <= BUSY * 32 * KIB);
	turn(BUSY);
	assert_int_equal(carried, BUSY * 16 * KIB);
	assert_int_equal(other, 256 * KIB);
	/* Those that were busy a moment ago may be so again. */
	turn(1);
	assert_int_equal(carried, 16 * KIB);
	turn(1);
	assert_int_equal(carried, 256 * KIB);
	event_base_free(egress.base);
}
