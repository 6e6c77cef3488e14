# SPDX-License-Identifier: Apache-2.0
"""Package managers with the registry that this machine is set up with, whose hosts a workspace's rules allow. What cannot be had
outside is left out."""

import contextlib
import ipaddress
import socket
import subprocess
import urllib.parse

import pytest
from conftest import need

NPM_RUN = """
npm init -y >/dev/null
npm install --no-audit --no-fund --loglevel=error is-number@7.0.0 cowsay@1.6.0 >log 2>&1 || { cat log >&2; exit 9; }
npm ls | grep -o '[a-z-]*@[0-9.]*$'
npx --no-install cowsay moo | grep -o moo
npm view is-number@7.0.0 version
rm -rf node_modules && npm ci --no-audit --no-fund --loglevel=error >log 2>&1 && node -p 'require("is-number")(42)'
npm pack --silent
"""
PIP_RUN = """
/usr/bin/python3 -m venv env
env/bin/pip install -q --disable-pip-version-check six==1.16.0
env/bin/python -c 'import six; print(six.__version__)'
env/bin/pip download -q --no-deps --no-binary :all: --disable-pip-version-check six==1.16.0 && ls *.tar.gz
"""
CARGO_RUN = """
cargo init -q --vcs none --name app . && cargo add -q itoa@1 && cargo build -q && ./target/debug/app
"""
MAVEN_RUN = """
mvn -q -B -Dmaven.repo.local=$PWD/m2 dependency:copy -Dartifact=junit:junit:4.13.2 -DoutputDirectory=. && ls *.jar
"""


def configured(*words, default):
    """What a package manager says that its registry is."""
    with contextlib.suppress(OSError):
        said = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout.strip()
        if said.startswith("http"):
            return said
    return default


MANAGERS = {  # what must be installed; the registry; other hosts that it sends to; the script
    "npm": ("npm", lambda: configured("npm", "config", "get", "registry", default="https://registry.npmjs.org/"), (), NPM_RUN),
    "pip": ("python3", lambda: configured("pip", "config", "get", "global.index-url", default="https://pypi.org/simple"),
            ("files.pythonhosted.org",), PIP_RUN),
    "cargo": ("cargo", lambda: "https://index.crates.io/", ("static.crates.io",), CARGO_RUN),
    "maven": ("mvn", lambda: "https://repo.maven.apache.org/", (), MAVEN_RUN),
}
VARIABLES = {"npm": "npm_config_registry", "pip": "PIP_INDEX_URL"}


@pytest.mark.parametrize("name", MANAGERS)
def test_a_package_manager(both, area, start_daemon, name):
    program, registry, others, script = MANAGERS[name]
    need(program)
    url = registry()
    host = urllib.parse.urlsplit(url)
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host.hostname, host.port or 443, type=socket.SOCK_STREAM)}
    except OSError as error:
        pytest.skip(f"{host.hostname}: {error}")
    private = [address for address in found if not ipaddress.ip_address(address).is_global]
    hosts = " ".join((f"{host.hostname}:{host.port or 443}", *others))
    lines = [f"[tenant {area.account.name}]", f"users = {area.account.name}", f"roots = {area.path}", "network = egress",
             f"egress_allow = {hosts}", *(f"egress_private = {' '.join(private)}" for _ in private[:1])]
    daemon = start_daemon(config="\n".join(lines) + "\n", system=False)
    more = {VARIABLES[name]: url} if name in VARIABLES else {}
    both(script, daemon=daemon, network=True, unless="the registry is not reached", **more)
