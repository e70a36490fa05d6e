"""What a study leaves for its resume when it does not end as it should, and which studies of earlier versions are resumed."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fakes import FakeStudy
from trimtab.history import open_history_at
from trimtab.records import Trial
from trimtab.study import load_study_file
from trimtab.study.begin import fingerprints_of

pytestmark = pytest.mark.slow


def test_a_second_ctrl_c_leaves_a_study_that_is_interrupted(fake: FakeStudy) -> None:
    def stop(trial: Trial) -> None:
        if trial.number == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    found = dict(fake.target.values)
    fake.listener.on_trial = stop
    with pytest.raises(KeyboardInterrupt):
        fake.tune()
    assert dict(fake.target.values) == found
    with open_history_at(None, fake.path / "state") as history:
        assert [(study.status, study.n_trials) for study in history.summaries()] == [("interrupted", 5)]
    fake.listener.on_trial = lambda trial: None
    assert fake.tune()[0].status in ("proven", "no_improvement")


def test_a_study_that_an_earlier_version_has_begun_elsewhere_is_the_same(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fingerprint counted where the history is."""
    place = fake.path / "there.db"
    fake.text = fake.text.replace('budget = "12 trials"', f'budget = "3 trials"\nhistory = "{place}"')
    (fake.path / "study.toml").write_text(fake.text)
    now, earlier = fingerprints_of(load_study_file(fake.path / "study.toml"), fake.workload)
    assert now != earlier
    with monkeypatch.context() as before:
        before.setattr("trimtab.study.tuning.fingerprints_of", lambda file, workload: (earlier,))
        record, _ = fake.tune()
    assert record.fingerprint == earlier
    assert fake.tune()[0].id == record.id
