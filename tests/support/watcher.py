"""Notes how far work is, as a bar on a terminal is told."""

__all__ = ["Noted"]


class Noted:
    """The parts that have begun, with their units: what was told before, and what was done."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, int]] = []
        self.done: list[int] = []

    def begin(self, part: str, total: int) -> None:
        """Note the next part."""
        self.parts.append((part, total))
        self.done.append(0)

    def advance(self, done: int) -> None:
        """Add to what is done of the present part."""
        self.done[-1] += done

    @property
    def names(self) -> list[str]:
        """The parts, of which each was done as far as it was told, no less and no more."""
        assert [total for _, total in self.parts] == self.done
        return [part for part, _ in self.parts]
