"""trimtab catalog check: what it prints of sound catalogues and of wrong ones, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trimtab.cli import main

ROOT = Path(__file__).parents[2]
SOUND = """
schema = 2
kind = "x"
[channel.conf]
codec = "keyvalue"
path = "x.conf"
[knob.a]
doc = "What it is for, in a line."
type = "integer"
low = 1
high = 9
default = 3
"""
OTHER = """[knob.b]
doc = "What it is for, in a line."
type = "boolean"
default = true
"""

NUMBER = """type = "integer"
low = 1
high = 9
default = 3
"""
CHOICE = """type = "choice"
choices = ["x", "y"]
default = "x"
"""

PLAY = """
[play.p]
reason = "Because it may help here."
when = "{}"
settings = {{ {} }}
sources = ["a book"]
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["catalog", "check", *arguments])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "catalogs").glob("*.toml")), ids=lambda file: file.stem)
def test_the_catalogues_of_the_repository_are_sound(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, err = run(capsys, str(file))
    assert (code, err) == (0, "")
    assert out.startswith("sound: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ('"keyvalue"', '"toml"', "unknown codec='toml'", "docs/reference/catalog.md in Trimtab's repository lists the keys"),
        ("schema = 2", "schema = 1", "schema=1: Input should be 2", "lists the keys"),
        ("default = 3", "", "'knob.a.default' is missing", "add default"),
        ("default = 3", 'default = 3\ndefault_of = "b"', "default_of='b': there is no such knob", "name a knob"),
        ("default = 3", 'default = 3\ndefault_of = "a"', "default_of='a' has a default_of itself", "of the same file"),
        ("default = 3", f'default = 3\ndefault_of = "b"\n{OTHER}', "default_of='b' is written otherwise", "the same type"),
        ("default = 3", 'default = 3\nresets = ["b"]', "resets names 'b': there is no such knob", "name a knob"),
        ("default = 3", f'default = 3\nresets = ["b"]\n{OTHER}', "which is not written after it", "another one"),
        ("default = 3", 'default = 3\nlive = "x:type=X Size"', "it is not known which Java sets it", "to [lifecycle]"),
        ('"keyvalue"', '"keyvalue"\nwatched_if = "size"', "watched_if='size' is not a boolean knob of a", "its channel first"),
        ("[knob.a]", '[channel.next]\ncodec = "keyvalue"\npath = "y.conf"\nwatched_if = "a"\n[knob.a]\nchannel = "conf"',
         "watched_if='a' is not a boolean", "its channel first"),
        ("[knob.a]", f'watched_if = "b"\n{OTHER}[knob.a]', "watched_if='b' is not a boolean knob of a", "its channel first"),
        ("default = 3", 'default = 3\nlive = "Size"', "live='Size'", "lists the keys"),
        ("schema = 2", 'schema = 2\nwarmup_floor = "30"', "duration='30' has no unit after 30", "lists the keys"),
        ("default = 3", "defautl = 3", "unknown key 'knob.a.defautl'", "lists the keys"),
        ("low = 1\nhigh = 9\n", "", "type='integer' needs low and high", "lists the keys"),
        ('high = 9', 'high = "ram / 2"', "cannot evaluate expression='ram / 2'", "lists the keys"),
        ('high = 9', 'high = "connections"', "cannot evaluate expression='connections'", "memory, cores, disk"),
        ("[knob.a]", '[knob.a]\naddress = "include"', "address='include' may not be changed: forbidden", "no option opens it"),
        ("[knob.a]", '[knob.a]\naddress = "x.LoadModule"', "address='x.LoadModule' may not be changed", "remove the knob"),
        ("[knob.a]", '[knob.a]\nchannel = "other"', "channel='other': there is no such channel", "the channels are: conf"),
        ("[knob.a]", '[knob.a]\nsuffix = "mb"', "suffix='mb' is not in [units]", 'add mb = "1MB"'),
        ("schema = 2", 'schema = 2\nunits = { mb = "1 elephant" }', "[units] mb='1 elephant'", 'mb = "1MB"'),
        ("schema = 2", 'schema = 2\nconstraint = [{ text = "a <= b" }]', "names 'b', which is not a knob", "use knobs"),
        ("schema = 2", 'schema = 2\nconstraint = [{ text = "a <=" }]', "'a <='", ""),
        ("schema = 2", 'schema = 2\nmemory = { a = "b * 2" }', "names 'b', which is not a knob", "clients"),
        ("schema = 2", 'schema = 2\nfacts = { a = "echo 1" }', "[facts] a: a knob or another fact has that name", "another name"),
        ("schema = 2", 'schema = 2\nfacts = { cores = "echo 1" }', "[facts] cores: a knob or another fact", "another name"),
        ("schema = 2", 'schema = 2\nfacts = { n = "echo 1" }\nconstraint = [{ text = "a <= n" }]', "names 'n'", "clients"),
        ("schema = 2", 'schema = 2\nadvice = { b = 1 }', "[advice] b=1: there is no such knob", "name a knob"),
        ("schema = 2", 'schema = 2\nadvice = { a = "ram" }', "[advice] a: cannot evaluate", "use + - *"),
        ("schema = 2", 'schema = 2\nlog = { line = [{ log = "(", fault = "config" }] }', "is not a regular expression", ""),
        ("schema = 2", 'schema = 2\nconstraint = [{ text = "a > 50" }]', "a > 50", ""),
        ("low = 1", "low = 8000000\nhard = [1, 5]\n#", "useful range of 8000000 to 9 is empty", ""),
        ('"keyvalue"', "'template'\ntemplate = 'x {{b}} {{a}}'", "template has {{b}}, which is not a knob", "add [knob.b]"),
        ('"keyvalue"', "'template'\ntemplate = 'x {{b}}'", "address='a' is not in the template", "its places are: b"),
        ('"keyvalue"', "'template'", "template = '...' go together", ""),
        ("default = 3", 'default = "three"', "cannot evaluate expression='three'", ""),
        ("default = 3", "default = true", "default=True is not a number", ""),
        ("default = 3", "default = nan", "knob.a.default=nan is not a finite number", "write a number"),
        ("default = 3", "default = 12", "default=12 is not between 1 and 9, and not special", "if the program takes it"),
        ("default = 3", "default = 0\nhard = [1, 20]", "default=0 is not between 1 and 20", "if the program takes it"),
        ("default = 3", "default = 2.5", "default=2.5 is not a whole number", ""),
        ("default = 3", 'default = "memory / 4"', "cannot evaluate expression='memory / 4'", "no names"),
        ("default = 3", f"default = {'9' * 30}", "knob.a.default has more than the 64 bits of a number", "write a number"),
        ("default = 3", f"default = {'9' * 5000}", "a number in it has too many digits", "write a number"),
        (NUMBER, CHOICE.replace('= "x"', '= "z"'), "[knob.a] default='z' is none of the choices: x, y", "add it to choices"),
        (NUMBER, f'{CHOICE}shown_by = {{ x = "X" }}\nunder = {{ \'a == "x"\' = {{ default = "z" }} }}',
         """[knob.a] under 'a == "x"': default='z' is none of the choices""", "add it to choices"),
        (NUMBER, f"{CHOICE}[advice]\na = 'z'", "[advice] a='z' is none of its choices", "use one of: x, y"),
        (NUMBER, CHOICE + PLAY.format("", "a = 'z'"), "play='p' a='z' is none of its choices", "use one of: x, y"),
        ("schema = 2", "schema = 2\nadvice = { a = true }", "[advice] a=True is not of type='integer'", "type"),
        ("default = 3", 'default = 3\nlive = "Size"', 'write "BEAN ATTRIBUTE", as in "java.lang:type=Memory Verbose"', "keys"),
        ("[knob.a]", PLAY.format("clients * 2", "a = 1") + "[knob.a]",
         "[play.p]: when='clients * 2' cannot be evaluated: constraint='clients * 2': arithmetic instead of a condition at "
         "character 9", "lists the keys"),
        ("[knob.a]", PLAY.format("", "a = 1 }\nsign = 'reads + 1'\n# {") + "[knob.a]",
         "[play.p]: sign='reads + 1' cannot be evaluated: constraint='reads + 1': arithmetic instead of a condition", "keys"),
        ("schema = 2", 'schema = 2\nconstraint = [{ text = "a + 1", name = "sum" }]', "'sum': constraint='a + 1': arithmetic in",
         "compare it"),
        ("schema = 2", 'schema = 2\nadvice_when = [{ when = "-cores", settings = { a = 2 } }]',
         "[[advice_when]] when: constraint='-cores': arithmetic instead of a condition at character 1", "compare it"),
        ("[knob.a]", f"{OTHER}[knob.a]\ncondition = 'b * 2'", "arithmetic instead of a condition at character 3", "compare it"),
        ("schema = 2", "schema = 2\nadvice = { a = -inf }", "advice.a=-inf is not a finite number", ""),
        ("schema = 2", 'schema = 2\nadvice = { a = "1e308 * 10" }', "is inf on this machine", ""),
        ("[knob.a]", "[knob.'a b']", "'a b' is not a word", ""),
        ("schema = 2", "schema = ", "it is not TOML", "line and column"),
        ("[knob.a]", PLAY.format("", "b = 1") + "[knob.a]", "play='p' sets the unknown knob='b'", "name knobs of the catalogue"),
        ("[knob.a]", PLAY.format("moon > 1", "a = 1") + "[knob.a]", "when='moon > 1' cannot be evaluated: ", "lists the keys"),
        ("[knob.a]", PLAY.format("clients >", "a = 1") + "[knob.a]", "when='clients >' cannot be evaluated: ", "lists the keys"),
        ("[knob.a]", PLAY.format("connections > 9", "a = 1") + "[knob.a]", "play='p': when='connections > 9' cannot be evaluated",
         "a play of this catalogue may speak of: clients, cores, memory, "),
        ("[knob.a]", PLAY.format("", "a = 'connections / 2'") + "[knob.a]", "play='p': settings a='connections / 2' cannot be ",
         "a play of this catalogue may speak of: "),
        ("[knob.a]", PLAY.format("", "a = 1") + "[knob.a]\nsafety = 'durability'",
         "play='p' sets knob='a', whose safety class is locked by default", "plays speak of performance knobs only"),
    ],
)  # fmt: skip
def test_faults_are_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, old: str, new: str, message: str, hint: str
) -> None:
    assert old in SOUND
    (tmp_path / "x.toml").write_text(SOUND.replace(old, new))
    code, out, err = run(capsys, str(tmp_path / "x.toml"))
    assert code == 1
    assert message in out
    assert "  hint: " in out
    assert hint in out
    assert " in " in err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("knob = 5", "knob=5 is not a table"),
        ("facet_knob = 3", "facet_knob=3 is not a table"),
        ("facet_knob = { MaxHeapSize = 3 }", "facet_knob.MaxHeapSize=3 is not a table"),
        ("channel = { jvm = 1 }", "channel.jvm=1 is not a table"),
        ("advice = [1]", "advice=[1] is not a table"),
        ("orders = 3", "orders=3 is not a list"),
        ("log = 3", "log=3 is not a table"),
        ("log = { line = 3 }", "log.line=3 is not a list"),
    ],
)
def test_what_cannot_be_joined_with_a_facet_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: str, message: str
) -> None:
    (tmp_path / "x.toml").write_text(f'schema = 2\nkind = "x"\nfacets = ["jvm"]\n{more}\n')
    code, out, _ = run(capsys, str(tmp_path / "x.toml"))
    assert code == 1
    assert out.startswith(f"{message}\n  hint: ")


@pytest.mark.parametrize("facets", ['"jvm"', "3", "[3]", '[["jvm"]]'])
def test_facets_that_are_none_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path, facets: str) -> None:
    (tmp_path / "x.toml").write_text(f'schema = 2\nkind = "x"\nfacets = {facets}\nfacet_knob = {{ a = 1 }}\n')
    code, out, _ = run(capsys, str(tmp_path / "x.toml"))
    assert code == 1
    assert "facet" in out


def test_all_faults_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = SOUND + SOUND[SOUND.index("[knob.a]") :].replace("[knob.a]", '[knob.b]\naddress = "a"')
    (tmp_path / "x.toml").write_text(text.replace('kind = "x"', 'kind = "x"\nadvice = { c = 1 }'))
    code, out, _ = run(capsys, str(tmp_path / "x.toml"), "--json")
    assert code == 1
    found = json.loads(out)
    assert [fault["message"] for fault in found["faults"]] == [
        "[knob.b] address='a' is that of knob='a' too",
        "[advice] c=1: there is no such knob",
    ]


def test_a_missing_file_is_a_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, str(tmp_path / "none.toml"))
    assert (code, out) == (2, "")
    assert "cannot be read: No such file or directory" in err
    assert "hint: " in err
