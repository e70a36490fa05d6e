"""What administrators do while Trimtab works or is killed: nobody else's change is ever lost; see `meanwhile`.

The quick form plays a corpus of short sequences, the long form random ones by Hypothesis: TRIMTAB_WAYBACK_SEED (a number)
makes them again, TRIMTAB_WAYBACK_N says how many (default 210, over all ways).
"""

from __future__ import annotations

import os
import random
import secrets
from collections import Counter
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.needs import require
from tests.wayback.actor import Actor, Zygote
from tests.wayback.meanwhile import World
from tests.wayback.ways import Templates, made

pytestmark = [pytest.mark.service, pytest.mark.slow]

SEED = int(os.environ.get("TRIMTAB_WAYBACK_SEED") or secrets.randbits(32))
N_SEQUENCES = int(os.environ.get("TRIMTAB_WAYBACK_N") or 210)
WAYS = (("postgresql", "files"), ("postgresql", "connection"), ("mariadb", "files"))
N_PARTS = 4
"""Of each way's sequences: each part is a test of its own, so that they can run beside each other."""

Step = tuple[str, dict[str, Any]]

CORPUS: list[tuple[str, str, list[Step]]] = [
    # Somebody sets something else, and one of our own settings, after apply; rollback takes back only what is still ours.
    ("postgresql", "files", [
        ("apply", {}), ("somebody_sets", {"name": "maintenance_work_mem", "which": 0}),
        ("somebody_sets", {"name": "work_mem", "which": 0}),
        ("somebody_edits", {"name": "log_min_duration_statement", "which": 0}), ("rollback", {}),
    ]),
    # The power fails in a trial; somebody changes settings before Trimtab runs again.
    ("postgresql", "files", [
        ("trial", {"kill": 60, "power_cut": True}), ("power_cut", {}), ("somebody_sets", {"name": "work_mem", "which": 1}),
        ("somebody_sets", {"name": "shared_buffers", "which": 0}), ("recover", {}), ("recover", {}),
    ]),
    # Two studies are applied; the first cannot be taken back under the second.
    ("postgresql", "connection", [
        ("apply", {"study": 0}), ("apply", {"study": 1}), ("rollback", {"study": 0}), ("rollback", {"study": 1}),
        ("somebody_resets", {"name": "work_mem"}), ("rollback", {"study": 0}),
    ]),
    # The same by files, where settings that need a restart are taken back too.
    ("postgresql", "files", [
        ("apply", {"study": 0}), ("apply", {"study": 1}), ("rollback", {"study": 0}), ("rollback", {"study": 1}),
        ("rollback", {"study": 0}), ("rollback", {"study": 0}),
    ]),
    # Nobody can log in when the dead tuner's change is to be taken back: no restart for nothing, again and again.
    ("postgresql", "files", [
        ("trial", {"kill": 50, "power_cut": True}), ("wrong_password", {}), ("recover", {}), ("recover", {}), ("apply", {}),
        ("right_password", {}), ("recover", {}),
    ]),
    ("postgresql", "connection", [
        ("wrong_password", {}), ("trial", {"config": 1}), ("right_password", {}), ("trial", {"config": 1, "kill": 70}),
        ("somebody_sets", {"name": "random_page_cost", "which": 0}), ("recover", {}),
    ]),
    ("mariadb", "files", [
        ("apply", {}), ("somebody_sets", {"name": "sort_buffer_size", "which": 0}), ("somebody_edits_ours", {"which": 0}),
        ("rollback", {}),
    ]),
    ("mariadb", "files", [
        ("trial", {"kill": 60, "power_cut": True}), ("power_cut", {}), ("somebody_sets", {"name": "max_error_count", "which": 0}),
        ("recover", {}), ("apply", {"study": 1, "kill": 50}), ("somebody_restarts", {}), ("recover", {}),
    ]),
    ("mariadb", "files", [
        ("apply", {"study": 1}), ("somebody_edits", {"name": "thread_stack", "which": 0}), ("rollback", {"study": 1, "kill": 40}),
        ("wrong_password", {}), ("recover", {}), ("right_password", {}), ("recover", {}),
    ]),
]  # fmt: skip
ONLY_LONG = (1, 3, 4, 5, 7, 8)
"""The quick form has one of each way to reach a server; most steps of the others are in it, too."""


@pytest.mark.parametrize(
    ("product", "reach", "steps"),
    [
        pytest.param(*case, id=f"{case[0]}-{case[1]}-{i}", marks=pytest.mark.full if i in ONLY_LONG else ())
        for i, case in enumerate(CORPUS)
    ],
)
def test_short_sequences(product: str, reach: str, steps: list[Step], templates: Templates, zygote: Zygote) -> None:
    if product == "mariadb":
        require("mariadb")
    with made(product, reach, templates) as way:
        world = World(way, Actor(way, zygote))
        for name, arguments in steps:
            getattr(world, name)(**arguments)
        world.end()


KILLS = st.none() | st.integers(1, 110)
CUTS = st.booleans()
NAMES, WHICH = st.integers(0, 4), st.integers(0, 1)
ARGUMENTS = {
    "somebody_sets": ("name", "which"),
    "somebody_resets": ("name",),
    "somebody_edits": ("name", "which", "takes_effect"),
    "somebody_edits_ours": ("which",),
}
ACTS = (*ARGUMENTS, "somebody_restarts", "power_cut")


class Meanwhile(RuleBasedStateMachine):
    """One sequence on a fresh server; `product`, `reach`, `templates`, `zygote` and `total` come with a subclass."""

    product: ClassVar[str]
    reach: ClassVar[str]
    templates: ClassVar[Templates]
    zygote: ClassVar[Zygote]
    total: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.has_failed = False

    @initialize(is_applied=CUTS)
    def begin(self, is_applied: bool) -> None:
        way = self.stack.enter_context(made(self.product, self.reach, self.templates))
        self.world = World(way, Actor(way, self.zygote))
        if is_applied:
            self.do("apply")

    def do(self, step: str, **arguments: Any) -> None:
        self.has_failed = True  # until it is known otherwise
        getattr(self.world, step)(**arguments)
        self.has_failed = False

    def name(self, index: int) -> str:
        return list(self.world.ground.theirs)[index]

    @rule(config=st.integers(0, 2), kill=KILLS, power_cut=CUTS)
    def trial(self, config: int, kill: int | None, power_cut: bool) -> None:
        self.do("trial", config=config, kill=kill, power_cut=power_cut)

    @rule(study=WHICH, kill=KILLS, power_cut=CUTS)
    def apply(self, study: int, kill: int | None, power_cut: bool) -> None:
        self.do("apply", study=study, kill=kill, power_cut=power_cut)

    @rule(study=WHICH, kill=KILLS, power_cut=CUTS)
    def rollback(self, study: int, kill: int | None, power_cut: bool) -> None:
        self.do("rollback", study=study, kill=kill, power_cut=power_cut)

    @rule(kill=KILLS, power_cut=CUTS)
    def recover(self, kill: int | None, power_cut: bool) -> None:
        self.do("recover", kill=kill, power_cut=power_cut)

    @rule(act=st.sampled_from(ACTS), name=NAMES, which=WHICH, takes_effect=CUTS)
    def somebody(self, act: str, name: int, which: int, takes_effect: bool) -> None:
        chosen: dict[str, Any] = {"name": self.name(name), "which": which, "takes_effect": takes_effect}
        self.do(act, **{key: chosen[key] for key in ARGUMENTS.get(act, ())})

    @rule(is_right=CUTS)
    def password(self, is_right: bool) -> None:
        self.do("right_password" if is_right else "wrong_password")

    def teardown(self) -> None:
        try:
            if not self.has_failed and hasattr(self, "world"):
                self.world.end()
                self.total["sequences"] += 1
                self.total.update(self.world.seen)
        finally:
            self.stack.close()


@pytest.mark.full
@pytest.mark.parametrize("part", range(N_PARTS))
@pytest.mark.parametrize(("product", "reach"), WAYS)
def test_random_sequences(product: str, reach: str, part: int, templates: Templates, zygote: Zygote) -> None:
    if product == "mariadb":
        require("mariadb")
    total: Counter[str] = Counter()
    n = -(-N_SEQUENCES // (len(WAYS) * N_PARTS))
    own_seed = random.Random(f"{SEED} {product} {reach} {part}").getrandbits(32)
    own = {"product": product, "reach": reach, "templates": templates, "zygote": zygote, "total": total}
    machine = seed(own_seed)(type("Meanwhile", (Meanwhile,), own))
    chosen = settings(
        max_examples=n, stateful_step_count=9, deadline=None, database=None, print_blob=False,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        run_state_machine_as_test(machine, settings=chosen)
    finally:
        print(f"\nmeanwhile {product} {reach} part {part}: TRIMTAB_WAYBACK_SEED={SEED}: {dict(sorted(total.items()))}")
    assert total["sequences"] >= n * 3 // 4
