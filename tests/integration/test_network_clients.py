# SPDX-License-Identifier: Apache-2.0
"""Programs that people use, against registries and hosts of the test's own: by the variables that name the proxy, and
without them. Each reaches what is allowed over HTTP and over TLS; its refusal is told with the answer. A client that is
not here is skipped. Those that are large, and no part of a usual run: tests/network/README.md."""

import os
import pathlib
import shutil
import tempfile

import egress
import npm
import package_site
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, Daemon

pytestmark = pytest.mark.skipif(not AM_ROOT, reason="needs root to serve ports 80 and 443")

# Clients of the npm registry, which are installed when the first of them is tried.
PINNED = {"yarn": "1.22.22", "@yarnpkg/cli-dist": "4.9.2"}
# A directory whose bin/ has more clients. Commands see it at the same path, and read-only.
TOOLS = os.environ.get("CLOISTER_TEST_TOOLS")
RULES = "open.test a.open.test"
FETCH = """import java.net.*; import java.net.http.*;
class Fetch { public static void main(String[] urls) throws Exception { for (String url : urls)
  System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(url + "/page")).build(),
    HttpResponse.BodyHandlers.ofString()).body()); } }
"""

WEB_SOCKET = """import sys, websocket
one = websocket.create_connection(sys.argv[1].replace("http", "ws", 1) + "/ws", sslopt={"ca_certs": "ca.pem"})
one.send("from the host")
print(one.recv())
"""

POM = """<project><modelVersion>4.0.0</modelVersion><artifactId>a</artifactId><packaging>pom</packaging>
<parent><groupId>test</groupId><artifactId>thing</artifactId><version>1.0</version><relativePath/></parent></project>
"""
SETTINGS = "<settings><mirrors><mirror><id>here</id><mirrorOf>*</mirrorOf><url>@/maven</url></mirror></mirrors></settings>"

APT = ("apt-get -qq -o Dir::Etc=$d/etc -o Dir::State=$d/lib -o Dir::Cache=$d/cache -o Dir::State::status=/dev/null "
       "-o Acquire::https::CaInfo=$PWD/ca.pem -o Acquire::Retries=0 -o APT::Update::Error-Mode=any")
TRUST = "-Djavax.net.ssl.trustStore=$PWD/trust -Djavax.net.ssl.trustStorePassword=changeit"
MAKE_TRUST = "keytool -importcert -noprompt -file ca.pem -keystore trust -storepass changeit >&2"


def each(body):
    """A shell's words for each of the places: it prints "from the host" if it can."""
    return f'for at in $PLACES; do ( {body} ); done'


def python(library, get):
    return (f"/usr/bin/python3 -c 'import {library}'",
            each(f"SSL_CERT_FILE=ca.pem REQUESTS_CA_BUNDLE=ca.pem /usr/bin/python3 -c 'import sys, {library}; print({get})' $at/page"))


NODE_24 = '$NODE -e "process.exit(parseInt(process.versions.node) < 24 ? 1 : 0)"'
FETCHES = "NODE_EXTRA_CA_CERTS=ca.pem $NODE -e \"fetch('$at/page').then(got => got.text()).then(console.log)\""


def yarn(program, words, **variables):
    """Installs what package.json says, without a lock file, so that it asks the registry."""
    settings = " ".join(f"{name}={value}" for name, value in variables.items())
    return NODE_24, each(
        f"rm -rf y && mkdir y && cd y && cp ../package.json . && touch yarn.lock && NODE_EXTRA_CA_CERTS=$PWD/../ca.pem {settings} "
        f"$NODE $NPM/{program} install {words} >&2 && cat node_modules/thing/page && echo && rm -rf ../y")


CLIENTS = {  # what must succeed for it to be there; the command
    "curl": ("curl --version", each("curl -sS --cacert ca.pem $at/page && echo")),
    "wget": ("wget --version", each("wget -q -O- --tries=1 --ca-certificate=ca.pem $at/page && echo")),
    "git": ("git --version", each("GIT_SSL_CAINFO=$PWD/ca.pem git clone -q $at/work/.git copy && cat copy/page && echo && rm -rf copy")),
    "pip": ("/usr/bin/python3 -m pip --version", each(
        "/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --retries 0 --target got --trusted-host open.test "
        "--cert ca.pem -i $at/simple thing && PYTHONPATH=got /usr/bin/python3 -c 'import thing; print(thing.TEXT)' && rm -rf got")),
    "urllib": python("urllib.request", "urllib.request.urlopen(sys.argv[1]).read().decode()"),
    "requests": python("requests", "requests.get(sys.argv[1]).text"),
    "httpx": python("httpx", "httpx.get(sys.argv[1]).text"),
    "WebSocket": ("/usr/bin/python3 -c 'import websocket'", each("/usr/bin/python3 ws.py $at")),
    # Its fetch reads the variables since 24; those before cannot be told.
    "node": ('node -e "process.exit(parseInt(process.versions.node) < (process.env.HTTP_PROXY ? 24 : 18) ? 1 : 0)"', each(
        "NODE_EXTRA_CA_CERTS=ca.pem node -e \"fetch('$at/page').then(got => got.text()).then(console.log)\"")),
    "npm": ("npm --version", each(
        "mkdir n && cd n && cp ../package.json . && sed s,@,$at, ../package-lock.json >package-lock.json && npm ci --registry $at/npm/ "
        "--cache $PWD/cache --cafile ../ca.pem --no-audit --no-fund --fetch-retries 0 --loglevel=error >&2 && "
        "cat node_modules/thing/page && echo && rm -rf ../n")),
    # Below, Node and its programs are those of the npm registry.
    "Node 24": (NODE_24, each(FETCHES)),
    "yarn 1": yarn("yarn/bin/yarn.js", "--registry $at/npm --cache-folder $PWD/cache --no-lockfile --non-interactive --silent"),
    "yarn 4": yarn("@yarnpkg/cli-dist/bin/yarn.js", "", YARN_NPM_REGISTRY_SERVER="$at/npm", YARN_UNSAFE_HTTP_WHITELIST="open.test",
                   YARN_ENABLE_TELEMETRY="0", YARN_NODE_LINKER="node-modules", YARN_ENABLE_GLOBAL_CACHE="0",
                   YARN_ENABLE_IMMUTABLE_INSTALLS="0"),
    "java": ("javac --version", f"{MAKE_TRUST}; java -XX:TieredStopAtLevel=1 {TRUST} Fetch.java $PLACES"),
    "apt": ("apt-get --version", each(
        "d=$(mktemp -d); mkdir -p $d/etc $d/lib/lists/partial $d/cache/archives/partial; echo \"deb [trusted=yes] $at/ ./\" >$d/etc/sources.list; "
        f"{APT} update >&2 && {APT} download thing >&2 && dpkg-deb --fsys-tarfile thing_1_all.deb | tar -xO ./page && echo && rm thing_1_all.deb")),
    # It knows sparse registries since 1.68.
    "cargo": ("cargo --version | awk '{ split($2, version, \".\"); new = version[1] > 1 || version[2] >= 68 } END { exit !new }'", each(
        "mkdir -p c/src && touch c/src/lib.rs && cd c && printf '[package]\\nname = \"c\"\\nversion = \"1.0.0\"\\nedition = \"2018\"\\n"
        "[dependencies]\\nthing = { version = \"1\", registry = \"here\" }\\n' >Cargo.toml && CARGO_HOME=$PWD/home CARGO_NET_RETRY=0 "
        "CARGO_HTTP_CAINFO=$PWD/../ca.pem CARGO_REGISTRIES_HERE_INDEX=sparse+$at/crates/ cargo fetch >&2 && "
        "cat home/registry/src/*/thing-1.0.0/page && echo && rm -rf ../c")),
    "go": ("go version", each(
        "mkdir g && cd g && printf 'module a\\ngo 1.19\\nrequire open.test/thing v1.0.0\\n' >go.mod && SSL_CERT_FILE=$PWD/../ca.pem GOPATH=$PWD/p "
        "GOCACHE=$PWD/k GOFLAGS='-mod=mod -modcacherw' GOSUMDB=off GOTOOLCHAIN=local GOPROXY=$at/go go mod download >&2 && "
        "cat p/pkg/mod/open.test/thing@v1.0.0/page && echo && rm -rf ../g")),
    # Its own settings refuse http:. A goal would need plugins of the public repository; a parent is resolved as they are.
    "maven": ("mvn --version", f"{MAKE_TRUST}; export MAVEN_OPTS=\"{TRUST}\"; " + each(
        "mkdir m && cp pom.xml m && sed s,@,$at, settings.xml >m/s.xml && mvn -q -B -gs m/s.xml -s m/s.xml -f m/pom.xml -Dmaven.repo.local=$PWD/m/r validate >&2 && "
        "sed -n 's,.*<description>\\(.*\\)</description>.*,\\1,p' m/r/test/thing/1.0/thing-1.0.pom && echo && rm -rf m")),
}


@pytest.fixture(scope="module")
def site(area):
    made = package_site.Site(area)
    yield made
    made.close()


@pytest.fixture(scope="module")
def npm_directory():
    """Below /srv, because every workspace has a /tmp of its own."""
    with acting_as(os.getuid()):
        path = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test.", dir="/srv"))
        path.chmod(0o755)
    yield path
    with acting_as(os.getuid()):
        shutil.rmtree(path)


@pytest.fixture(scope="module")
def npm_packages(npm_directory):
    with acting_as(os.getuid()):
        return npm.Packages(npm_directory, PINNED, least=24)


@pytest.fixture(scope="module")
def clients(area, site, npm_directory):
    """A connection to a cloisterd for each way, with a workspace in which all files are."""
    tools = f"readonly_paths = {TOOLS}\nenvironment = PATH={TOOLS}/bin:/usr/local/bin:/usr/bin:/bin" if TOOLS else ""
    config = egress.service_config(area, site.names, f"egress_allow = {RULES}\negress_private = 127.0.0.0/8\nreadonly_paths = {npm_directory}\n{tools}")
    files = {"ca.pem": site.certificate.read_text(), "Fetch.java": FETCH, "ws.py": WEB_SOCKET, "pom.xml": POM, "settings.xml": SETTINGS,
             **package_site.npm_project("@", site.npm_package)}
    daemon = Daemon(area, config=config, system=False)
    connections = {}
    for way in WAYS:
        connections[way] = daemon.connect()
        connections[way].call("workspace.open", {"workspace": way, "tenant": "net"})
        for path, content in files.items():
            connections[way].use("write_file", path=path, content=content)
    yield connections
    for connection in connections.values():
        connection.close()
    daemon.stop()


# A command's first words, and how a refused host is told.
WAYS = {"proxy": ("exec ", {"host": "no.test", "port": 443, "reason": "not_allowed", "via": "connect"}, "no.test:443"),
        "bare": ('exec env -i PATH="$PATH" HOME="$HOME" ', {"host": "no.test", "port": 0, "reason": "not_allowed", "via": "dns"}, "no.test")}


def begin(client, way, command, **variables):
    given = " ".join(f"{name}='{value}';" for name, value in variables.items())
    quoted = f"{given} {command}".replace("'", "'\\''")
    return client.begin("run_command", {"command": f"{WAYS[way][0]}sh -c '{quoted}'", "timeout_ms": 600000})


@pytest.mark.deep("slow")
@pytest.mark.parametrize("name", CLIENTS)
def test_client(clients, site, name, request):
    probe, command = CLIENTS[name]
    given = {}
    if "$NODE" in probe:
        packages = request.getfixturevalue("npm_packages")
        given = {"NODE": packages.node, "NPM": packages.path / "node_modules"}
    asked = {way: begin(client, way, probe, **given) for way, client in clients.items()}
    there = [way for way, number in asked.items() if clients[way].result(number)["output"]["exit_code"] == 0]
    if not there and not given:
        pytest.skip(f"{name} is not here")
    # All start with and without the variables of the proxy, but an old Node: see there.
    assert len(there) == len(WAYS) or name == "node" and there == ["bare"]
    places = "http://open.test https://a.open.test https://no.test"
    asked = {way: begin(clients[way], way, command, PLACES=places, **given) for way in there}
    for way, number in asked.items():
        observation = clients[way].result(number)
        _, refusal, host = WAYS[way]
        seen = observation["output"]
        assert seen["stdout"].split("\n")[:2] == ["from the host"] * 2, (
            f"{way}, {seen['ended_by']}: {seen['stderr'][-2000:]}")
        assert observation["output"]["exit_code"] != 0, (way, observation)
        assert len(observation["network"]["denied"]) == 1, (way, observation["network"], observation["output"]["stderr"][-1500:])
        (denied,) = observation["network"]["denied"]
        assert denied.pop("count") >= 1 and denied == refusal, (way, observation)
        assert observation["network"]["connections"] >= 2, (way, observation)
        assert f"{host} is not allowed in this workspace; allowed are: {RULES}" in observation["notes"], (way, observation)
    assert "no.test" not in [asked_for for asked_for, _ in site.names.asked]
    print("tried:", name, *there)
