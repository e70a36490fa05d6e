"""How much code a person reads to understand one ask of the default: the parts that take part in it are counted."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import trimtab
from trimtab.search.auto import AutoSearcher

from .driving import bowl
from .problems import crash, grid, problem, trial

HOME = Path(trimtab.__file__).parent
ROOMS = ("search", "model")

MOST_FILES, MOST_CLASSES = 7, 12


def _of_rooms(module: str) -> bool:
    return module.split(".")[:1] == ["trimtab"] and module.split(".")[1:2][0] in ROOMS


def test_one_ask_takes_few_files_and_classes() -> None:
    """An ask by the model when some configs failed, no fit is due and nothing was expected beforehand; classes that such an ask
    calls or hands over, in the rooms search and model."""
    space = grid(4)
    searcher = AutoSearcher(problem(space, budget=60))
    searcher.tell(trial(space.default()))
    for number in range(1, 26):
        config = searcher.ask()[0]
        is_bad = int(config["a"]) > 80
        searcher.tell(crash(config, number) if is_bad else trial(config, number, bowl(config)))
    files, classes = set[str](), set[str]()

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(HOME)):
            path = Path(frame.f_code.co_filename).relative_to(HOME)
            if path.parts[0] in ROOMS:
                files.add(str(path))
                kinds = [kind for value in frame.f_locals.values() for kind in type(value).__mro__]
                classes.update(kind.__name__ for kind in kinds if _of_rooms(kind.__module__ + "."))

    turns = searcher.members
    while (
        turns[searcher._n_turns % len(turns)] is turns[0] or turns[(searcher._n_turns + 1) % len(turns)] is not turns[0]
    ):
        searcher.tell(trial(searcher.ask()[0], 99, 0.1))
    searcher.ask()  # by another member with the same model: what is due to be fitted is fitted now
    sys.setprofile(seen)
    try:
        searcher.ask()
    finally:
        sys.setprofile(None)
    assert len(files) <= MOST_FILES, sorted(files)
    assert len(classes) <= MOST_CLASSES, sorted(classes)
