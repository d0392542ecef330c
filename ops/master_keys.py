"""The keyring of a process: from a file, a variable, or a command, as the settings say."""

from collections.abc import Callable

from ..domain.errors import Misconfigured
from ..streams.master_keys import Keyring, make_key_file, parse_keys, read_from_command, read_key_file
from .settings import Settings


def keys_from_file(settings: Settings) -> bool:
    """Whether the master keys stand in a file, which Lethelog may make and replace itself."""
    return settings.master_key is None and settings.master_key_command is None


def load_keyring(settings: Settings) -> Keyring:
    """The keyring that is there. Raises `Misconfigured` where there is none, or more than one source."""
    given, command = settings.master_key, settings.master_key_command
    if given is not None and command is not None:
        raise Misconfigured("LETHELOG_MASTER_KEY and LETHELOG_MASTER_KEY_COMMAND are both set; keep one of them")
    if given is not None:
        return Keyring(lambda: parse_keys(given.get_secret_value(), "LETHELOG_MASTER_KEY"))
    if command is not None:
        return Keyring(lambda: read_from_command(command.get_secret_value()))
    return Keyring(lambda: read_key_file(settings.key_file))


def open_keyring(settings: Settings, is_sealed: Callable[[], bool]) -> Keyring:
    """The keyring; a key file is made for a database that holds nothing yet, never in place of a lost one.

    ``is_sealed`` tells whether the database holds keys already; it is asked only where the file is missing.
    """
    if keys_from_file(settings) and not settings.key_file.exists():
        if is_sealed():
            raise Misconfigured(
                f"the master key file {settings.key_file} is missing, and this database is sealed under it; "
                "put it back from your backup, or name it with LETHELOG_MASTER_KEY_FILE",
                setting="LETHELOG_MASTER_KEY_FILE",
            )
        make_key_file(settings.key_file)
    return load_keyring(settings)
