# SPDX-License-Identifier: Apache-2.0
"""Web servers under test names, and the DNS server that knows them."""

import http.server
import os
import threading

import egress


class WebHosts:
    """Serves ports 80 and 443 of an address of this process's own: the latter over TLS with the context."""

    def __init__(self, network, names, handler, context):
        address = f"127.{network}.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"
        self.names = egress.Names(dict.fromkeys(names, [address]))
        self.servers = []
        for port in (80, 443):
            server = http.server.ThreadingHTTPServer((address, port), handler)
            if port == 443:
                server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.servers.append(server)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
        self.names.close()
