# SPDX-License-Identifier: Apache-2.0
"""Nothing hangs in silence: what has no network or no terminal ends at once and says so, and what is left over is counted."""

import shutil

import pytest

import procfs
from small_system import small_system

pytestmark = pytest.mark.usefixtures("as_user")
others_programs = pytest.mark.release_only("cloister does the same for the others")

HANG_MS = 120000
DEADLINE_MS = 5000  # of each client of the network: one that tried again, as it does by itself, would be ended

NO_NETWORK = "no network in this workspace: look-ups and connections fail at once; use what is installed or in the workspace"
NO_TERMINAL = "it seems to have wanted a terminal or input; there is no terminal: use -y or give stdin"


def observed(client, command, options=None, **arguments):
    observation = client.observe("run_command", {"command": command, "timeout_ms": HANG_MS, **arguments}, options)
    assert observation["success"], observation["error"]
    return observation


def needs(program):
    if not shutil.which(program, path="/usr/bin:/bin"):
        pytest.skip(f"{program} is not installed")


APT = ("mkdir -p state/lists/partial cache/archives/partial; touch state/status; "
       "echo 'deb [trusted=yes] http://deb.example.org/debian stable main' > list; "
       "apt-get -o Dir::Etc::SourceList=$PWD/list -o Dir::Etc::SourceParts=- -o Dir::State=$PWD/state "
       "-o Dir::State::status=$PWD/state/status -o Dir::Cache=$PWD/cache -o APT::Sandbox::User= "
       "-o APT::Update::Error-Mode=any update")


@pytest.mark.deep("busy")
@pytest.mark.parametrize("program, command", [
    ("git", "git clone -q https://example.org/a/b"),
    ("git", "git -c core.sshCommand=ssh clone -q git@example.org:a/b"),
    ("curl", "C=curl; $C -sS https://example.org/"),
    ("curl", "C=curl; $C -sS http://192.0.2.7/"),
    ("curl", "C=curl; $C -sS 'http://[2001:db8::7]/'"),
    pytest.param("npm", "npm install left-pad", marks=others_programs),
    pytest.param("pip3", "pip3 download six", marks=others_programs),
    ("apt-get", APT),
    ("python3", "python3 -c 'import socket; socket.create_connection((\"192.0.2.7\", 443))'"),
    ("node", "node -e 'require(\"dns\").resolve(\"example.org\", error => process.exit(error ? 1 : 0))'"),
    ("ssh", "ssh user@example.org"),
])
def test_a_client_of_the_network_fails_at_once(client, workspace, program, command):
    needs(program)
    observation = observed(client, command, timeout_ms=DEADLINE_MS)
    assert observation["output"]["exit_code"] != 0
    assert observation["notes"] == [NO_NETWORK]


def test_a_name_that_is_not_found_is_not_said_to_be_found_later(client, workspace):
    needs("python3")
    assert "[Errno -2] Name or service not known" in observed(
        client, "python3 -c 'import socket; socket.getaddrinfo(\"example.org\", 80)'")["output"]["stderr"]
    assert observed(client, "getent hosts localhost cloister")["output"]["exit_code"] == 0


@pytest.mark.parametrize("command", [
    "getent hosts example.org; true",                                                   # it did not fail
    "exit 3",                                                                           # it tried nothing
    "getent hosts localhost; python3 -c 'import socket; socket.create_connection((\"localhost\", 9))'"])
def test_a_command_that_needed_no_network(client, workspace, command):
    client.observe("run_command", {"command": "getent hosts example.org"})  # another one's tries do not count
    assert "notes" not in observed(client, command)


def test_a_command_that_is_ended_while_it_tries_the_network(client, workspace):
    observation = client.observe("run_command", {"command": "getent hosts example.org; sleep 60", "timeout_ms": 1000})
    assert observation["error"]["code"] == "TIMEOUT" and observation["notes"] == [NO_NETWORK]


def test_the_tenants_environment_and_the_clients_win(client, workspace):
    command = "echo $npm_config_fetch_retries $PIP_RETRIES $CARGO_NET_RETRY"
    assert client.run(command)["stdout"] == "0 0 0\n"
    assert client.run(command, {"env": {"PIP_RETRIES": "7"}})["stdout"] == "0 7 0\n"


@pytest.mark.parametrize("program, command", [
    ("python3", "python3 -c 'input(\"name: \")'"),
    pytest.param("npm", "npm init", marks=others_programs),
    ("sh", "read answer < /dev/tty"),
    ("sh", "printf 'Continue? [y/N] '; read answer || exit 1"),
    ("git", "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit --allow-empty"),
    ("sh", "test -t 0 || { echo 'stdin is not a terminal' >&2; exit 1; }"),
])
def test_a_program_that_wants_input_ends_at_once_and_says_so(client, workspace, program, command):
    needs(program)
    observation = observed(client, command)
    assert observation["output"]["exit_code"] != 0
    assert observation["notes"][-1] == NO_TERMINAL


def test_input_that_is_given_is_not_asked_for(client, workspace):
    assert "notes" not in observed(client, "printf 'name: '; read x; exit 1", {"stdin": "me\n"})
    assert "notes" not in observed(client, "printf 'name: '")


@pytest.mark.parametrize("written, told", [
    ("bash: line 1: kill: (77) - No such process", "process ids of other commands"),
    ("fatal: renaming 'a' failed: Invalid cross-device link", "mv copies"),
    ("Error: EXDEV: cross-device link not permitted, rename 'a' -> 'b'", "mv copies"),
    ("Error: ENOSPC: System limit for number of file watchers reached, watch 'src'", "CHOKIDAR_USEPOLLING=true"),
    ("fatal: not a git repository: /home/u/repo/.git/worktrees/w", "readonly_paths"),
    ("bash: line 1: .venv/bin/python: No such file or directory", "readonly_paths"),
    ("bash: ./run: /home/u/.pyenv/bin/python3: bad interpreter: No such file or directory", "readonly_paths"),
    ("OSError: [Errno 28] inotify watch limit reached", "CHOKIDAR_USEPOLLING=true"),
    ("Cannot open netlink socket: Operation not permitted", "/proc/net/tcp"),
    ("lsmem: cannot open /sys/devices/system/memory: No such file or directory", "/proc/meminfo"),
])
def test_what_differs_here_is_told(client, workspace, written, told):
    for status in (0, 1):
        notes = observed(client, f'echo "{written}" >&2; exit {status}')["notes"]
        assert len(notes) == 1 and told in notes[0]
    assert "notes" not in observed(client, f'echo "{written}"')


@pytest.mark.parametrize("written, told", [
    ("pg_ctl: no server running", "process ids of other commands"),
    ("kill: (77) - No such process", "process ids of other commands"),
    ("[1:1:ERROR:zygote_host_impl_linux.cc:130] No usable sandbox! If this is a Debian system", "start it with --no-sandbox"),
])
def test_what_a_program_that_fails_says_on_its_output_is_told(client, workspace, written, told):
    for stream in (1, 2):
        notes = observed(client, f'echo "{written}" >&{stream}; exit 3')["notes"]
        assert len(notes) == 1 and told in notes[0]
    assert "notes" not in observed(client, f'echo "{written}"')


def test_the_process_of_an_earlier_command_is_named(client, workspace):
    """A server writes its id to a file; the command that would end it finds none, and never itself."""
    ids = {int(observed(client, "echo $$")["output"]["stdout"]) for _ in range(20)}
    assert len(ids) == 20 and all(abs(a - b) > 100 for a in ids for b in ids if a != b)
    observed(client, "echo $$ > server.pid")
    ended = observed(client, "kill $(cat server.pid) || echo gone")
    assert ended["output"]["stdout"] == "gone\n" and "process ids of other commands" in ended["notes"][0]


@pytest.mark.parametrize("command, left", [
    ("sleep 600 & true", 1),
    ("sleep 600 & (setsid sleep 600 &) ; true", 2),
    ("for i in $(seq 50); do sleep 600 & done", 50),
    ("sleep 600 & exit 3", 1),
])
def test_what_is_left_over_is_counted(client, workspace, command, left):
    observation = observed(client, command)
    assert observation["usage"]["processes_ended"] == left
    assert observation["notes"] == [f"{left} background process{'' if left == 1 else 'es'} ended with this call"]
    text = client.call("tool.call", {"tool": "run_command", "arguments": {"command": command}, "options": {"reply": "message"}})
    assert f"[{observation['notes'][0]}]" in text["content"]


def test_what_gets_no_cpu_in_time_is_counted(client, workspace):
    """Processes that had SIGTERM, and die of it only when the others are killed."""
    observation = observed(client, "for i in $(seq 20); do chrt -i 0 sleep 600 & done; "
                                   "for i in 1 2 3 4 5 6; do (trap '' TERM; while :; do :; done) & done; sleep 0.3")
    assert observation["usage"]["processes_ended"] == 26


@pytest.mark.parametrize("command", ["true", "sleep 0 & wait", "sleep 0 & sleep 0.2", "(sleep 0 &); sleep 0.2"])
def test_what_has_ended_before_is_not_counted(client, workspace, command):
    observation = observed(client, command)
    assert "notes" not in observation and "processes_ended" not in observation["usage"]


def test_what_is_left_over_can_clean_up(client, workspace):
    observed(client, "sh -c 'trap \"echo bye > f; exit 0\" TERM; touch ready; while :; do sleep 0.01; done' & "
                     "until [ -e ready ]; do sleep 0.01; done")
    assert (workspace / "f").read_text() == "bye\n"


def cancel_when(client, workspace, name, command, handler):
    """Cancels @command, which leaves a process with @handler of SIGTERM, when there is a file @name."""
    left = f"sh -c 'trap \"{handler}\" TERM; touch ready; while :; do sleep 0.01; done' & until [ -e ready ]; do sleep 0.01; done; "
    number = client.begin("run_command", {"command": left + command, "timeout_ms": HANG_MS})
    assert procfs.eventually(lambda: (workspace / name).exists(), 60)
    client.call("tool.cancel", {"id": number})
    client.wait(number)


def test_what_is_left_over_is_told_once_to_end(client, workspace):
    """It had its SIGTERM with the shell; a second one, with 200 milliseconds more, made the answer late."""
    shell = "trap 'until [ -s terms ]; do sleep 0.01; done; exit' TERM; touch begun; while :; do sleep 0.01; done"
    cancel_when(client, workspace, "begun", shell, "echo >> terms")
    assert (workspace / "terms").read_text() == "\n"


@pytest.mark.deep("busy")
def test_what_is_left_over_has_no_time_after_a_cancel(client, workspace):
    cancel_when(client, workspace, "terms", "true", "touch terms; sleep 0.1; touch late")
    assert not (workspace / "late").exists()


def test_git_packs_before_the_command_ends(client, workspace):
    """gc --auto in the background ended with the command, and its lock file kept git from packing for good."""
    needs("git")
    made = observed(client, "git init -q . && git config user.email a@b && git config user.name a && git config gc.autoPackLimit 1 && "
                            "for i in 1 2 3; do seq $i 2000 > f && git add f && git commit -qm $i && git repack -dq; done && "
                            "git commit -q --allow-empty -m last")
    assert "notes" not in made and made["output"]["exit_code"] == 0, made
    assert not list((workspace / ".git").glob("*.lock"))
    assert len(list((workspace / ".git" / "objects" / "pack").glob("*.pack"))) == 1


# What runs commands

@pytest.fixture
def with_keys(start_daemon, account, area):
    """Returns a function that starts a cloisterd whose tenant has further keys, and gives a client with a workspace."""
    clients = []

    def start(*lines, **params):
        daemon = start_daemon(config=f"[cloister]\n[tenant a]\nusers = {account.name}\nroots = {area.path}\n" + "\n".join(lines) + "\n")
        clients.append(daemon.connect())
        if params:
            clients[-1].call("workspace.open", params)
        else:
            daemon.new_workspace(clients[-1])
        return clients[-1]

    yield start
    for client in clients:
        client.close()


BASH_ONLY = "x=(one two); [[ ${x[1]} == t* ]] && cat <(echo ${x[1]})"


@pytest.mark.parametrize("lines, expected", [
    ((), "bash"), (("shell = auto",), "bash"), (("shell = bash",), "bash"), (("shell = sh",), "sh")])
def test_the_shell(with_keys, lines, expected):
    needs("bash")
    client = with_keys(*lines)
    output = client.run("echo $0; exit 7")
    assert (output["stdout"], output["exit_code"]) == (f"{expected}\n", 7)
    assert expected == "sh" or client.run(BASH_ONLY)["stdout"] == "two\n"


def test_a_root_without_bash(with_keys, account, area):
    root = area.new_directory("rootfs")
    small_system(root)
    params = {"root": str(root), "kind": "rootfs"}
    assert with_keys(**params).run("echo $0")["stdout"] == "sh\n"
    observation = with_keys("shell = bash", **params).observe("run_command", {"command": "true"})
    assert observation["error"] == {"code": "EXECUTION_ERROR", "message": "There is no /bin/bash in this workspace; an "
                                    "administrator can set the tenant's shell to auto"}


# Waiting for input

WAITED = "The command was ended: it waited for input; there is no terminal: use -y or give stdin; output has what it wrote until then"
PTY = "import os, pty, sys, time; pid, master = pty.fork(); "  # a terminal that the command itself makes


@pytest.mark.deep("slow")
@pytest.mark.parametrize("program, command", [
    ("vim", "vim x"),
    ("vim", "vim -u NONE x | cat"),
    ("script", "script -qc 'npm init' /dev/null"),
    ("less", "script -qc 'less /etc/passwd' /dev/null"),
    ("python3", f"python3 -c '{PTY}os.execlp(\"sh\", \"sh\", \"-c\", \"read answer < /dev/tty\") if pid == 0 else os.wait()' | cat"),
    ("python3", f"python3 -c '{PTY}os.execlp(\"cat\", \"cat\") if pid == 0 else os.wait()'"),
])
def test_what_waits_for_input_is_ended(with_keys, program, command):
    needs(program)
    observation = with_keys("input_wait = 300ms").observe("run_command", {"command": command})
    assert observation["error"] == {"code": "TIMEOUT", "message": WAITED}
    assert observation["output"]["ended_by"] == "input" and observation["output"]["timed_out"] is True


GO_ON = [
    "sleep 3",
    "sleep 3 | cat",
    "script -qc 'sleep 3' /dev/null",
    # A shell that waits at a terminal, beside something that goes on.
    "script -qc cat /dev/null > /dev/null & sleep 3",
    f"python3 -c '{PTY}os.execlp(\"cat\", \"cat\") if pid == 0 else (time.sleep(3), os.write(master, b\"x\\n\\4\"), os.wait())'",
    "python3 -c 'import threading; threading.Event().wait(3)'",
    "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); s.settimeout(3)\ntry: s.accept()\nexcept TimeoutError: pass'",
    "mkfifo fifo; (sleep 3; echo > fifo) & read x < fifo",
    "touch f; timeout 3 tail -f f; true",
]


@pytest.mark.deep("slow")
def test_what_does_not_wait_for_input_goes_on(with_keys):
    needs("script")
    client = with_keys("input_wait = 300ms")
    begun = [(client.begin("run_command", {"command": command}), command) for command in GO_ON]
    for number, command in begun:
        output = client.result(number)["output"]
        assert (output["ended_by"], output["exit_code"]) == ("exit", 0), (command, output)


def test_input_may_take_its_time(with_keys):
    client = with_keys("input_wait = 300ms")
    number = client.begin("run_command", {"command": "read x; echo $x"},
                          {"stdin_stream": True, "stream": True})
    client.run("sleep 2")
    client.call("tool.input", {"id": number, "data": "late\n", "eof": True})
    assert client.result(number)["output"]["stdout"] == "late\n"


@pytest.mark.deep("slow")
def test_the_bound_can_be_off(with_keys):
    needs("vim")
    observation = with_keys("input_wait = 0s").observe("run_command", {"command": "vim x", "timeout_ms": 8000})
    assert observation["output"]["ended_by"] == "timeout"


# What holds

def test_a_model_is_told_once_what_holds(daemon, client, workspace):
    def answer(client):
        return client.call("tool.call", {"tool": "run_command", "arguments": {"command": "true"}, "options": {"reply": "message"}})["content"]
    holds = client.call("tools.list", {"limits": True})["instructions"]
    for word in ("no network", "no root", "no terminal", "bash", "HOME and /tmp are emptied", "may take 30 s", "512 processes"):
        assert word in holds
    assert ("MiB of memory" in holds) == (client.call("workspace.open", {"root": str(workspace)})["isolation"]["limits"]["memory"] != "none")
    assert "instructions" not in client.call("tools.list")
    assert "notes" not in client.observe("run_command", {"command": "true"})  # a program does not pay for it
    assert answer(client) == f"exit 0, no output\n[here: {holds}]"
    assert answer(client) == "exit 0, no output\n"
    with daemon.connect() as another:  # and another connection's model does not know yet
        another.call("workspace.open", {"root": str(workspace)})
        assert holds in answer(another)


def test_what_holds_is_true(client, workspace):
    needs("bash")
    observed(client, "test $(id -u) = 1000 && ! touch /usr/x && ! test -t 0 && test $0 = bash")
    assert client.run("touch $HOME/a /tmp/a ./a; ls")["exit_code"] == 0


def test_what_holds_follows_the_configuration(with_keys):
    holds = with_keys("shell = sh", "home = kept", "command_timeout = 90s", "command_timeout_max = 2min", "command_processes = 20"
                      ).call("tools.list", {"limits": True})["instructions"]
    for word in ("run by sh;", "in HOME stay", "may take 90 s", "up to 2 min", "20 processes"):
        assert word in holds
