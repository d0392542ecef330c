"""Lethelog: long-term memory for AI agents that forgets on the record.

The names below are imported on first use (PEP 562), so that ``import lethelog`` costs nothing and stays
possible where an optional part is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from .domain.errors import LethelogError as LethelogError
    from .handlers.client.client import AsyncClient as AsyncClient
    from .handlers.client.client import Client as Client
    from .handlers.facades.langgraph_store import LethelogStore as LethelogStore
    from .ops.local import AsyncMemory as AsyncMemory
    from .ops.local import Memory as Memory
    from .ops.mem0_doors import AsyncMem0Memory as AsyncMem0Memory
    from .ops.mem0_doors import Mem0Memory as Mem0Memory

_EXPORTS = {
    "AsyncClient": ".handlers.client.client",
    "AsyncMem0Memory": ".ops.mem0_doors",
    "AsyncMemory": ".ops.local",
    "Client": ".handlers.client.client",
    "LethelogError": ".domain.errors",
    "LethelogStore": ".handlers.facades.langgraph_store",
    "Mem0Memory": ".ops.mem0_doors",
    "Memory": ".ops.local",
}

__all__ = [
    "AsyncClient",
    "AsyncMem0Memory",
    "AsyncMemory",
    "Client",
    "LethelogError",
    "LethelogStore",
    "Mem0Memory",
    "Memory",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lethelog")
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name], __package__ or "lethelog"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
