"""The substitution parameters of the 22 queries: drawn from a seed, and those of the published answers.

Ranges are those of the TPC-H specification, clauses 2.4.1.3 to 2.4.22.3 (dates uniform over whole months or days).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta

import numpy as np

__all__ = [
    "COLORS",
    "CONTAINERS",
    "NATIONS",
    "QUERIES",
    "REGIONS",
    "SEGMENTS",
    "SHIP_MODES",
    "TYPES",
    "Parameters",
    "draw",
    "validation",
]

Parameters = Mapping[str, str]

QUERIES = tuple(range(1, 23))

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS: Mapping[str, str] = {
    "ALGERIA": "AFRICA",
    "ARGENTINA": "AMERICA",
    "BRAZIL": "AMERICA",
    "CANADA": "AMERICA",
    "EGYPT": "MIDDLE EAST",
    "ETHIOPIA": "AFRICA",
    "FRANCE": "EUROPE",
    "GERMANY": "EUROPE",
    "INDIA": "ASIA",
    "INDONESIA": "ASIA",
    "IRAN": "MIDDLE EAST",
    "IRAQ": "MIDDLE EAST",
    "JAPAN": "ASIA",
    "JORDAN": "MIDDLE EAST",
    "KENYA": "AFRICA",
    "MOROCCO": "AFRICA",
    "MOZAMBIQUE": "AFRICA",
    "PERU": "AMERICA",
    "CHINA": "ASIA",
    "ROMANIA": "EUROPE",
    "SAUDI ARABIA": "MIDDLE EAST",
    "VIETNAM": "ASIA",
    "RUSSIA": "EUROPE",
    "UNITED KINGDOM": "EUROPE",
    "UNITED STATES": "AMERICA",
}
"""Nation -> its region, in the order of the nation keys."""

SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
SHIP_MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
_COLORS = """
    almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse
    chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest frosted
    gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen
    magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach peru
    pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring
    steel tan thistle tomato turquoise violet wheat white yellow
"""
COLORS = tuple(_COLORS.split())
TYPES = tuple(
    (first, second, third)
    for first in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for second in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for third in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
)
CONTAINERS = tuple(
    f"{size} {form}"
    for size in ("SM", "LG", "MED", "JUMBO", "WRAP")
    for form in ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
)
_COMMENT_WORDS = (("special", "pending", "unusual", "express"), ("packages", "requests", "accounts", "deposits"))


def _one(rng: np.random.Generator, values: tuple[str, ...]) -> str:
    return values[int(rng.integers(len(values)))]


def _several(rng: np.random.Generator, values: tuple[str, ...], n: int) -> list[str]:
    return [values[int(i)] for i in rng.choice(len(values), size=n, replace=False)]


def _number(rng: np.random.Generator, low: int, high: int) -> str:
    """A whole number in [low, high], both ends included."""
    return str(int(rng.integers(low, high + 1)))


def _month(rng: np.random.Generator, first: tuple[int, int], last: tuple[int, int]) -> str:
    """The first day of a month between (year, month) and (year, month), both included."""
    low = first[0] * 12 + first[1] - 1
    high = last[0] * 12 + last[1] - 1
    year, month = divmod(int(rng.integers(low, high + 1)), 12)
    return date(year, month + 1, 1).isoformat()


def _year(rng: np.random.Generator) -> str:
    return date(int(rng.integers(1993, 1998)), 1, 1).isoformat()


def _brand(rng: np.random.Generator) -> str:
    return f"Brand#{_number(rng, 1, 5)}{_number(rng, 1, 5)}"


def _fraction(scale: float) -> str:
    return f"{0.0001 / scale:.10f}"


def _q8(rng: np.random.Generator, scale: float) -> Parameters:
    nation = _one(rng, tuple(NATIONS))
    return {"nation": nation, "region": NATIONS[nation], "type": " ".join(TYPES[int(rng.integers(len(TYPES)))])}


def _q7(rng: np.random.Generator, scale: float) -> Parameters:
    first, second = _several(rng, tuple(NATIONS), 2)
    return {"nation1": first, "nation2": second}


def _q12(rng: np.random.Generator, scale: float) -> Parameters:
    first, second = _several(rng, SHIP_MODES, 2)
    return {"shipmode1": first, "shipmode2": second, "date": _year(rng)}


def _q16(rng: np.random.Generator, scale: float) -> Parameters:
    sizes = _several(rng, tuple(str(size) for size in range(1, 51)), 8)
    kind = TYPES[int(rng.integers(len(TYPES)))]
    return {"brand": _brand(rng), "type": f"{kind[0]} {kind[1]}", "sizes": ", ".join(sizes)}


def _q19(rng: np.random.Generator, scale: float) -> Parameters:
    quantities = {f"quantity{i}": _number(rng, max(1, 10 * (i - 1)), 10 * i) for i in (1, 2, 3)}
    return quantities | {f"brand{i}": _brand(rng) for i in (1, 2, 3)}


def _codes(codes: list[str]) -> str:
    return ", ".join(f"'{code}'" for code in codes)


_DRAW: Mapping[int, Callable[[np.random.Generator, float], Parameters]] = {
    1: lambda rng, scale: {"delta": _number(rng, 60, 120)},
    2: lambda rng, scale: {
        "size": _number(rng, 1, 50),
        "type": TYPES[int(rng.integers(len(TYPES)))][2],
        "region": _one(rng, REGIONS),
    },
    3: lambda rng, scale: {
        "segment": _one(rng, SEGMENTS),
        "date": (date(1995, 3, 1) + timedelta(days=int(rng.integers(31)))).isoformat(),
    },
    4: lambda rng, scale: {"date": _month(rng, (1993, 1), (1997, 10))},
    5: lambda rng, scale: {"region": _one(rng, REGIONS), "date": _year(rng)},
    6: lambda rng, scale: {
        "date": _year(rng),
        "discount": f"0.0{_number(rng, 2, 9)}",
        "quantity": _number(rng, 24, 25),
    },
    7: _q7,
    8: _q8,
    9: lambda rng, scale: {"color": _one(rng, COLORS)},
    10: lambda rng, scale: {"date": _month(rng, (1993, 2), (1995, 1))},
    11: lambda rng, scale: {"nation": _one(rng, tuple(NATIONS)), "fraction": _fraction(scale)},
    12: _q12,
    13: lambda rng, scale: {"word1": _one(rng, _COMMENT_WORDS[0]), "word2": _one(rng, _COMMENT_WORDS[1])},
    14: lambda rng, scale: {"date": _month(rng, (1993, 1), (1997, 12))},
    15: lambda rng, scale: {"date": _month(rng, (1993, 1), (1997, 10))},
    16: _q16,
    17: lambda rng, scale: {"brand": _brand(rng), "container": _one(rng, CONTAINERS)},
    18: lambda rng, scale: {"quantity": _number(rng, 312, 315)},
    19: _q19,
    20: lambda rng, scale: {"color": _one(rng, COLORS), "date": _year(rng), "nation": _one(rng, tuple(NATIONS))},
    21: lambda rng, scale: {"nation": _one(rng, tuple(NATIONS))},
    22: lambda rng, scale: {"codes": _codes(_several(rng, tuple(str(code) for code in range(10, 35)), 7))},
}

_VALIDATION: Mapping[int, Parameters] = {
    1: {"delta": "90"},
    2: {"size": "15", "type": "BRASS", "region": "EUROPE"},
    3: {"segment": "BUILDING", "date": "1995-03-15"},
    4: {"date": "1993-07-01"},
    5: {"region": "ASIA", "date": "1994-01-01"},
    6: {"date": "1994-01-01", "discount": "0.06", "quantity": "24"},
    7: {"nation1": "FRANCE", "nation2": "GERMANY"},
    8: {"nation": "BRAZIL", "region": "AMERICA", "type": "ECONOMY ANODIZED STEEL"},
    9: {"color": "green"},
    10: {"date": "1993-10-01"},
    11: {"nation": "GERMANY", "fraction": "0.0001000000"},
    12: {"shipmode1": "MAIL", "shipmode2": "SHIP", "date": "1994-01-01"},
    13: {"word1": "special", "word2": "requests"},
    14: {"date": "1995-09-01"},
    15: {"date": "1996-01-01"},
    16: {"brand": "Brand#45", "type": "MEDIUM POLISHED", "sizes": "49, 14, 23, 45, 19, 3, 36, 9"},
    17: {"brand": "Brand#23", "container": "MED BOX"},
    18: {"quantity": "300"},
    19: {
        "brand1": "Brand#12",
        "brand2": "Brand#23",
        "brand3": "Brand#34",
        "quantity1": "1",
        "quantity2": "10",
        "quantity3": "20",
    },
    20: {"color": "forest", "date": "1994-01-01", "nation": "CANADA"},
    21: {"nation": "SAUDI ARABIA"},
    22: {"codes": _codes(["13", "31", "23", "29", "30", "18", "17"])},
}


def draw(query: int, rng: np.random.Generator, scale: float) -> Parameters:
    """One set of parameters for `query` (1 to 22), as the text that goes into its template."""
    return _DRAW[query](rng, scale)


def validation(query: int) -> Parameters:
    """The parameters of the published answer of `query` at scale 1."""
    return _VALIDATION[query]
