"""Judges: who answers what the forgetting pass and the session closer ask (judges.md 4.3).

``stated`` is the local rule and the default, ``systemone`` a decision model behind HTTP, ``none`` answers
nothing and says why. Nothing falls back from one to another.
"""

from ...domain.closing import SessionJudge
from ...domain.errors import Misconfigured
from .systemone_settings import SystemOneSettings

JUDGES = ("stated", "systemone", "none")
DEFAULT_JUDGE = "stated"

__all__ = ["DEFAULT_JUDGE", "JUDGES", "SystemOneSettings", "open_judge"]


def open_judge(name: str, *, systemone: SystemOneSettings | None = None) -> SessionJudge:
    """The judge of that name, ready to be asked; close it when done.

    Raises `Misconfigured` for an unknown name, and for ``systemone`` without settings.
    """
    # Each is imported when it is chosen: the local rule needs no HTTP client, and no judge needs the others.
    if name == "stated":
        from .stated import StatedJudge

        return StatedJudge()
    if name == "systemone":
        if systemone is None:
            raise Misconfigured(
                "LETHELOG_JUDGE=systemone needs LETHELOG_JUDGE_URL and LETHELOG_JUDGE_MODEL, and "
                "LETHELOG_JUDGE_KEY where the server asks for a key.",
                setting="LETHELOG_JUDGE_URL",
            )
        from .systemone_judge import SystemOneJudge

        return SystemOneJudge(systemone)
    if name == "none":
        from .none import NoJudge

        return NoJudge()
    raise Misconfigured(
        f"LETHELOG_JUDGE: unknown judge {name[:40]!r}. Choose one of {', '.join(JUDGES)}.",
        setting="LETHELOG_JUDGE",
    )
