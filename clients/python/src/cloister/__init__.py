# SPDX-License-Identifier: Apache-2.0
"""A client of cloisterd, which runs the tool calls of LLM agents in confined workspaces.

cloister.Client blocks; cloister.aio.Client is the same for asyncio.
"""

from ._client import Attached, Call, Client, Watch
from ._errors import *  # noqa: F403
from ._errors import __all__ as _errors_all
from ._forward import Forward
from ._place import place
from ._session import output_of
from ._types import *  # noqa: F403
from ._types import __all__ as _types_all
from ._wire import Output

__all__ = ["Attached", "Call", "Client", "Forward", "Output", "Watch", "output_of", "place", *_errors_all, *_types_all]
__version__ = "0.1.0"
