"""ShownValues: values that files give which are none of ours, and what depends on them.

Which module serves the requests of an httpd is decided by a file that loads it; the program shows it by other words
(`shown_by`). Other knobs count under some of these values only, or have another default there (`under`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from trimtab.space import Constraint, Knob, KnobKind, Value
from trimtab.space.expression import names_in, parse
from trimtab.systems.catalog import Catalog, CatalogKnob
from trimtab.systems.own_words import OwnWords

__all__ = ["ShownValues"]


class ShownValues:
    """See the module.

    Args:
        catalog: with the knobs.
        says: asks the program.
    """

    def __init__(self, catalog: Catalog, says: OwnWords) -> None:
        self._catalog = catalog
        self._says = says
        self._shown = {name: knob.shown_by for name, knob in catalog.knob.items() if knob.shown_by}
        self._texts: dict[str, str | None] = dict.fromkeys(self._shown)
        self._found = {name: catalog.knob[name].default for name in self._shown}

    def look(self, named: Callable[[str], str | None], found: Mapping[str, Value]) -> None:
        """Looks again.

        Args:
            named: what the file of a knob says of it; None where it does not name it.
            found: the values of all knobs as they were when we came, if that is known.

        Raises:
            TargetError: the program does not tell what it has.
        """
        for name in self._shown:
            text = named(name)
            self._texts[name] = text if text is not None else self._says.shown(name)
            self._found[name] = found.get(name, self._texts[name] or self._catalog.knob[name].default)

    @property
    def key(self) -> tuple[object, ...]:
        """What `entry` depends on."""
        return tuple(self._found.values())

    def text(self, name: str) -> str | None:
        """The value of a knob, where its file or the program shows it."""
        return self._texts.get(name)

    def entry(self, name: str) -> CatalogKnob:
        """What the catalogue says of a knob, as far as its values as found matter."""
        entry = self._catalog.knob[name]
        return next((entry.where(each) for each in entry.under if self._held(each)), entry)

    def _held(self, condition: str) -> bool:
        names = _spoken_of(condition) & self._found.keys()
        knobs = {each: _choice(each, self._catalog.knob[each]) for each in names}
        return Constraint(condition, name=condition).is_met({each: self._found[each] for each in names}, knobs)

    def why_not(self, name: str) -> str:
        """Why a knob is left alone because of a value that nobody knows; "" when it is not."""
        entry = self._catalog.knob[name]
        texts = (*filter(None, (entry.condition,)), *entry.under)
        spoken_of = {name}.union(*map(_spoken_of, texts))
        unknown = next((each for each, text in self._texts.items() if text is None and each in spoken_of), "")
        if not unknown:
            return ""
        return f"it depends on {unknown}, and the program shows none of: {', '.join(self._shown[unknown])}"


@lru_cache(maxsize=256)
def _spoken_of(text: str) -> frozenset[str]:
    return frozenset(each.name for each in names_in(parse(text)))


def _choice(name: str, entry: CatalogKnob) -> Knob:
    return Knob(name=name, kind=KnobKind.CHOICE, choices=entry.choices, default=entry.default)
