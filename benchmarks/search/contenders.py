"""Contenders: Trimtab's searchers in this process, peers in processes and environments of their own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks import Contender, Task

from trimtab.records import Trial
from trimtab.search import Searcher, SearchProblem, create
from trimtab.search.parameters import ParameterSpace
from trimtab.space import Config
from trimtab.testing.textbook import TextbookSearcher

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / ".venv-bench-search"


@dataclass(frozen=True, slots=True)
class PeerKind:
    """A peer: the folder of its environment and its script under peers/; `is_slow` ones run on fewer tasks."""

    environment: str
    script: str
    is_slow: bool = False

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return ENVIRONMENTS / self.environment / "bin" / "python"


PEERS = {
    "optuna TPE": PeerKind("optuna", "optuna_tpe"),
    "SMAC3 forest": PeerKind("smac", "smac_forest", is_slow=True),
    "scikit-optimize GP": PeerKind("scikit-optimize", "skopt_gp", is_slow=True),
    "OpenTuner": PeerKind("opentuner", "opentuner_bandit"),
}
ABSENT = {
    "HEBO": "needs PyTorch (0.5 GB of wheels, 3 GB with CUDA), which is not installed here",
    "optuna GP": "needs PyTorch, which is not installed here",
}
"""Peers that were asked for and cannot take part, with the reason."""


class Ours:
    """A searcher of Trimtab."""

    def __init__(self, name: str, task: Task, seed: int, budget: int, **options: Any) -> None:
        problem = SearchProblem(
            space=task.space,
            baseline=task.baseline,
            advice=task.advice,
            seed=seed,
            budget_trials=budget,
            options=options,
        )
        self._searcher: Searcher = TextbookSearcher(problem) if name == "textbook" else create(name, problem)

    def ask(self) -> Config:
        return self._searcher.ask()[0]

    def tell(self, trial: Trial) -> None:
        self._searcher.tell(trial)

    def close(self) -> None:
        """Nothing is open."""


class PeerProcess:
    """A peer's script, answering one line for each line."""

    def __init__(self, kind: PeerKind, space: list[dict[str, Any]], seed: int, budget: int) -> None:
        # One thread each: more only makes them wait for each other on a busy machine.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        # A folder of its own: OpenTuner writes a log where it is started.
        self._folder = tempfile.TemporaryDirectory(prefix="trimtab-peer-")
        self._process = subprocess.Popen(
            [kind.python, HERE / "peers" / f"{kind.script}.py"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **threads}, cwd=self._folder.name,
        )  # fmt: skip
        about = self.call(op="start", space=space, seed=seed, budget=budget)
        self.library = f"{about['library']} {about['version']}"

    def call(self, **request: Any) -> dict[str, Any]:
        """The reply to one request.

        Raises:
            RuntimeError: the peer ended; with the end of what it printed.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the peer has no pipes")
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            return dict(json.loads(stdout.readline()))
        except (BrokenPipeError, json.JSONDecodeError) as error:
            self._process.kill()
            raise RuntimeError((self._process.communicate()[1] or "")[-2000:]) from error

    def close(self) -> None:
        """Ends the process by ending its input."""
        self._process.communicate()
        self._folder.cleanup()


class Peer:
    """A peer in the loop: what it asks is brought into the space, and it is told the result for what it asked."""

    def __init__(self, kind: PeerKind, task: Task, seed: int, budget: int) -> None:
        self._space = ParameterSpace(task.space)
        parameters = [asdict(parameter) for parameter in self._space.parameters.values()]
        self._process = PeerProcess(kind, parameters, seed, budget)
        self._asked: tuple[Config, dict[str, Any]] | None = None
        self._worst = 0.0

    def ask(self) -> Config:
        values = self._process.call(op="ask")["values"]
        config = self._space.config(values)
        self._asked = (config, values)
        return config

    def tell(self, trial: Trial) -> None:
        if self._asked is not None and self._asked[0] == trial.config:
            values = self._asked[1]
            self._asked = None
        else:
            values = self._space.values(trial.config)
        self._worst = max(self._worst, trial.loss or 0.0)
        loss = self._worst if trial.loss is None else trial.loss
        self._process.call(op="tell", values=values, loss=loss, failed=trial.loss is None)

    def close(self) -> None:
        self._process.close()


def make(name: str, task: Task, seed: int, budget: int) -> Contender:
    """The contender called `name`; "auto[restart_share=1.0]" is a searcher of ours with an option."""
    if name in PEERS:
        return Peer(PEERS[name], task, seed, budget)
    base, _, tail = name.rstrip("]").partition("[")
    options = {key: json.loads(value) for key, _, value in (part.partition("=") for part in tail.split(",") if part)}
    return Ours(base, task, seed, budget, **options)
