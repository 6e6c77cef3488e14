# SPDX-License-Identifier: Apache-2.0
"""libcloister as another program gets it: installed, found by pkg-config, used with a real cloisterd."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from daemon import BUILD, ROOT, environment, is_sanitized

EXTERNAL = ROOT / "tests" / "lib" / "external"
SOURCE = ROOT / "libcloister"
STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZER = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class Installed:
    """The files that `cmake --install` installs, and programs built from these files alone."""

    def __init__(self, area):
        self.place = area.new_directory("installed")
        self.programs = area.new_directory("external")
        subprocess.run(["cmake", "--install", str(BUILD)], env={**os.environ, "DESTDIR": str(self.place)},
                       check=True, capture_output=True)
        (self.pc,) = self.place.rglob("libcloister.pc")
        self.lib = self.pc.parent.parent

    def pkg_config(self, *words):
        # pkg-config puts the sysroot before every path that lacks it, also before paths of the host's own packages.
        env = {**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(self.place)}
        return subprocess.run(["pkg-config", *words], env=env, check=True, capture_output=True, text=True).stdout.split()

    def compile(self, source, *words, compiler="cc", name=None):
        program = self.programs / (name or source.stem)
        sanitizer = SANITIZER if is_sanitized() else []
        subprocess.run([compiler, *sanitizer, *self.pkg_config("--cflags", "libcloister"), str(source), "-o", str(program),
                        *words], check=True)
        return program

    def build(self, source, *libraries):
        return self.compile(EXTERNAL / source, *STRICT, "-D_GNU_SOURCE", *self.pkg_config("--libs", "libcloister"), *libraries)

    def run(self, area, program, *words, leaks=True):
        env = {**environment(area.home), "LD_LIBRARY_PATH": str(self.lib)}
        if leaks:
            env["ASAN_OPTIONS"] = "detect_leaks=1"
        done = subprocess.run([str(program), *map(str, words)], env=env, cwd="/", stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=300, check=False, **area.account.as_user())
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def installed(area):
    return Installed(area)


FILES = ["written 10", "same 1", "other 0 1 NOT_FOUND", "outside 1", "method 1"]
COMMANDS = ["stdout out", "stderr err", "exit 3, 4 bytes", "stdout started", "cancelled 1", "deadline 1", "second", "first"]


def test_a_blocking_program(installed, area, daemon):
    program = installed.build("blocking.c")
    lines = installed.run(area, program, daemon.socket, area.new_directory(), area.new_directory())
    assert lines == ["opened directory", "opened directory", *FILES, *COMMANDS]


def test_a_program_in_an_event_loop(installed, area, daemon):
    program = installed.build("event_loop.c", "-levent_core")
    lines = installed.run(area, program, daemon.socket, area.new_directory(), area.new_directory())
    for name in "ab":
        mine = [line[2:] for line in lines if line.startswith(name)]
        assert sorted(mine) == sorted(["stdout first", "stderr second", "stdout third", "4", "5", "CANCELLED",
                                       "ended: Operation canceled"])
        assert mine.index("stdout first") < mine.index("4") and mine[-1].startswith("ended")


def test_an_archive_and_a_private_instance(installed, area):
    """A program is linked with libcloister.a and starts its own private cloisterd on one end of a socketpair."""
    archive = installed.lib / "libcloister.a"
    program = installed.compile(EXTERNAL / "blocking.c", *STRICT, "-D_GNU_SOURCE", str(archive), "-ljson-c", name="static")
    needed = subprocess.run(["readelf", "-Wd", program], check=True, capture_output=True, text=True).stdout
    assert "libjson-c" in needed and "libcloister" not in needed
    # The private cloisterd is confined, and LeakSanitizer cannot trace it.
    lines = installed.run(area, program, f"private:{area.bin / 'cloisterd'}", area.new_directory(), leaks=False)
    assert lines == ["opened directory", *COMMANDS, "service ended with 0"]


def header_functions(name="cloister.h"):
    header = re.sub(r"/\*.*?\*/", "", (SOURCE / name).read_text(), flags=re.S)
    return set(re.findall(r"^[a-z].*?\b(cloister_\w+)\(", re.sub(r"typedef[^;]*;", "", header), flags=re.M))


def names(path, *words):
    listed = subprocess.run(["nm", "--format=posix", *words, str(path)], check=True, capture_output=True, text=True).stdout
    return {line.split()[0].split("@")[0] for line in listed.splitlines() if len(line.split()) > 1}


def test_the_names_are_those_of_the_header(installed):
    """The shared library and the archive define no global names but those that the header declares. The archive also
    has those that programs of this tree use."""
    declared = header_functions()
    assert len(declared) > 30
    shared = installed.lib / "libcloister.so.0"
    assert names(shared, "-D", "--defined-only") - {"LIBCLOISTER_0"} == declared
    strange = names(installed.lib / "libcloister.a", "--extern-only", "--defined-only") - declared - header_functions("value.h")
    assert not [name for name in strange if not name.startswith(("__asan", "__odr_asan"))]
    dynamic = subprocess.run(["readelf", "-Wd", shared], check=True, capture_output=True, text=True).stdout
    assert "[libcloister.so.0]" in dynamic


@pytest.mark.skipif(is_sanitized(), reason="a sanitized library also makes the sanitizers' calls")
def test_it_does_nothing_behind_the_programs_back(installed):
    """The library uses no stdio, exit, signal handlers, threads, processes or global variables."""
    shared = installed.lib / "libcloister.so.0"
    used = names(shared, "-D", "--undefined-only")
    forbidden = re.compile(r"_?_?(f|v|d)?(printf|puts|putc|perror|exit|abort|signal|sigaction|sigprocmask|pthread_.*|fork|"
                           r"clone.*|exec.*|system|popen|fopen|fwrite|fflush|std(in|out|err)|syslog|setenv|assert_fail)(_chk)?$")
    assert {"send", "recv", "poll"} <= used and not [name for name in used if forbidden.match(name)]
    listed = subprocess.run(["nm", "--format=posix", str(installed.lib / "libcloister.a")], check=True, capture_output=True,
                            text=True).stdout
    variables = [line for line in listed.splitlines() if len(line.split()) > 1 and line.split()[1] in "bBdDcC"
                 and not line.startswith("errors ")]  # a table of pointers, which the loader makes read-only
    assert not variables


@pytest.mark.parametrize("compiler, standard", [("cc", "c99"), ("cc", "c17"), ("c++", "c++11"), ("c++", "c++20")])
def test_the_header_by_itself(installed, compiler, standard):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    source = installed.programs / f"header.{'cpp' if compiler == 'c++' else 'c'}"
    source.write_text("#include <cloister.h>\nint main(void)\n{\n\tcloister_close(0);\n\treturn 0;\n}\n")
    installed.compile(source, f"-std={standard}", *STRICT[1:], *installed.pkg_config("--libs", "libcloister"),
                      compiler=compiler, name="header")


def test_what_pkg_config_says(installed):
    version = re.search(r"project\(cloister VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    assert installed.pkg_config("--modversion", "libcloister") == [version]
    assert "-ljson-c" not in installed.pkg_config("--libs", "libcloister")
    assert "-ljson-c" in installed.pkg_config("--libs", "--static", "libcloister")


@pytest.mark.parametrize("program", ["cloister", "cloisterctl"])
def test_the_commands_need_no_library_beside_them(program):
    """cloister and cloisterctl contain libcloister, because packaging/quickstart copies only the programs."""
    path = pathlib.Path(BUILD) / "bin" / program
    needed = subprocess.run(["readelf", "-Wd", path], check=True, capture_output=True, text=True).stdout
    assert "libcloister" not in needed and "cloister_dispatch" in names(path)


PAGE = ROOT / "man" / "libcloister.3"


def test_the_manual_has_the_headers_functions():
    synopsis = PAGE.read_text().split(".Sh DESCRIPTION")[0]
    assert set(re.findall(r"^\.F[no] (\w+)", synopsis, flags=re.M)) == header_functions()
    described = set(re.findall(r"^\.Fn (\w+)", PAGE.read_text().split(".Sh DESCRIPTION")[1], flags=re.M))
    assert described <= header_functions()
    constants = set(re.findall(r"\bCLOISTER_(?:JSON|ERROR)_\w+", PAGE.read_text())) - {"CLOISTER_ERROR_"}
    assert constants <= set(re.findall(r"\bCLOISTER_\w+", (SOURCE / "cloister.h").read_text()))


def test_the_manuals_examples(installed, area, daemon):
    """The first example of libcloister(3) runs as printed except for its directory and socket. The second one
    compiles, and the third one follows a session."""
    text = PAGE.read_text().split(".Sh EXAMPLES")[1]
    program, loop, follow = (part.split(".Ed")[0].replace(r"\e", "\\") for part in text.split(".Bd -literal\n")[1:])
    workspace = area.new_directory()
    source = installed.programs / "example.c"
    source.write_text(program.replace("/srv/work", str(workspace)).replace("cloister_open(NULL", f'cloister_open("{daemon.socket}"'))
    (workspace / "hello.c").write_text("int main(void)\n{\n\treturn 0\n}\n")
    words = [*installed.pkg_config("--libs", "libcloister"), "-Wall", "-Werror"]
    built = installed.compile(source, *words)
    assert installed.run(area, built) == ["exit status 1"]
    (workspace / "hello.c").write_text("int main(void)\n{\n\treturn 0;\n}\n")
    assert installed.run(area, built) == ["exit status 0"] and (workspace / "hello").exists()
    source = installed.programs / "loop.c"
    source.write_text(f"#include <cloister.h>\n#include <poll.h>\n{loop}\nint main(void)\n{{\n\treturn !until_it_ends;\n}}\n")
    installed.compile(source, *installed.pkg_config("--libs", "libcloister"), "-Wall", "-Wno-address", "-Werror")
    source = installed.programs / "follow.c"
    source.write_text(f"""#include <cloister.h>
#include <stdio.h>
#include <string.h>

{follow}
int main(int argc, char **argv)
{{
	struct cloister_message *reply;
	struct cloister *cloister;
	int64_t after = 0;

	if (argc != 3 || cloister_open(argv[1], &cloister) < 0 || cloister_workspace(cloister, argv[2], &reply) < 0)
		return 1;
	cloister_message_free(reply);
	if (cloister_request(cloister, "session.start", "{{\\"command\\":\\"echo one; sleep 0.2; echo two\\"}}", &reply) < 0)
		return 2;
	if (follow(cloister, cloister_get_string(reply, "/session", NULL), &after) < 0)
		return 3;
	printf("cursor %d\\n", (int)after);
	cloister_message_free(reply);
	cloister_close(cloister);
	return 0;
}}
""")
    built = installed.compile(source, *installed.pkg_config("--libs", "libcloister"), "-Wall", "-Werror")
    assert installed.run(area, built, daemon.socket, workspace) == ["one", "two", "cursor 8"]
