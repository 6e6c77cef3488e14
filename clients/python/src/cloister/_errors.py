# SPDX-License-Identifier: Apache-2.0
"""What a client raises. The classes of the service's codes are generated: _types.py."""

from __future__ import annotations

from typing import Any, Dict, Optional

__all__ = ["BadRequest", "CloisterError", "Closed", "ConnectionLost", "NoAnswer", "OutputOverrun", "ProtocolError",
           "RequestError", "ServiceError", "ServiceNotFound"]


class CloisterError(Exception):
    """Everything that a client raises on its own."""


class BadRequest(CloisterError, ValueError):
    """The request cannot be sent: its values are no JSON in UTF-8, it is too long, or too much waits to be sent."""


class ServiceNotFound(CloisterError, ConnectionError):
    """No service that may be trusted listens where the client looked."""


class ConnectionLost(CloisterError, ConnectionError):
    """The connection ended before the answer came. The call may have run: whether it is repeated is for the program."""


class ProtocolError(ConnectionLost):
    """What listens there does not follow the protocol. The client has closed the connection."""


class NoAnswer(CloisterError, TimeoutError):
    """The answer did not come in time, which a service does not let happen. The client has cancelled the call."""


class OutputOverrun(CloisterError):
    """A call's streamed output came faster than the program took it, and more waited than the client keeps. The client
    has cancelled the call. Use a client of its own for a stream that is read slowly."""


class Closed(CloisterError):
    """The client was closed by the program."""


class ServiceError(CloisterError):
    """The service or a tool refused. There is a class for each code, and this one for codes that came later."""

    code: str = ""

    def __init__(self, message: str, *, code: str = "", json_error: int = 0, retry_after_ms: Optional[int] = None,
                 observation: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        #: The number of the JSON-RPC error; 0 where a tool failed.
        self.json_error = json_error
        #: With BUSY: after how many milliseconds to try again.
        self.retry_after_ms = retry_after_ms
        #: The whole observation where a tool failed: a command that was ended has its output until then.
        self.observation = observation

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.code else self.message


class RequestError(ServiceError):
    """The program's mistake: no request, no such method, or wrong parameters. json_error has the number."""
