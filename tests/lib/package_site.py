# SPDX-License-Identifier: Apache-2.0
"""What the clients of the network fetch: registries of packages and a repository, made here, under test names. A server at
port 80 and one at port 443 of an address of this test's own serve them, and WebSockets that send back what comes."""

import base64
import functools
import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tarfile
import zipfile

import authority
import web_hosts
from cloister_client import acting_as

TEXT = b"from the host"


def tar_gz(files):
    """An archive with these files, {name: bytes}."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def fill_git(root, environment):
    """Served as files: git's "dumb" protocol."""
    work = root / "work"
    work.mkdir()
    (work / "page").write_bytes(TEXT)
    for words in (("init", "-q", "."), ("add", "page"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one"),
                  ("update-server-info",)):
        subprocess.run(["git", *words], cwd=work, check=True, env=environment)


def fill_pip(root):
    """The simple index: PEP 503."""
    package = root / "simple" / "thing"
    package.mkdir(parents=True)
    with zipfile.ZipFile(package / "thing-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("thing.py", f"TEXT = {TEXT.decode()!r}\n")
        wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("thing-1.0.dist-info/RECORD", "")
    (package / "index.html").write_text('<a href="thing-1.0-py3-none-any.whl">thing-1.0-py3-none-any.whl</a>')


def npm_project(at, package):
    """The two files that `npm ci` reads."""
    project = {"name": "a", "version": "1.0.0", "dependencies": {"thing": "1.0.0"}}
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()
    lock = {"name": "a", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": {
        "": project, "node_modules/thing": {"version": "1.0.0", "resolved": f"{at}/npm/thing-1.0.0.tgz", "integrity": integrity}}}
    return {"package.json": json.dumps(project), "package-lock.json": json.dumps(lock)}


def fill_apt(root, environment):
    """A flat repository: sources.list(5), deb(5)."""
    package = root / "package"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "page").write_bytes(TEXT)
    control = "Package: thing\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: it\n"
    (package / "DEBIAN" / "control").write_text(control)
    if not shutil.which("dpkg-deb"):
        return
    deb = root / "thing_1_all.deb"
    subprocess.run(["dpkg-deb", "-Zgzip", "--root-owner-group", "-b", package, deb], check=True, capture_output=True, env=environment)
    content = deb.read_bytes()
    entry = f"{control}Filename: ./{deb.name}\nSize: {len(content)}\nSHA256: {sha256(content)}\n"
    (root / "Packages").write_text(entry)
    (root / "Packages.gz").write_bytes(gzip.compress(entry.encode()))


def fill_cargo(root, at):
    """A sparse registry: https://doc.rust-lang.org/cargo/reference/registry-index.html"""
    crate = tar_gz({"thing-1.0.0/Cargo.toml": b'[package]\nname = "thing"\nversion = "1.0.0"\nedition = "2018"\n',
                    "thing-1.0.0/src/lib.rs": b"", "thing-1.0.0/page": TEXT})
    index = root / "crates" / "th" / "in"
    index.mkdir(parents=True)
    (root / "crates" / "config.json").write_text(json.dumps({"dl": at + "/crates/{crate}-{version}.crate"}))
    (root / "crates" / "thing-1.0.0.crate").write_bytes(crate)
    entry = {"name": "thing", "vers": "1.0.0", "deps": [], "cksum": sha256(crate), "features": {}, "yanked": False}
    (index / "thing").write_text(json.dumps(entry) + "\n")


def fill_go(root):
    """A module proxy: https://go.dev/ref/mod#goproxy-protocol"""
    versions = root / "go" / "open.test" / "thing" / "@v"
    versions.mkdir(parents=True)
    (versions / "list").write_text("v1.0.0\n")
    (versions / "v1.0.0.info").write_text('{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}')
    (versions / "v1.0.0.mod").write_text("module open.test/thing\n")
    with zipfile.ZipFile(versions / "v1.0.0.zip", "w") as module:
        module.writestr("open.test/thing@v1.0.0/go.mod", "module open.test/thing\n")
        module.writestr("open.test/thing@v1.0.0/page", TEXT)


def fill_maven(root):
    """A repository in its usual layout, with one parent."""
    place = root / "maven" / "test" / "thing" / "1.0"
    place.mkdir(parents=True)
    files = {"thing-1.0.pom":
             b"<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>thing</artifactId>"
             b"<version>1.0</version><packaging>pom</packaging><description>%s</description></project>" % TEXT}
    for name, content in files.items():
        (place / name).write_bytes(content)
        (place / f"{name}.sha1").write_text(hashlib.sha1(content).hexdigest())


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and at /ws a WebSocket: RFC 6455."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def end_headers(self):
        """cloister-egress asks for one request a connection, and a client has to know: RFC 9112, section 9.6."""
        if self.close_connection and self.path != "/ws":
            self.send_header("Connection", "close")
        super().end_headers()

    def do_GET(self):
        if self.path == "/ws":
            self.echo_frame()
        elif self.path == "/npm/thing":
            self.describe_npm_package()
        else:
            super().do_GET()

    def describe_npm_package(self):
        """What a registry says of a package: https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md"""
        at = f"http{'s' * (self.server.server_port == 443)}://{self.headers['Host']}"
        archive = (pathlib.Path(self.directory) / "npm" / "thing-1.0.0.tgz").read_bytes()
        version = {"name": "thing", "version": "1.0.0", "dist": {
            "tarball": f"{at}/npm/thing-1.0.0.tgz", "shasum": hashlib.sha1(archive).hexdigest()}}
        said = json.dumps({"name": "thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def echo_frame(self):
        self.close_connection = True
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for field, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"),
                             ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            self.send_header(field, value)
        self.end_headers()
        first, size = self.rfile.read(2)
        assert first == 0x81 and size & 0x80 and size & 0x7f < 126, (first, size)
        mask, data = self.rfile.read(4), self.rfile.read(size & 0x7f)
        text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
        self.wfile.write(struct.pack("BB", 0x81, len(text)) + text)


class Site(web_hosts.WebHosts):
    """The servers, and the DNS server that knows them as open.test and a.open.test."""

    def __init__(self, area):
        self.root = pathlib.Path(area.new_directory())
        environment = {"HOME": str(self.root), "PATH": os.environ["PATH"]}
        with acting_as(area.account.uid, area.account.gid):
            (self.root / "page").write_bytes(TEXT)
            self.npm_package = tar_gz({"package/package.json": b'{"name": "thing", "version": "1.0.0"}', "package/page": TEXT})
            (self.root / "npm").mkdir()
            (self.root / "npm" / "thing-1.0.0.tgz").write_bytes(self.npm_package)
            fill_git(self.root, environment)
            fill_pip(self.root)
            fill_apt(self.root, environment)
            fill_cargo(self.root, "https://a.open.test")
            fill_go(self.root)
            fill_maven(self.root)
        made = authority.Authority(self.root / "ca")
        self.certificate = made.certificate
        super().__init__(78, ("open.test", "a.open.test", "no.test"), functools.partial(Handler, directory=self.root),
                         made.context("a.open.test"))
