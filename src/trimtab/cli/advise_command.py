"""trimtab advise: a rule-based config without measuring."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import json_option, print_json, say, state_option, study_file_argument, tell_changed
from trimtab.units import counted

__all__ = ["command"]


@click.command("advise")
@study_file_argument
@state_option
@json_option
def command(study_file: Path, state_dir: Path, as_json: bool) -> int:
    """Print a rule-based config for this server and workload, ready for its configuration file. Measures and changes nothing."""
    from trimtab.space import Config
    from trimtab.study import load_study_file, open_stage
    from trimtab.study.fragments import as_one_text

    with open_stage(load_study_file(study_file), state_dir, changes=False) as stage:
        tell_changed(stage, state_dir)
        changed = stage.advice.difference(stage.baseline)
        config = Config({name: stage.advice[name] for name in changed})
        fragment = as_one_text(stage.stack.fragments(config), is_one=stage.stack.is_one)
        memory = stage.stack.memory(stage.workload.context).to_json(stage.advice)
        locked, moved = stage.locked, stage.moved
        source = "from your [search] advice" if stage.file.search.advice else "by rules of thumb"
    if as_json:
        print_json({"config": dict(config), "fragment": fragment, "memory": memory})
        return 0
    click.echo(fragment.rstrip("\n"))
    then = f"to be set by other means: {locked}" if locked else "`trimtab tune` measures them, too"
    say(f"{counted(len(changed), 'setting')} {source}, not measured; {then}")
    if moved:
        say(moved)
    return 0
