# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of the test's own, and servers that speak TLS under test names."""

import contextlib
import pathlib
import socket
import ssl
import subprocess

import egress

# Faster to make than one of RSA.
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def validity(days):
    """OpenSSL before 3.4 takes no dates, and later ones no negative number of days."""
    about = subprocess.run(["openssl", "x509", "-help"], capture_output=True, text=True).stderr
    if days < 0 and "-not_after" in about:
        return "-not_before", "20200101000000Z", "-not_after", "20200102000000Z"
    return "-days", str(days)


class Authority:
    def __init__(self, directory, name="cloister test CA"):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.certificate = self.directory / "ca.pem"
        # Python 3.13 believes no authority without a key usage, and no certificate without its authority's key.
        self._openssl("req", "-x509", *KEY, "-nodes", "-days", "2", "-subj", f"/CN={name}",
                      "-addext", "keyUsage=critical,keyCertSign", "-keyout", "ca.key", "-out", "ca.pem")

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)

    def context(self, name, days=2, key=KEY):
        """A server's context with a certificate for the name or address, which is in host.pem, with its key in host.key."""
        kind = "IP" if name.replace(".", "").isdigit() else "DNS"
        (self.directory / "extensions").write_text(
            f"subjectAltName = {kind}:{name}\nsubjectKeyIdentifier = hash\nauthorityKeyIdentifier = keyid\n")
        self._openssl("req", *key, "-nodes", "-subj", "/CN=host", "-keyout", "host.key", "-out", "host.csr")
        self._openssl("x509", "-req", "-in", "host.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                      *validity(days), "-extfile", "extensions", "-out", "host.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "host.pem", self.directory / "host.key")
        return context


class Server(egress.Host):
    """serve(connection) for each client, within TLS."""

    def __init__(self, context, serve, **keywords):
        self.context, self.served = context, serve
        super().__init__(self._shake, **keywords)

    def _shake(self, connection):
        connection.settimeout(egress.WAIT_S)
        with self.context.wrap_socket(connection, server_side=True) as within:
            self.served(within)
            with contextlib.suppress(OSError, ValueError):  # it may have ended TLS itself
                within.unwrap()


def read_request(connection):
    """Reads a request as a strict server does: its head as it came, and its body."""
    head = egress.read_head(connection)
    fields = [line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2]]
    names = {name.lower(): value for name, value in fields}
    if names.get(b"transfer-encoding") == b"chunked":
        body = b""
        while size := int(_line(connection), 16):
            body += _exactly(connection, size)
            assert _line(connection) == b""
        assert _line(connection) == b""
        return head, body
    return head, _exactly(connection, int(names.get(b"content-length", b"0")))


def _line(connection):
    line = b""
    while not line.endswith(b"\r\n"):
        line += _exactly(connection, 1)
    return line[:-2]


def _exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the request was cut off")
        data += more
    return data


def rest(connection):
    """What comes behind a request until the client has closed its end."""
    connection.settimeout(egress.WAIT_S)
    with contextlib.suppress(ssl.SSLError, socket.timeout, ConnectionError):
        return egress.read_all(connection)
    return b""
