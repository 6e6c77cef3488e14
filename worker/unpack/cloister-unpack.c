// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-unpack: makes a template of an archive or an image. The spawner starts one for each and
 * gives it the bounds; cloisterd reads its report. Nothing that it says is believed.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/fixed_fds.h"
#include "worker/unpack/unpack_archive.h"
#include "worker/unpack/unpack_image.h"
#include "worker/unpack/unpack_setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void tell_unpack_report(const struct unpack_report *report)
{
	uint8_t payload[UNPACK_REPORT_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	unpack_report_put(&writer, report);
	/* It fits into the empty pipe: pipe(7). */
	if (wire_writer_ok(&writer))
		(void)!write(FD_UNPACK_REPORT, payload, writer.len);
}

static int unpack(struct unpack_tree *tree, const struct unpack_room *room)
{
	_cleanup_free_ struct unpack_source *source = NULL;
	int r;

	if (room->archive) {
		source = malloc(sizeof(*source));
		if (!source)
			return -ENOMEM;
		unpack_source_init(source, room->source);
		r = unpack_archive(tree, source, UNPACK_ALL);
	} else {
		r = unpack_image(tree, room->source);
	}
	return r < 0 ? r : unpack_tree_finish(tree);
}

int main(int argc, char **argv)
{
	static struct unpack_tree tree;
	struct unpack_room room;
	const char *step = "read the arguments";
	int r = argc == 3 ? 0 : -EINVAL;

	(void)umask(0);
	/*
	 * Names are bytes. libarchive would convert those of pax archives to the locale's
	 * characters, and to other forms of the same ones, if the locale had them: in "C" it leaves
	 * them alone.
	 */
	if (r == 0)
		r = unpack_setup(&room, &step);
	if (r < 0) {
		tree.report.name = text_from(step);
	} else {
		r = unpack_tree_init(&tree, room.target, strtoull(argv[1], NULL, 10),
			strtoull(argv[2], NULL, 10));
		if (r == 0)
			r = unpack(&tree, &room);
	}
	if (r < 0 && r != -UNPACK_REFUSAL) {
		tree.report.fault = UNPACK_FAILED;
		tree.report.error = (uint32_t)-r;
	}
	tell_unpack_report(&tree.report);
	unpack_tree_done(&tree);
	/* What libraries and sanitizers do at an exit is more than the filter allows. */
	_exit(r < 0 ? UNPACK_EXIT_TOLD : 0);
}
