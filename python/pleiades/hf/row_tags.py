"""Which of our sequences each row of a transformers cache stands for.

A cache of transformers is reordered (beams), cropped, copied and reset by operations on its
tensors. Ours cannot be: they are timelines of the library. So every row of the cache carries a tag,
an integer in one of the cache's own tensors, which says which timeline the row stands on and at
which position. The tags go wherever transformers moves the rows, and the next forward reads them.
"""

from collections.abc import Sequence as ListLike
from dataclasses import dataclass

POSITION_BITS = 40


@dataclass(frozen=True, order=True, slots=True)
class RowTag:
    """Row `name`d timeline at `position`."""

    name: int
    position: int

    @staticmethod
    def decode(value: int) -> "RowTag":
        """The tag that an element of the cache's tensor stands for."""
        return RowTag(value >> POSITION_BITS, value & ((1 << POSITION_BITS) - 1))

    def encode(self) -> int:
        """As an int64 element; 0 stands for no timeline."""
        return self.name << POSITION_BITS | self.position


def names_of(values: ListLike[int]) -> set[int]:
    """The timelines that these elements stand on."""
    return {value >> POSITION_BITS for value in values if value}
