"""How fast a long command gets on, as a column of its progress."""

from rich.progress import ProgressColumn, Task
from rich.text import Text


class SpeedColumn(ProgressColumn):
    """What is done a second, over the last half minute; nothing until that is known."""

    def render(self, task: Task) -> Text:
        """As Rich asks for it."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", "dim")
