// SPDX-License-Identifier: Apache-2.0
/*
 * Extracts an archive in the workspace, by tar(1) in a command there: whatever the archive
 * contains, that command can reach only the workspace.
 */
#include "client/cmd/command.h"
#include "client/transfer/transfer.h"
#include "common/cleanup.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * If tar is interrupted, the file that it is writing is removed, because it may be incomplete. The
 * shell finds it among the open files of tar, which ignores SIGTERM and is stopped meanwhile: to
 * have tar print each name (-v) takes a write(2) for each file and wakes who reads it. tar opens no
 * regular file but the one that it writes, which it has made: another of that name was removed
 * before, or is in the way ("k"). Behind SIGTERM the init sends SIGCONT, which nobody else can
 * send, and which must have come before tar is stopped. bash loses the first of two signals that
 * end wait at once.
 *
 * Records are as large as a pipe: tar would take 10 KiB at a time.
 *
 * The modes of the user's own tree are kept whatever the umask is ("m"). An archive may have modes
 * that commands cannot set (set-user-ID); tar(1) without "p" leaves them out.
 */
static const char put_script[] =
	"t= c=\n"
	"trap t=1 TERM\n"
	"trap c=1 CONT\n"
	"command -v tar >/dev/null ||\n"
	"  { echo 'there is no tar in this workspace; put needs one' >&2; exit 127; }\n"
	"mkdir -p -- \"$d\" && cd -- \"$d\" || exit 1\n"
	"case $(tar --version 2>/dev/null) in\n"
	"*GNU*) ;;\n"
	"*) tar -x${m}${k}f -; exit ;;\n"
	"esac\n"
	"exec 3<&0\n"
	"(trap '' TERM; LC_ALL=C exec tar -b 128 -x${m}${k}f - --no-same-owner "
	"--warning=no-timestamp <&3 3<&-) &\n"
	"p=$!\n"
	"[ \"$t$c\" ] || wait $p\n"
	"s=$?\n"
	"while [ \"$t\" ] && ! [ \"$c\" ] && kill -0 $p 2>/dev/null; do sleep .1; done\n"
	"[ \"$c\" ] && kill -STOP $p 2>/dev/null || exit $s\n"
	"exec 2>/dev/null\n"
	"while read -r x x s x <\"/proc/$p/stat\" && [ \"$s\" != T ] && [ \"$s\" != Z ]; do :; "
	"done\n"
	"for f in /proc/$p/fd/*; do\n"
	"  [ -f \"$f\" ] && n=$(readlink \"$f\"; echo _) && rm -f -- \"${n%??}\"\n"
	"done\n"
	"kill -KILL $p\n"
	"exit 143\n";

int transfer_extract(struct transfer *transfer, struct session *session, const char *options,
	bool overwrite, const char *directory,
	ssize_t (*input)(void *buffer, size_t size, void *context), int input_fd)
{
	_cleanup_free_ char *script = NULL;

	if (asprintf(&script, "m=%s k=%s\n%s", options, overwrite ? "" : "k", put_script) < 0) {
		complain("out of memory");
		return STATUS_OWN_FAILURE;
	}
	return transfer_run(transfer, session, script, "d", directory, input, input_fd);
}
