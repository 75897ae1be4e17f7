"""Numbers as people read them."""


def count_text(value: float) -> str:
    """1234567 -> 1.23 M."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def bytes_text(value: float) -> str:
    """1234567 -> 1.23 MB."""
    if value == 0:
        return "0"
    return count_text(value) + ("B" if abs(value) >= 1e3 else " B")


def time_text(us: float) -> str:
    """1234 microseconds -> 1.23 ms."""
    if us == 0:
        return "0"
    for limit, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= limit:
            return f"{us / limit:.3g} {unit}"
    return f"{us:.3g} µs"


def share_text(share: float) -> str:
    """0.123 -> 12.3 %."""
    return f"{100 * share:.3g} %"
