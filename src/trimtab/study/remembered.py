"""Where the study file of a study lies, kept in the state directory; what it says is read when it is needed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.host import is_word, read_state_file, require_own_folder

__all__ = ["remember_file", "remembered_file"]


def remember_file(state_dir: Path, study: str, path: Path) -> None:
    """Keeps where the study file lies; one that cannot be kept is asked for later."""
    folder = state_dir.absolute() / "studies"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = folder / study
        place.unlink(missing_ok=True)
        place.touch(0o600)
        place.write_text(str(path.absolute()))


def remembered_file(state_dir: Path, study: str) -> Path:
    """Where the study file of that name lies.

    Raises:
        UsageError: it is not known here, or no longer there.
    """
    hint = f"give it: trimtab apply {study} --study FILE"
    folder = state_dir.absolute() / "studies"
    require_own_folder(folder)
    if not is_word(study) or not (folder / study).exists():
        raise UsageError(f"where the study file of study={study!r} lies is not known here", hint=hint)
    path = Path(read_state_file(folder / study).decode(errors="replace"))
    if not path.is_file():
        raise UsageError(f"the study file={str(path)!r} of study={study!r} is no longer there", hint=hint)
    return path
