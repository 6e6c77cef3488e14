# SPDX-License-Identifier: Apache-2.0
"""cloisterd and cloister-egress do not start if a library behaves differently from the one that they were built with."""

import subprocess

import egress
import pytest

from daemon import SANITIZED, environment

pytestmark = pytest.mark.skipif(SANITIZED, reason="AddressSanitizer must be the first library that is loaded")

# How another version or build of each library may behave, and what cloisterd prints then.
OTHERS = {
    "json-c": ("""const char *json_object_to_json_string_ext(void *object, int flags)
        { return object && flags ? "{ \\"a\\/b\\": 1e5 }" : 0; }""", "prints numbers or strings in another way"),
    "libevent": ("int event_add(void *event, const void *timeout) { return event == timeout; }",
                 "does not report a descriptor that epoll(7) refuses"),
    "PCRE2": ("int pcre2_set_match_limit_8(void *context, unsigned limit) { return context == 0 || limit == 0; }",
              "does not keep the limits of a match"),
    "Nettle": ("void nettle_sha256_update(void *context, unsigned long n, const char *data) { (void)context, (void)n, (void)data; }",
               "computes another SHA-256"),
    "inih": ("int ini_parse_stream(void *reader, void *stream, void *handler, void *user)"
             " { return !reader + !stream + !handler + !user; }", "reads the lines of a configuration in another way"),
    "libseccomp": ("const unsigned *seccomp_version(void) { static const unsigned version[] = {2, 1, 0}; return version; }",
                   "is older than the one that cloister was built with"),
}


# c-ares, which cloister-egress alone has: its real function, called otherwise.
ARES = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
typedef void call(void *, const char *, const char *, const void *, void *, void *);
void ares_getaddrinfo(void *channel, const char *name, const char *service, const int *hints, void *callback, void *context)
{
    call *real = (call *)dlsym(RTLD_NEXT, "ares_getaddrinfo");
    char longer[300];
    int of_ipv4[4] = {hints[0], 2, hints[2], hints[3]};
    snprintf(longer, sizeof(longer), "%%s.search.test", name);
    %s;
}"""
OTHER_ARES = {
    "as before": ("real(channel, name, service, hints, callback, context)", None),
    "search domains": ("real(channel, longer, service, hints, callback, context)", "asks for other names than it is given"),
    "another port": ('real(channel, name, "22", hints, callback, context)', "takes answers to other questions, or changes addresses"),
    "one family": ("real(channel, name, service, of_ipv4, callback, context)", "leaves addresses out"),
}


def build_other(directory, source):
    other = directory / "other.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", other], input=source, text=True, check=True)
    other.chmod(0o755)
    return other


@pytest.mark.parametrize("library", OTHERS)
def test_another_library(area, library):
    source, fault = OTHERS[library]
    directory = area.new_directory()
    other = build_other(directory, source)
    words = ["cloisterd", "--agent-socket", str(directory / "s"), "--state-dir", str(directory / "state")]
    env = {**environment(area.home), "LD_PRELOAD": str(other)}
    with area.start(words, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 1
    assert f"the library {library} that is installed here {fault}: install your distribution's" in said
    assert not (directory / "s").exists()


@pytest.mark.parametrize("how", OTHER_ARES)
def test_another_c_ares(area, account, how):
    call, fault = OTHER_ARES[how]
    directory = area.new_directory()
    directory.chmod(0o755)
    other = build_other(directory, ARES % call)
    running = egress.Egress(directory, None, user=account.uid, allow="open.test", launcher=["env", f"LD_PRELOAD={other}"])
    try:
        if fault is None:
            running.ready()
            return
        assert running.process.wait(60) == 1
        assert f"the library c-ares that is installed here {fault}: install your distribution's" in running.logged()
        with pytest.raises(EOFError):
            running.link.next()
    finally:
        running.stop()
