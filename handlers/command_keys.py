"""A client's own id of a command, as the log keeps it: digests under the tenant's key, never the text."""

from uuid import UUID

from ..domain.fields import CommandKey as KeyText
from ..domain.fields import Input, parse
from ..streams import sealing
from ..streams.log import CommandKey
from ..streams.vault import Vault


class _Keyed(Input):
    key: KeyText | None


async def command_key(vault: Vault, tenant: UUID, command: Input, key: str | None, verb: str = "") -> CommandKey:
    """The key of a command; a fresh one where the client gave none.

    Both the client's key and what the command says may be personal, so both are digested under a secret.
    ``verb`` tells commands apart that have the same fields. Raises `InvalidInput` for a key that is none.
    """
    key = checked_key(key)
    if key is None:
        return CommandKey.fresh()
    secret = await vault.purpose_key(tenant, "command")
    said = f"{verb}{type(command).__name__}{command.model_dump_json()}"
    return CommandKey(
        sealing.keyed_digest(secret, b"key", key.encode()), sealing.keyed_digest(secret, b"hash", said.encode())
    )


def checked_key(key: object) -> str | None:
    """The key that a client gave. Raises `InvalidInput` for one that is none."""
    return parse(_Keyed, {"key": key}).key
