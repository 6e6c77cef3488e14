# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the clients. The classes for the service's codes are generated: _types.py."""

from __future__ import annotations

from typing import Any, Dict, Optional

__all__ = ["BadRequest", "CertificateError", "CloisterError", "Closed", "ConnectionLost", "ExportFailed", "KeyRefused", "NoAnswer",
           "OutputOverrun", "ProtocolError", "RequestError", "ServiceError", "ServiceNotFound"]


class CloisterError(Exception):
    """Any exception that a client raises itself."""


class BadRequest(CloisterError, ValueError):
    """The request cannot be sent: its values are not JSON in UTF-8, it is too long, or too many requests wait to be
    sent."""


class ServiceNotFound(CloisterError, ConnectionError):
    """The client found no service, or none that it may trust."""


class CertificateError(ServiceNotFound):
    """The server at the URL has a certificate that is not believed: nobody vouches for it, it is another's, or it is
    over."""


class KeyRefused(CloisterError, PermissionError):
    """The server at the URL does not take the key: it is wrong, revoked or over, or its tenant does not use the gate."""


class ConnectionLost(CloisterError, ConnectionError):
    """The connection ended before the answer came. The call may have run, so the program decides whether to repeat
    it."""


class ProtocolError(ConnectionLost):
    """The server does not follow the protocol. The client has closed the connection."""


class NoAnswer(CloisterError, TimeoutError):
    """The answer did not come in time. A working service always answers in time. The client has cancelled the call."""


class OutputOverrun(CloisterError):
    """The program took a call's streamed output too slowly, and the client keeps no more. The client has cancelled the
    call. Use a client of its own for a stream that is read slowly."""


class ExportFailed(CloisterError):
    """The archive of a workspace is not whole: its command failed, or what it wrote is no archive."""


class Closed(CloisterError):
    """The client was closed by the program."""


class ServiceError(CloisterError):
    """The service or a tool refused. Each code has a class; this one is for codes that are newer than the client."""

    code: str = ""

    def __init__(self, message: str, *, code: str = "", json_error: int = 0, retry_after_ms: Optional[int] = None,
                 node: Optional[str] = None, exists: bool = False, observation: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        #: The number of the JSON-RPC error; 0 where a tool failed.
        self.json_error = json_error
        #: With BUSY: in how many milliseconds to try again.
        self.retry_after_ms = retry_after_ms
        #: With MOVED: the host to go to, and whether the workspace exists at the one that refused, with its files.
        self.node = node
        self.exists = exists
        #: The whole observation of a tool that failed. It has the output of a command until it was ended.
        self.observation = observation

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.code else self.message


class RequestError(ServiceError):
    """A mistake of the program: an invalid request, an unknown method or wrong parameters. json_error has the
    number."""
