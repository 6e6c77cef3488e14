# SPDX-License-Identifier: Apache-2.0
"""The lie of a worker and of a files process, for tests/lib/liar.py, which runs this text with SEED and its own names: each
request is answered with frames that mostly fit it, in any number, order and size, with anything in their fields; some do not
fit, or are no frames."""

import random

with open(f"{workspace}/.starts-{name}", "a+") as starts:  # noqa: F821  (workspace and name are the liar's)
    starts.write("x")
    starts.flush()
    r = random.Random(f"{SEED} {name} {starts.tell()}")  # noqa: F821

WRONG = 0.02  # of frames: their peer may be ended for them
NUMBERS = (0, 1, 2, 3, 49, 50, 51, 500, 2000, 2**20, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


def noise(most):
    return r.randbytes(r.choice((0, 1, 2, r.randrange(64), r.randrange(most))))


def number(bits=64):
    return (r.choice(NUMBERS) if r.random() < 0.5 else r.randrange(100)) % 2**bits


def words(most=4000):
    return r.choice((b"x", b"x", b"a/b", b"", b"\xff\xfe", b"a\nb", b"\x1b[2J", b"\0", b"x" * r.randrange(most), noise(most)))


def lines():
    return r.choice((b"line\n", b"\n", b"\xff", b"x" * 3000, b"\0\n")) * r.randrange(1, 200)


def image():
    return b"\x89PNG\r\n\x1a\n" + noise(50000)


def state():
    return struct.pack("=BQI", r.randrange(9), number(), r.randrange(0o10000))  # noqa: F821


def end():
    return files_end(  # noqa: F821
        error=r.choice((0, 0, 0, 0, r.randrange(45))), message=words(300), path=words(), flags=[r.randrange(2) for _ in range(3)],
        number=number(), kind=r.choice((b"", b"image/png", b"image/", b"application/pdf", words(60))),
        version=r.choice((b"", b"v", b"absent", b"x" * 32)))


MAKERS = {
    FILES_DATA: lambda: lines() or b"x",
    FILES_IMAGE: image,
    FILES_ENTRY: lambda: files_entry(words(), r.randrange(10), number(), words(), r.choice((0, number()))),
    FILES_MATCH: lambda: files_match(words(), number(), words(), r.randrange(2), r.randrange(2)),
    FILES_TROUBLE: lambda: files_trouble(edit=number(32), kind=words(20), closest=words(900), file=words(),
                                         lines=[number() for _ in range(r.randrange(10))]),
    FILES_HELD: lambda: files_held(r.choice(("a", "", "absent", "x" * 32)), r.choice(("b", "", "x" * 32)), number()),
    FILES_PATCHED: lambda: files_patched(r.randrange(3), r.randrange(1, 5), words(), number(), r.choice((b"", b"v")), words(),
                                         r.choice((b"absent", b"v", b""))),
    FILES_STEP: lambda: files_step(r.randrange(3), r.randrange(3)),
    FILES_CHANGE: lambda: text(words()) + state() + state(),
    FILES_TOTALS: lambda: struct.pack("=QQQQQ", *[number() for _ in range(5)]),
    FILES_NODE: lambda: files_node(words(), r.randrange(1, 9), number(), words(), r.randrange(0o10000), words(200),
                                   r.choice((b"", noise(90), text(words(40) or b"a") + text(words(40)))), r.randrange(2)),
    FILES_TAKEN: lambda: files_amount(r.choice((1, 100, 65520, 300000, number()))),
    FILES_END: end,
}
FITTING = {
    FILES_READ: (FILES_DATA, FILES_DATA, FILES_IMAGE), FILES_LIST: (FILES_ENTRY,), FILES_SEARCH: (FILES_MATCH,), FILES_WRITE: (),
    FILES_EDIT: (FILES_DATA, FILES_TROUBLE), FILES_PATCH: (FILES_PATCHED, FILES_STEP, FILES_TROUBLE),
    FILES_DIFF: (FILES_CHANGE, FILES_DATA, FILES_TOTALS),
    FILES_STAT: (FILES_NODE,), FILES_TREE: (FILES_NODE,), FILES_MAKE_DIRECTORY: (FILES_NODE,), FILES_RENAME: (FILES_NODE,),
    FILES_REMOVE: (), FILES_FETCH: (FILES_NODE, FILES_DATA), FILES_MORE: (FILES_DATA,), FILES_BODY: (FILES_TAKEN,),
}


def say(kind, call, payload):
    """Sends a frame, or something like it."""
    how = r.random()
    if how < WRONG:
        payload = r.choice((payload[:r.randrange(len(payload) + 1)], payload + b"x", noise(9000)))
    elif how < 2 * WRONG:
        kind = r.randrange(256)
    elif how < 3 * WRONG:
        call = r.choice((0, call - 1 if call else 0, call + 1, number()))
    elif how < 3.1 * WRONG:
        send(noise(9000))
    send(frame(kind, call, payload))


def be_files():
    held = set()
    while True:
        kind, call, payload, _ = request()
        if kind == FILES_SWEEP:
            say(FILES_END, 0, end())
        elif kind == FILES_CANCEL:
            say(FILES_END, call, files_end(error=7 if r.random() < 0.8 else 0))
            held.discard(call)
        elif kind == FILES_GO or kind == FILES_CLEAR:
            for _ in range(r.randrange(3)):
                say(FILES_STEP if call in held else FILES_DATA, call, files_step(0, r.randrange(3)))
            say(FILES_END, call, end())
        elif kind in FITTING:
            for _ in range(r.choice((0, 0, 1, 1, 2, 3, 30))):
                which = r.choice(FITTING[kind] or (FILES_END,))
                if which != FILES_END:
                    say(which, call, MAKERS[which]())
            if kind in (FILES_WRITE, FILES_EDIT, FILES_PATCH) and r.random() < 0.6:
                held.add(call)
                say(FILES_HELD, call, MAKERS[FILES_HELD]())
            elif r.random() < 0.9:
                say(FILES_END, call, end())


def write(fd):
    os.set_blocking(fd, False)
    for _ in range(r.choice((0, 1, 1, 2, 8))):
        with contextlib.suppress(OSError):
            os.write(fd, r.choice((b"out\n", lines()[:4000], noise(4000))))


def ended():
    return command_ended(end=r.choice((0, 0, 0, 0, 1, 2)), status=r.choice((0, 0, 0, 256, 9, 11, 15, 0x80, number(32))),
                         error=r.choice((0, 2, 11, 125, number(32))), number=number(), flag=r.randrange(2))


def be_worker():
    fds_of = {}
    while True:
        kind, call, _, fds = request()
        if kind == COMMAND_PAUSE:
            say(COMMAND_PAUSED, call, command_paused(r.randrange(2)))
        elif kind == COMMAND_RUN:
            fds_of[call] = fds
        if kind in (COMMAND_BODY, COMMAND_TERMINATE, COMMAND_KILL, COMMAND_GO) and call in fds_of:
            for fd in fds_of[call][:3]:
                write(fd)
            if r.random() < 0.05:
                say(r.choice((COMMAND_HELD, COMMAND_WAITS, COMMAND_FORWARD_ENDED)), call, r.choice((b"", command_held(number()))))
            if r.random() < 0.8 or kind == COMMAND_KILL:
                if r.random() < 0.9:
                    for fd in fds_of.pop(call):
                        os.close(fd)
                say(COMMAND_ENDED, call, ended())


import contextlib  # noqa: E402

if r.random() < 0.03:
    send(noise(9000))
be_ready()
be_files() if name == "files" else be_worker()
