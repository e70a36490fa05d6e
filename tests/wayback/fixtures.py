"""What tests of the way back share: templates of servers, and a process that acts and is killed for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.wayback.actor import Zygote
from tests.wayback.ways import Templates, root_folder

__all__ = ["templates", "zygote"]


@pytest.fixture(scope="session")
def templates() -> Iterator[Templates]:
    with root_folder() as folder:
        yield Templates(folder)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote() as process:
        yield process
