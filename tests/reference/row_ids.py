"""Token ids to row ids: the four hashes, in Python's whole numbers, from the specification alone.

Every function takes one sequence and gives [positions][columns].
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy

MASK = (1 << 64) - 1
DEAD = -1


def primes_from(base: int) -> Iterator[int]:
    """Ascending primes of at least `base`."""
    number = max(base, 2)
    while True:
        if all(number % factor for factor in range(2, math.isqrt(number) + 1)):
            yield number
        number += 1


def signed(number: int) -> int:
    """The 64-bit two's complement."""
    number &= MASK
    return number - (1 << 64) if number >> 63 else number


@dataclass
class Columns:
    """One layer's constants: multipliers by look-back, sizes and offsets by column."""

    multipliers: list[int]
    sizes: list[list[int]]  # by order and head
    offsets: list[int] = field(init=False)

    def __post_init__(self) -> None:
        flat = [size for sizes in self.sizes for size in sizes]
        self.offsets = [sum(flat[:i]) for i in range(len(flat))]
        self.rows = sum(flat)

    def hash(self, context: Sequence[int]) -> list[int]:
        """Rows of a token; context is newest first."""
        mixed, rows = signed(context[0] * self.multipliers[0]), []
        for order, sizes in enumerate(self.sizes, 1):
            mixed ^= signed(context[order] * self.multipliers[order])
            rows += [mixed % size for size in sizes]
        return [row + offset for row, offset in zip(rows, self.offsets, strict=True)]


def qwen_columns(
    vocab: int, base: int, n: int, heads: int, seed: int, position: int
) -> Columns:
    """Specification A.3; position counts the model's layers with a memory."""
    golden = 0x9E3779B97F4A7C15

    def mix(value: int) -> int:
        value = (value + golden) & MASK
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        return value ^ (value >> 31)

    half = max(1, ((1 << 63) - 1) // max(vocab, 1) // 2)
    start = seed + 10007 * position
    multipliers = [2 * (mix((start + golden * (i + 1)) & MASK) % half) + 1 for i in range(n)]
    primes = primes_from(base)
    for _ in range(position * (n - 1) * heads):
        next(primes)
    return Columns(multipliers, [[next(primes) for _ in range(heads)] for _ in range(n - 1)])


def qwen_rows(columns: Columns, eos: int, tokens: Sequence[int]) -> list[list[int]]:
    """Specification A.4: an EOS before the token cuts, EOS fills."""
    rows = []
    for position, token in enumerate(tokens):
        context, cut = [token], False
        for back in range(1, len(columns.multipliers)):
            cut = cut or position < back
            seen = eos if cut else tokens[position - back]
            cut = cut or seen == eos
            context.append(seen)
        rows.append(columns.hash(context))
    return rows


def engram_columns(
    codes: int, bases: Sequence[int], heads: int, seed: int, layers: Sequence[int]
) -> list[Columns]:
    """Specification B: numpy's generator; primes of all layers and orders are distinct."""
    bound = max(1, ((1 << 63) - 1) // codes // 2)
    used: set[int] = set()
    result = []
    for layer in layers:
        generator = numpy.random.default_rng(seed + 10007 * layer)
        drawn = generator.integers(0, bound, len(bases) + 1, dtype=numpy.int64)
        sizes = []
        for base in bases:
            fresh = (prime for prime in primes_from(base) if prime not in used)
            sizes.append([next(fresh) for _ in range(heads)])
            used.update(sizes[-1])
        result.append(Columns([2 * int(r) + 1 for r in drawn], sizes))
    return result


def engram_rows(columns: Columns, pad_code: int, codes: Sequence[int]) -> list[list[int]]:
    """Specification B.2: a dead code, or the start, makes all before it pads."""
    rows = []
    for position in range(len(codes)):
        context, blocked = [], False
        for back in range(len(columns.multipliers)):
            blocked = blocked or position < back or codes[position - back] == DEAD
            context.append(pad_code if blocked else codes[position - back])
        rows.append(columns.hash(context))
    return rows


@dataclass
class LongcatGeometry:
    """Specification C.1; ignored is not None for LongCat-Next."""

    base: int  # V
    ratio: float
    n: int
    splits: int
    eos: int
    ignored: frozenset[int] | None = None

    def moduli(self) -> list[int]:
        count = self.splits * (self.n - 1)
        return [int(self.ratio * self.base + 2 * i + 1) for i in range(count)]

    def rows(self, tokens: Sequence[int]) -> list[list[int]]:
        """Specification C.3, row numbers within each table."""
        is_next = self.ignored is not None
        seen = [0 if is_next and token in (self.ignored or ()) else token for token in tokens]
        rows = []
        for position in range(len(seen)):
            ids = []
            for table, modulus in enumerate(self.moduli()):
                order, total, power = 2 + table // self.splits, seen[position], 1
                for back in range(1, order):
                    if is_next and seen[position] == 0:
                        break
                    if back > position or seen[position - back] == self.eos:
                        break
                    if is_next and seen[position - back] == 0:
                        break
                    power = power * self.base % modulus
                    total += seen[position - back] * power
                ids.append(total % modulus)
            rows.append(ids)
        return rows


def gemma_rows(
    rows: int, pad: int, placeholders: Sequence[int] | None, tokens: Sequence[int]
) -> list[int]:
    """Specification D.3; placeholders None: Gemma 3n, where ids beyond the table read row 0."""
    if placeholders is None:
        return [token if 0 <= token < rows else 0 for token in tokens]
    return [pad if token in placeholders else token for token in tokens]
