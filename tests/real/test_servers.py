# SPDX-License-Identifier: Apache-2.0
"""Servers with workers of their own, which reload and end by signals, a database, and git's housekeeping. All from Debian."""

import glob

import npm
import pytest
from conftest import HANGS, PATH, need

GUNICORN = {
    "app.py": 'TEXT = b"first text"\n\n\ndef app(environ, start):\n    start("200 OK", [("Content-Type", "text/plain")])\n    return [TEXT]\n',
}
GUNICORN_RUN = """
gunicorn --version
gunicorn -w 3 -b 127.0.0.1:8000 --pid pid app:app 2>log & server=$!
python3 fetch.py http://localhost:8000/ 'first text'
sed -i s/first/second/ app.py
kill -HUP $(cat pid)
python3 fetch.py http://localhost:8000/ 'second text'
kill -TTIN $(cat pid)
until [ $(grep -c 'Booting worker' log) = 7 ]; do sleep 0.1; done
kill -TERM $(cat pid)
wait $server && echo ended 0 || echo ended $?
test ! -e pid
"""

RACK = {
    "config.ru": 'run lambda { |env| [200, { "content-type" => "text/plain" }, ["text of #{env["PATH_INFO"]}"]] }\n',
}
RACK_RUN = """
puma -w 2 -t 1:4 -b tcp://127.0.0.1:9292 --pidfile pid config.ru >log 2>&1 & server=$!
python3 fetch.py http://localhost:9292/one 'text of /one'
kill -USR1 $(cat pid)  # a restart in phases
until grep -q 'Worker 1 (PID: [0-9]*) booted.*phase: 1' log; do sleep 0.1; done
python3 fetch.py http://localhost:9292/two 'text of /two'
kill -TERM $(cat pid)
wait $server && echo ended 0 || echo ended $?
rackup -s puma -p 9293 >log 2>&1 & server=$!
python3 fetch.py http://localhost:9293/three 'text of /three'
kill -INT $server || true
kill -TERM $server
wait $server && echo ended 0 || echo ended $?
"""

# The first call ends while git's housekeeping runs in the background.
GIT_RUN = ["""
git init -q . && git config user.name a && git config user.email a@b && git config gc.autoPackLimit 2
for i in 1 2 3; do
	head -c 2000000 /dev/urandom >file$i
	git add . && git commit -q -m "number $i" && git repack -q
done
echo x >x && git add x && git commit -q -m last
""", """
until test ! -e .git/gc.pid; do sleep 0.1; done
ls .git/*.lock 2>/dev/null || echo no locks
git gc --quiet && git fsck && git count-objects -v | grep -E '^(count|packs):'
git worktree add -q ../tree && git -C ../tree log --format=%s | head -1
git bundle create -q all --all && git clone -q all copy && git -C copy log --format=%s | wc -l
"""]


CASES = {"gunicorn": (("gunicorn",), GUNICORN, GUNICORN_RUN), "rack": (("puma", "rackup"), RACK, RACK_RUN), "git": (("git",), {}, GIT_RUN)}


@pytest.mark.parametrize("name", CASES)
def test_a_program(both, name):
    programs, files, scripts = CASES[name]
    need(*programs)
    both(scripts, files)


# All in one call, and what it leaves is a database that was shut down.
POSTGRES_RUN = """
initdb -D data -A trust >log && echo made
pg_ctl -D data -l log -o '-k /tmp' -w start | tail -1
psql -h /tmp -d postgres -Atc 'create table t as select generate_series(1, 1000) as n; select sum(n) from t'
psql -h localhost -d postgres -Atc 'select count(*) from pg_stat_activity where datname is not null'
pg_ctl -D data status | grep -o 'server is running'
pg_ctl -D data -m fast stop | tail -1
pg_controldata data | grep state
"""


@pytest.fixture
def postgres():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        npm.unavailable("postgresql is not installed")
    return {"PATH": f"{found[-1]}:{PATH}"}


def test_a_database(both, postgres):
    assert "500500" in both(POSTGRES_RUN, **postgres)


def test_a_database_in_a_session(client, workspace, postgres):
    """The next calls reach it, but not its processes, which they are told. Its end shuts it down."""
    def run(command):
        return client.observe("run_command", {"command": command, "timeout_ms": HANGS * 1000}, {"env": postgres})

    assert run("initdb -D data -A trust >log")["output"]["exit_code"] == 0
    session = client.call("session.start", {"command": "exec postgres -D data -k /tmp", "env": postgres})["session"]
    ready = client.call("session.read", {"session": session, "wait_ms": 60000, "until": [{"contains": "ready to accept connections"}]})
    assert ready["met"] == 0, ready
    for host in ("/tmp", "localhost"):
        assert run(f"psql -h {host} -d postgres -Atc 'select 40 + 2'")["output"]["stdout"] == "42\n"
    for action, status in (("status", 3), ("stop", 1), ("reload", 1), ("-l log start", 1)):
        told = run(f"pg_ctl -D data {action}")
        assert told["output"]["exit_code"] == status
        assert any("process ids of other commands and sessions" in note for note in told["notes"]), told
    client.call("session.end", {"session": session})
    said = run("pg_controldata data | grep state; ls data/postmaster.pid")["output"]["stdout"]
    assert said.split() == ["Database", "cluster", "state:", "shut", "down"]
