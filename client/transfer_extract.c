// SPDX-License-Identifier: Apache-2.0
/*
 * Extracts an archive in the workspace, by tar(1) in a command there: whatever the archive
 * contains, that command can reach only the workspace.
 */
#include "client/command.h"
#include "client/transfer.h"
#include "common/cleanup.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * If tar is interrupted, the file that it was writing is removed, because it may be incomplete. tar
 * prints each name before it writes the file, in a form that printf(1) can decode. A file that was
 * there before tar began is not one that it was writing, if tar replaces none ("k").
 *
 * The modes of the user's own tree are kept whatever the umask is ("m"). An archive may have modes
 * that commands cannot set (set-user-ID); tar(1) without "p" leaves them out.
 */
static const char put_script[] =
	"trap : TERM\n"
	"command -v tar >/dev/null ||\n"
	"  { echo 'there is no tar in this workspace; put needs one' >&2; exit 127; }\n"
	"mkdir -p -- \"$d\" && cd -- \"$d\" || exit 1\n"
	"case $(tar --version 2>/dev/null) in\n"
	"*GNU*) ;;\n"
	"*) tar -x${m}${k}f -; exit ;;\n"
	"esac\n"
	"t=/tmp/.cloister-put.$$\n"
	": >\"$t\"\n"
	"r=$({ trap : TERM; LC_ALL=C tar -x${m}${k}vf - --no-same-owner "
	"--warning=no-timestamp --quoting-style=escape; echo $?; "
	"} |\n"
	"  (trap '' TERM; exec tail -n 2))\n"
	"n='\n'\n"
	"s=${r##*\"$n\"}\n"
	"if [ \"$s\" -gt 128 ] && [ \"$s\" != \"$r\" ]; then\n"
	"  f=$(printf '%s' \"${r%\"$n\"*}\" | sed 's/%/%%/g')\n"
	"  f=$(printf \"${f}_\")\n"
	"  f=./${f%_}\n"
	"  [ -f \"$f\" ] && { [ -z \"$k\" ] || [ \"$(find \"$f\" -cnewer \"$t\" 2>/dev/null)\" ]; "
	"} &&\n"
	"    rm -f -- \"$f\"\n"
	"fi\n"
	"rm -f \"$t\"\n"
	"exit $s\n";

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
