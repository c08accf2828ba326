"""Amounts of resources as Kubernetes writes them: the same number in one of its many notations.

An amount is a whole number of base units: millicores for ``cpu``, bytes for memory and storage, else a count.
"""

from __future__ import annotations

from bench.fit.draw import Draw

Amounts = dict[str, int]

GIB = 1024**3
MIB = 1024**2
BYTES = ("memory", "ephemeral-storage")
_SUFFIXES = {"Ki": 1024, "Mi": MIB, "Gi": GIB, "k": 1000, "M": 1000**2, "G": 1000**3, "": 1}


def written(draw: Draw, amounts: Amounts, *, rounded: bool = False) -> dict[str, str]:
    """Return the amounts as quantities, rarely as ones with a fraction that Kubernetes rounds up.

    :param rounded: without such: what has to be at least as much as something else.
    """
    return {
        name: _fraction(draw, name, amount=amount)
        if amount and name in ("cpu", *BYTES) and not rounded and draw.chance(4)
        else _exact(draw, name, amount=amount)
        for name, amount in amounts.items()
    }


def _fraction(draw: Draw, name: str, *, amount: int) -> str:
    return f"{1000 * amount - draw.number(0, 999)}{'u' if name == 'cpu' else 'm'}"


def _exact(draw: Draw, name: str, *, amount: int) -> str:
    if name == "cpu":
        return _cpu(draw, amount)
    if name in BYTES:
        exact = [f"{amount // unit}{suffix}" for suffix, unit in _SUFFIXES.items() if amount % unit == 0]
        exact.append(f"{amount}000m")
        if amount % (GIB // 2) == 0:
            exact.append(f"{amount / GIB:.1f}Gi")
        return draw.one(exact)
    return str(amount)


def _cpu(draw: Draw, millis: int) -> str:
    exact = [f"{millis}m", f"{millis}m", f"{millis / 1000:.3f}", f"{millis}e-3"]
    if millis % 1000 == 0:
        exact += [str(millis // 1000), f"{millis // 1000}.0"]
    return draw.one(exact)


def plus(one: Amounts, other: Amounts) -> Amounts:
    """Return the sum."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def minus(one: Amounts, other: Amounts) -> Amounts:
    """Return the difference, at least zero."""
    return {name: max(0, amount - other.get(name, 0)) for name, amount in one.items()}


def part(draw: Draw, amounts: Amounts) -> Amounts:
    """Return at most as much of each."""
    return {name: draw.cut(amount, parts=2)[0] for name, amount in amounts.items()}


def split(draw: Draw, amounts: Amounts, *, parts: int) -> list[Amounts]:
    """Return amounts whose sum is the one given."""
    shares = {name: draw.cut(amount, parts=parts) for name, amount in amounts.items()}
    return [{name: share[number] for name, share in shares.items()} for number in range(parts)]
