"""Rows of the bookshop: random, and the same for the same seed; every chunk can be made without those before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trimtab.workload.tpcw.names import BACKINGS, CARDS, COUNTRIES, SHIPPING, STATUS, SUBJECTS, spelled
from trimtab.workload.webapp.words import cuts

__all__ = ["Rows"]

_MADE = np.datetime64("2026-01-01")
"""When the data is made; the application's clock begins there (`Site.java`)."""
_CHUNK = 1000
_TAX = 0.0825
_CART_LINES = 3
"""At most, of a cart that was left behind."""


@dataclass(frozen=True)
class Rows:
    """Makes the rows of every table.

    Attributes:
        customers, items: how many; the other tables follow.
        seed: of everything.
    """

    customers: int
    items: int
    seed: int

    @property
    def addresses(self) -> int:
        """Two for a customer."""
        return 2 * self.customers

    @property
    def orders(self) -> int:
        """Nine for ten customers."""
        return 9 * self.customers // 10

    @property
    def authors(self) -> int:
        """One for four books."""
        return self.items // 4

    @property
    def n_lines(self) -> int:
        """Of all orders."""
        return sum(int(self._lines_of(part, n).sum()) for part, _, n in self._parts(self.orders))

    @property
    def carts(self) -> int:
        """One for two customers. Without any the server would plan every statement on carts for empty tables."""
        return self.customers // 2

    @property
    def n_cart_lines(self) -> int:
        """Of all carts."""
        return sum(int(self._lines_of_carts(part, n).sum()) for part, _, n in self._parts(self.carts))

    def _parts(self, n_all: int) -> Iterator[tuple[int, int, int]]:
        """Number, first id and size of each chunk."""
        for number, first in enumerate(range(1, n_all + 1, _CHUNK)):
            yield number, first, min(_CHUNK, n_all + 1 - first)

    def _random(self, *what: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *what))

    def _texts(self, random: np.random.Generator, n: int, low: int, high: int) -> list[str]:
        return cuts(random, random.integers(low, high, size=n, endpoint=True), self.seed)

    def _words(self, random: np.random.Generator, n: int, *lengths: tuple[int, int]) -> Iterator[tuple[str, ...]]:
        """Several texts for each, from a shortest to a longest length."""
        return zip(*(self._texts(random, n, low, high) for low, high in lengths), strict=True)

    def country_rows(self) -> Iterator[bytes]:
        """id, name, exchange rate, currency."""
        yield _joined(f"{number}|{name}|1.00|Money {number}" for number, name in enumerate(COUNTRIES, 1))

    def author_rows(self) -> Iterator[bytes]:
        """Last names begin with a number in syllables; ten books or so share one."""
        n_names = self.items // 10 + 1
        for number, first, n in self._parts(self.authors):
            random = self._random(1, number)
            rest, bio = self._texts(random, n, 0, 6), self._texts(random, n, 125, 500)
            born = _days(random, "1800-01-01", "1990-01-01", n)
            names = self._words(random, n, (3, 20), (1, 20))
            yield _joined(
                f"{i}|{fname}|{spelled(i % n_names, 7)}{end}|{mname}|{day}|{text}"
                for i, end, text, day, (fname, mname) in zip(
                    range(first, first + n), rest, bio, born, names, strict=True
                )
            )

    def item_rows(self) -> Iterator[bytes]:
        """Titles begin with a number in syllables; five books share one."""
        n_titles = self.items // 5 + 1
        for number, first, n in self._parts(self.items):
            random = self._random(2, number)
            subject, backing = random.integers(0, len(SUBJECTS), size=n), random.integers(0, len(BACKINGS), size=n)
            published = random.integers(-40 * 365, 30 * 365, size=n).astype("m8[D]") + np.datetime64("1970-01-01")
            available = published + random.integers(1, 31, size=n).astype("m8[D]")
            price = random.integers(100, 99_999, size=n, endpoint=True) / 100
            cost = price * (1 - random.integers(0, 51, size=n) / 100)
            related = self._related(random, n)
            author = random.integers(1, self.authors, size=n, endpoint=True)
            numbers = zip(price.tolist(), cost.tolist(), random.integers(10, 31, size=n).tolist(), strict=True)
            pictures = random.integers(0, 100, size=(n, 2)).tolist()
            words = self._words(random, n, (5, 40), (14, 60), (100, 500))
            kinds = zip((SUBJECTS[i] for i in subject), (BACKINGS[i] for i in backing), strict=True)
            days = zip(np.datetime_as_string(published), np.datetime_as_string(available), strict=True)
            pages = random.integers(20, 9999, size=n, endpoint=True).tolist()
            ids = zip(range(first, first + n), author.tolist(), pages, strict=True)
            rows = zip(ids, words, kinds, days, numbers, pictures, related, strict=True)
            yield _joined(
                f"{i}|{spelled(i % n_titles, 7)} {title}|{by}|{out}|{house}|{kind}|{text}|{r[0]}|{r[1]}|{r[2]}|{r[3]}|{r[4]}|"
                f"thumbnail-{thumb}.png|image-{image}.png|{srp:.2f}|{paid:.2f}|{ready}|{stock}|{i:013d}|{pages_}|{back}|10x20x3"
                for (i, by, pages_), (title, house, text), (kind, back), (out, ready), (srp, paid, stock), (
                    thumb,
                    image,
                ), r in rows
            )

    def _related(self, random: np.random.Generator, n: int) -> list[list[int]]:
        """Five different items for each."""
        first = random.integers(0, self.items, size=(n, 1))
        steps = np.cumsum(random.integers(1, self.items // 5, size=(n, 5)), axis=1)
        return list(((first + steps) % self.items + 1).tolist())

    def customer_rows(self) -> Iterator[bytes]:
        """User name and password are the id in syllables."""
        for number, first, n in self._parts(self.customers):
            random = self._random(3, number)
            names = self._words(random, n, (8, 15), (8, 15), (100, 500))
            address = random.integers(1, self.addresses, size=n, endpoint=True).tolist()
            since = _MADE - random.integers(61, 730, size=n).astype("m8[D]")
            last = np.datetime_as_string(since + random.integers(0, 60, size=n).astype("m8[D]"))
            money = random.integers(0, (51, 100_000), size=(n, 2)) / 100
            born = _days(random, "1880-01-01", "2000-01-01", n)
            ids = range(first, first + n)
            rows = zip(ids, names, address, np.datetime_as_string(since), last, money.tolist(), born, strict=True)
            yield _joined(
                f"{i}|{(name := spelled(i))}|{name.lower()}|{fname}|{lname}|{home}|{5550000000 + i}|{name}@tpcw.example|{day}|"
                f"{seen}|2026-01-01 00:00:00|2026-01-01 02:00:00|{discount:.2f}|0.00|{paid:.2f}|{birth}|{text}"
                for i, (fname, lname, text), home, day, seen, (discount, paid), birth in rows
            )

    def address_rows(self) -> Iterator[bytes]:
        """Anywhere."""
        for number, first, n in self._parts(self.addresses):
            random = self._random(4, number)
            streets, towns = self._words(random, n, (15, 40), (15, 40)), self._words(random, n, (4, 30), (2, 20))
            codes = zip(random.integers(10_000, 99_999, size=n).tolist(), self._countries(random, n), strict=True)
            yield _joined(
                f"{i}|{one}|{two}|{city}|{state}|{code}|{country}"
                for i, (one, two), (city, state), (code, country) in zip(
                    range(first, first + n), streets, towns, codes, strict=True
                )
            )

    def _countries(self, random: np.random.Generator, n: int) -> list[int]:
        return list(random.integers(1, len(COUNTRIES), size=n, endpoint=True).tolist())

    def order_rows(self) -> Iterator[bytes]:
        """In the order of their dates."""
        for number, first, n in self._parts(self.orders):
            random, lines = self._random(5, number), self._lines_of(number, n)
            buyer = random.integers(1, self.customers, size=n, endpoint=True).tolist()
            age = 60 - 60 * np.arange(first, first + n) // max(1, self.orders)
            date = _MADE - age.astype("m8[D]")
            shipped = date + random.integers(0, 8, size=n).astype("m8[D]")
            total = random.integers(1000, 99_999, size=n) / 100
            homes = random.integers(1, self.addresses, size=(n, 2), endpoint=True).tolist()
            kinds = zip(random.integers(0, 6, size=n).tolist(), random.integers(0, 4, size=n).tolist(), strict=True)
            days = zip(np.datetime_as_string(date), np.datetime_as_string(shipped), strict=True)
            rows = zip(range(first, first + n), buyer, days, total.tolist(), lines.tolist(), kinds, homes, strict=True)
            yield _joined(
                f"{i}|{who}|{day} 00:00:00|{sum_:.2f}|{sum_ * _TAX:.2f}|{sum_ * (1 + _TAX) + 3 + n_lines:.2f}|{SHIPPING[ship]}|"
                f"{sent} 00:00:00|{bill}|{to}|{STATUS[state]}"
                for i, who, (day, sent), sum_, n_lines, (ship, state), (bill, to) in rows
            )

    def _lines_of(self, part: int, n: int) -> np.ndarray:
        """Of each order in a chunk."""
        return self._random(6, part).integers(1, 5, size=n, endpoint=True)

    def line_rows(self) -> Iterator[bytes]:
        """One to five of an order."""
        for number, first, n in self._parts(self.orders):
            random, lines = self._random(7, number), self._lines_of(number, n)
            owner = np.repeat(np.arange(first, first + n), lines)
            turn = np.arange(len(owner)) - np.repeat(np.cumsum(lines) - lines, lines) + 1
            item = random.integers(1, self.items, size=len(owner), endpoint=True).tolist()
            amount = random.integers(1, 300, size=len(owner), endpoint=True).tolist()
            discount = (random.integers(0, 31, size=len(owner)) / 100).tolist()
            words = self._texts(random, len(owner), 20, 100)
            rows = zip(turn.tolist(), owner.tolist(), item, amount, discount, words, strict=True)
            yield _joined(f"{k}|{order}|{i}|{n_}|{off:.2f}|{text}" for k, order, i, n_, off, text in rows)

    def payment_rows(self) -> Iterator[bytes]:
        """One for an order."""
        for number, first, n in self._parts(self.orders):
            random = self._random(8, number)
            card = random.integers(0, len(CARDS), size=n).tolist()
            paid, names = (random.integers(1000, 99_999, size=n) / 100).tolist(), self._texts(random, n, 14, 30)
            code = random.integers(10**15, 10**16, size=n).tolist()
            rows = zip(range(first, first + n), card, code, names, paid, self._countries(random, n), strict=True)
            yield _joined(
                f"{i}|{CARDS[kind]}|{digits}|{name}|2030-12-31|authorised|{sum_:.2f}|2025-12-31|{country}"
                for i, kind, digits, name, sum_, country in rows
            )

    def cart_rows(self) -> Iterator[bytes]:
        """Those that visitors of the last days have left behind."""
        for number, first, n in self._parts(self.carts):
            when = _days(self._random(9, number), "2025-12-01", "2026-01-01", n)
            yield _joined(f"{i}|{day} 00:00:00" for i, day in zip(range(first, first + n), when, strict=True))

    def _lines_of_carts(self, part: int, n: int) -> np.ndarray:
        """Of each cart in a chunk."""
        return self._random(10, part).integers(1, _CART_LINES, size=n, endpoint=True)

    def cart_line_rows(self) -> Iterator[bytes]:
        """One to three of a cart, of books that differ."""
        step = self.items // _CART_LINES
        for number, first, n in self._parts(self.carts):
            book = self._random(11, number).integers(1, step, size=n, endpoint=True).tolist()
            lines = zip(range(first, first + n), book, self._lines_of_carts(number, n).tolist(), strict=True)
            yield _joined(f"{cart}|{i + turn * step}|1" for cart, i, n_lines in lines for turn in range(n_lines))


def _days(random: np.random.Generator, low: str, high: str, n: int) -> list[str]:
    start = np.datetime64(low)
    span = int((np.datetime64(high) - start).astype(int))
    return list(np.datetime_as_string(start + random.integers(0, span, size=n).astype("m8[D]")).tolist())


def _joined(rows: Iterator[str]) -> bytes:
    return ("\n".join(rows) + "\n").encode()
