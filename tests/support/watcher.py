"""Records the progress of work, in place of a progress bar."""

__all__ = ["Noted"]


class Noted:
    """The started parts, each with its announced units and its completed units."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, int]] = []
        self.done: list[int] = []

    def begin(self, part: str, total: int) -> None:
        """Record the next part and its number of units."""
        self.parts.append((part, total))
        self.done.append(0)

    def advance(self, done: int) -> None:
        """Add ``done`` completed units to the present part."""
        self.done[-1] += done

    @property
    def names(self) -> list[str]:
        """The parts, after a check that each part completed exactly its announced units."""
        assert [total for _, total in self.parts] == self.done
        return [part for part, _ in self.parts]
