"""Rows of the auction site: random, and the same for the same seed; every chunk can be made without those before it.

Values that rows of several tables share (an item's seller, its bids) are drawn anew by each, from the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trimtab.workload.rubis.sizes import CATEGORIES, REGIONS, Sizes
from trimtab.workload.webapp.words import cuts

__all__ = ["RATINGS", "Rows"]

MADE = np.datetime64("2026-01-01T00:00:00")
"""When the data is made, as far as it knows; the application's clock begins there (`Site.java`)."""

RATINGS = (-5, -3, 0, 3, 5)

_CHUNK = 1000
_DAY_S = 86_400
_RESERVED, _BOUGHT_NOW, _UNIQUE = 0.4, 0.1, 0.8
"""Shares of the items with a reserve price, with a price to buy it now, and of which there is one piece."""
_MOST_PIECES, _MOST_BIDS, _MOST_RAISE, _HIGHEST, _DAYS = 10, 20, 10, 5000, 7
_LONGEST_COMMENT = 2048


@dataclass(frozen=True, slots=True)
class _Items:
    """Draws of one chunk of items, a value for each; prices in whole units."""

    ids: np.ndarray
    is_old: bool
    initial: np.ndarray
    pieces: np.ndarray
    reserve: np.ndarray
    buy_now: np.ndarray
    seller: np.ndarray
    start: np.ndarray
    end: np.ndarray
    raises: np.ndarray
    bidders: np.ndarray
    n_bids: np.ndarray

    @property
    def raised(self) -> np.ndarray:
        """What the bids add to the initial price."""
        ends = np.cumsum(self.n_bids)
        total = np.concatenate(([0], np.cumsum(self.raises)))
        return np.asarray(total[ends] - total[ends - self.n_bids])


@dataclass(frozen=True)
class Rows:
    """Makes the rows of every table.

    Attributes:
        sizes: how many.
        longest_description: characters.
        bids_on_old: whether sold items have bids too.
        seed: of everything.
    """

    sizes: Sizes
    longest_description: int
    bids_on_old: bool
    seed: int

    def _random(self, *what: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *what))

    def categories(self) -> Iterator[bytes]:
        """id, name."""
        yield _lines(f"{number}|{name}" for number, name in enumerate(CATEGORIES, 1))

    def regions(self) -> Iterator[bytes]:
        """id, name."""
        yield _lines(f"{number}|{name}" for number, name in enumerate(REGIONS, 1))

    def users(self) -> Iterator[bytes]:
        """User N is `userN` with password `passwordN`."""
        when = _text_of(MADE - np.timedelta64(_DAY_S, "s"))
        for first in range(1, self.sizes.users + 1, _CHUNK):
            yield _lines(
                f"{n}|Great{n}|User{n}|user{n}|password{n}|user{n}@rubis.example|0|0|{when}|{1 + n % len(REGIONS)}"
                for n in range(first, min(first + _CHUNK, self.sizes.users + 1))
            )

    def old_items(self) -> Iterator[bytes]:
        """Whose sale is over."""
        return self._items(is_old=True)

    def items(self) -> Iterator[bytes]:
        """For sale."""
        return self._items(is_old=False)

    def bids(self) -> Iterator[bytes]:
        """Of old items first; each raises the price."""
        number = 0
        for chunk in self._chunks():
            yield from _bids_of(chunk, number)
            number += int(chunk.n_bids.sum())

    def comments(self) -> Iterator[bytes]:
        """One for each item, about its seller."""
        for number, chunk in enumerate(self._chunks()):
            random, n = self._random(3, number), len(chunk.ids)
            authors = random.integers(1, self.sizes.users, size=n, endpoint=True).tolist()
            ratings = random.choice(RATINGS, size=n).tolist()
            texts = cuts(random, random.integers(1, _LONGEST_COMMENT, size=n, endpoint=True), self.seed)
            dates = _texts_of(MADE - random.integers(0, 30 * _DAY_S, size=n).astype("m8[s]"))
            yield _lines(
                f"{item}|{author}|{seller}|{item}|{rating}|{date}|{text}"
                for item, author, seller, rating, date, text in zip(
                    chunk.ids.tolist(), authors, chunk.seller.tolist(), ratings, dates, texts, strict=True
                )
            )

    def no_rows(self) -> Iterator[bytes]:
        """Of a table that only runs fill."""
        return iter(())

    @property
    def n_bids(self) -> int:
        """Of all items."""
        return int(sum(chunk.n_bids.sum() for chunk in self._chunks()))

    def _chunks(self) -> Iterator[_Items]:
        for is_old in (True, False):
            yield from self._chunks_of(is_old)

    def _chunks_of(self, is_old: bool) -> Iterator[_Items]:
        n_all, before = (self.sizes.old_items, 0) if is_old else (self.sizes.items, self.sizes.old_items)
        for number, first in enumerate(range(0, n_all, _CHUNK)):
            ids = np.arange(first, min(first + _CHUNK, n_all)) + before + 1
            yield self._draw(ids, is_old, self._random(1 if is_old else 2, number))

    def _draw(self, ids: np.ndarray, is_old: bool, random: np.random.Generator) -> _Items:
        n, users = len(ids), self.sizes.users
        initial = random.integers(1, _HIGHEST, size=n, endpoint=True)
        pieces = np.where(random.random(n) < _UNIQUE, 1, random.integers(1, _MOST_PIECES, size=n, endpoint=True))
        reserve = np.where(random.random(n) < _RESERVED, initial + random.integers(0, 1000, size=n), 0)
        bought = initial + reserve + random.integers(0, 1000, size=n)
        buy_now = np.where(random.random(n) < _BOUGHT_NOW, bought, 0)
        seller = random.integers(1, users, size=n, endpoint=True)
        days = random.integers(1, _DAYS, size=n, endpoint=True)
        begun = MADE - random.integers(3600, _DAY_S, size=n).astype("m8[s]")
        # Those for sale end a day or more after the data is made, the others ended that long before.
        late = random.integers(1, 3600, size=n).astype("m8[s]")
        lasting = days.astype("m8[D]").astype("m8[s]")
        start, end = (MADE - lasting * 2 + late, MADE - lasting + late) if is_old else (begun, MADE + lasting + late)
        drawn = random.integers(0, _MOST_BIDS, size=n)
        n_bids = drawn if self.bids_on_old or not is_old else np.zeros(n, dtype=drawn.dtype)
        n_all = int(n_bids.sum())
        return _Items(
            ids, is_old, initial, pieces, reserve, buy_now, seller, start, end,
            raises=random.integers(1, _MOST_RAISE, size=n_all, endpoint=True),
            bidders=random.integers(1, users, size=n_all, endpoint=True), n_bids=n_bids,
        )  # fmt: skip

    def _items(self, *, is_old: bool) -> Iterator[bytes]:
        categories = self._categories(is_old)
        for number, chunk in enumerate(self._chunks_of(is_old)):
            random, n = self._random(4 if is_old else 5, number), len(chunk.ids)
            names = cuts(random, random.integers(5, 40, size=n), self.seed)
            texts = cuts(random, random.integers(1, self.longest_description, size=n, endpoint=True), self.seed)
            highest = np.where(chunk.n_bids > 0, chunk.initial + chunk.raised, 0)
            numbers = zip(
                chunk.initial.tolist(), chunk.pieces.tolist(), chunk.reserve.tolist(), chunk.buy_now.tolist(),
                chunk.n_bids.tolist(), highest.tolist(), strict=True,
            )  # fmt: skip
            others = zip(_texts_of(chunk.start), _texts_of(chunk.end), chunk.seller.tolist(), strict=True)
            rows = zip(chunk.ids.tolist(), names, texts, numbers, others, strict=True)
            kinds = categories[number * _CHUNK : number * _CHUNK + n].tolist()
            yield _lines(
                f"{i}|item {i} {name}|{text}|{a}|{b}|{c}|{d}|{e}|{f}|{start}|{end}|{seller}|{kind}"
                for (i, name, text, (a, b, c, d, e, f), (start, end, seller)), kind in zip(rows, kinds, strict=True)
            )

    def _categories(self, is_old: bool) -> np.ndarray:
        """Of each item: for sale exactly as many as the sizes say, of old ones in the same proportions."""
        random, each = self._random(6, is_old), np.arange(1, len(CATEGORIES) + 1)
        if not is_old:
            return random.permutation(np.repeat(each, self.sizes.by_category))
        shares = np.array(list(CATEGORIES.values()), dtype=float)
        return random.choice(each, size=self.sizes.old_items, p=shares / shares.sum())


def _bids_of(chunk: _Items, before: int) -> Iterator[bytes]:
    """The bids for a chunk's items; `before`: how many there are already."""
    owner = np.repeat(np.arange(len(chunk.ids)), chunk.n_bids)
    total = np.cumsum(chunk.raises)
    first = np.cumsum(chunk.n_bids) - chunk.n_bids
    earlier = np.concatenate(([0], total))[first]
    bid = chunk.initial[owner] + total - earlier[owner]
    turn = np.arange(len(owner)) - first[owner] + 1
    until = np.minimum(chunk.end, MADE)
    span = (until - chunk.start).astype(int)[owner]
    date = chunk.start[owner] + (span * turn // (chunk.n_bids[owner] + 1)).astype("m8[s]")
    rows = zip(
        range(before + 1, before + len(owner) + 1), chunk.bidders.tolist(), chunk.ids[owner].tolist(), bid.tolist(),
        _texts_of(date), strict=True,
    )  # fmt: skip
    yield _lines(f"{number}|{bidder}|{item}|1|{bid}|{bid + 2}|{date}" for number, bidder, item, bid, date in rows)


def _text_of(moment: np.datetime64) -> str:
    return str(moment).replace("T", " ")


def _texts_of(moments: np.ndarray) -> list[str]:
    return list(np.datetime_as_string(moments).tolist())


def _lines(rows: Iterator[str]) -> bytes:
    text = "\n".join(rows)
    return (text + "\n").encode() if text else b""
