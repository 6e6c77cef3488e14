// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/audit_writer.h"
#include "tests/lib/unit.h"

#define BYTES (256 * 1024)

struct audit_writer {
	int directory_fd;
};

struct audit_writer_state fake_audit_state;
bool fake_audit_full, fake_audit_held, fake_audit_stuck;
int fake_audit_relay = -1;
size_t fake_audit_kept;
unsigned fake_audit_reopened;

static char lines[BYTES], taken[BYTES];
static size_t len;

const char *fake_audit_take(void)
{
	memcpy(taken, lines, len);
	taken[len > 0 ? len - 1 : 0] = '\0';
	len = 0;
	return taken;
}

int audit_writer_new(int directory_fd, const char *name, struct audit_rotation rotation,
	struct audit_writer **ret)
{
	(void)rotation;
	assert_string_equal(name, "audit.log");
	*ret = malloc(sizeof(**ret));
	assert_non_null(*ret);
	(*ret)->directory_fd = directory_fd;
	fake_audit_state = (struct audit_writer_state){.last = audit_chain_new()};
	fake_audit_full = fake_audit_held = fake_audit_stuck = false;
	fake_audit_relay = -1;
	fake_audit_reopened = 0;
	len = 0;
	return 0;
}

int audit_writer_start(struct audit_writer *writer)
{
	(void)writer;
	return 0;
}

bool audit_writer_put(struct audit_writer *writer, struct text members, size_t keep)
{
	(void)writer;
	fake_audit_kept = keep;
	if (fake_audit_full) {
		fake_audit_state.lost++;
		return false;
	}
	assert_true(len + members.len + 1 <= BYTES);
	memcpy(lines + len, members.data, members.len);
	lines[len + members.len] = '\n';
	len += members.len + 1;
	return true;
}

void audit_writer_reopen(struct audit_writer *writer)
{
	(void)writer;
	fake_audit_reopened++;
}

void audit_writer_hold(struct audit_writer *writer)
{
	(void)writer;
	fake_audit_held = true;
}

bool audit_writer_is_held(struct audit_writer *writer)
{
	(void)writer;
	return fake_audit_held && !fake_audit_stuck;
}

void audit_writer_resume(struct audit_writer *writer)
{
	(void)writer;
	fake_audit_held = false;
}

void audit_writer_relay(struct audit_writer *writer, int fd)
{
	(void)writer;
	fake_audit_relay = fd;
}

void audit_writer_look(struct audit_writer *writer, struct audit_writer_state *ret)
{
	(void)writer;
	*ret = fake_audit_state;
}

uint64_t audit_writer_free(struct audit_writer *writer)
{
	if (writer)
		close(writer->directory_fd);
	free(writer);
	return 0;
}
