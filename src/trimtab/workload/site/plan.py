"""A site as the load engine takes it: names become numbers, texts become what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from trimtab.errors import UsageError
from trimtab.workload.site.file import BACK, END, Request, SiteFile, State
from trimtab.workload.site.values import pieces, plain_values

__all__ = ["plain_site"]


def plain_site(
    site: SiteFile,
    mix: str,
    *,
    numbers: Mapping[str, int],
    think_scale: float = 1.0,
    is_literal: bool = False,
    reads_images: bool = True,
    counts_sessions: bool = False,
) -> dict[str, Any]:
    """The source of a `LoadPlan`.

    Args:
        numbers: in place of the file's own.
        think_scale: all think times are multiplied with it.
        is_literal: how transition tables are read whose rows do not add up to 1.
        reads_images: False: no images, whatever the file says.
        counts_sessions: in an open loop it is sessions that come by the schedule.

    Raises:
        UsageError: a name that is nowhere.
    """
    known = {value: number for number, value in enumerate(site.values)}
    states = {state.name: number for number, state in enumerate(site.states)}
    lasts = site.lasts
    return {
        "kind": "site",
        "states": [_state(site, state, known, reads_images=reads_images) for state in site.states],
        "transitions": _transitions(site.mix(mix), states),
        "literal": is_literal,
        "session": {
            "start": states[site.start],
            "steps_max": site.steps_max,
            "lasts": None if lasts is None else [lasts.mean_s, lasts.cap_s, states[lasts.at]],
        },
        "values": plain_values(tuple(site.values.values()), {**site.numbers, **numbers}),
        "think": [site.think.mean_s, site.think.cap_s] if site.think.is_exponential else None,
        "think_scale": think_scale,
        "always": _pairs(site.always, known, "[site] always"),
        "errors": list(site.error),
        "counts_sessions": counts_sessions,
    }


def _transitions(mix: Mapping[str, Mapping[str, float]], states: Mapping[str, int]) -> list[list[list[float]]]:
    numbers = {**states, BACK: len(states), END: len(states) + 1}
    return [[[numbers[to], weight] for to, weight in mix[state].items()] for state in states]


def _state(site: SiteFile, state: State, known: Mapping[str, int], *, reads_images: bool) -> dict[str, Any]:
    return {
        "label": state.name,
        "asks": [_ask(site, request, known, f"[states.{state.name}]") for request in state.requests],
        "contains": list(state.contains),
        "nothing": list(state.nothing),
        "picks": [known[name] for name in state.pick],
        "reads_images": reads_images and state.reads_images,
        "images": [quote(site.root + image, safe="/-._~%?&=+") for image in state.images] if reads_images else [],
        "wait_s": state.wait_s,
    }


def _ask(site: SiteFile, request: Request, known: Mapping[str, int], where: str) -> dict[str, Any]:
    states = [state.name for state in site.states]
    when: list[Any] | None = None
    if request.when:
        when = [known[request.when], True]
    elif request.unless:
        when = [known[request.unless], False]
    if request.when and request.unless:
        raise UsageError(f"{where} has when and unless", hint="use one of them")
    return {
        "share": request.share,
        "when": when,
        "after": [states.index(name) for name in request.after],
        "method": request.method,
        "path": pieces(site.root + request.path, known, where, is_link=True),
        "pairs": _pairs(request.pairs, known, where),
        "hidden": request.sends_hidden,
        "needs": [known[name] for name in request.needs],
    }


def _pairs(pairs: tuple[tuple[str, str], ...], known: Mapping[str, int], where: str) -> list[list[list[int | str]]]:
    return [[pieces(name, known, where), pieces(value, known, where)] for name, value in pairs]
