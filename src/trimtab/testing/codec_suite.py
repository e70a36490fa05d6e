"""The conformance suite of codecs: what every syntax of configuration files must keep.

    class TestMyCodec(CodecSuite):
        @pytest.fixture(params=[...])
        def sample(self, request) -> CodecSample:
            return CodecSample(codec=..., text="...", value="...", added="...")

Each check runs on each sample, also with CRLF line ends and without a line end at the end of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from trimtab.systems.codec import Codec, CodecError

__all__ = ["CodecSample", "CodecSuite"]

_WRONG = ("a\nb", "a\r\nb = c", "\x00\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecSample:
    """A text of a syntax, and what can be done with it.

    Attributes:
        codec: of the syntax.
        text: a file, with comments.
        changes: address -> another legal value; addresses that the text has.
        added: address -> value; addresses that it lacks, and that can be added. {} when nothing can.
        kept: pieces of the text that are no values and must stay (comments).
    """

    codec: Codec
    text: str
    changes: dict[str, str]
    added: dict[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()

    @property
    def both(self) -> dict[str, str]:
        """Everything that is written."""
        return {**self.changes, **self.added}


class CodecSuite:
    """See the module. Subclasses define the fixture `sample`."""

    @pytest.fixture(params=["as it is", "crlf", "no end of line"])
    def text(self, request: pytest.FixtureRequest, sample: CodecSample) -> str:
        """The sample's text in three shapes."""
        if request.param == "crlf":
            return sample.text.replace("\n", "\r\n")
        return sample.text.rstrip("\n") if request.param == "no end of line" else sample.text

    def test_writing_what_was_read_changes_no_byte(self, sample: CodecSample, text: str) -> None:
        values = {address: located.value for address, located in sample.codec.read(text).items()}
        assert values
        assert sample.codec.write(text, dict(values)) == text

    def test_what_is_written_is_read_back(self, sample: CodecSample, text: str) -> None:
        after = sample.codec.write(text, dict(sample.both))
        for address, value in sample.both.items():
            located = sample.codec.find(after, address)
            assert located is not None
            assert located.value == value
        assert sample.codec.write(after, dict(sample.both)) == after, "written twice, it changes again"

    def test_everything_else_stays(self, sample: CodecSample, text: str) -> None:
        after = sample.codec.write(text, dict(sample.both))
        assert all(piece in after for piece in sample.kept)
        before, now = ([each.value for each in sample.codec.entries(one)] for one in (text, after))
        assert len(now) == len(before) + len(sample.added)
        kept = [value for value in now if value not in sample.added.values()]
        assert sum(old != new for old, new in zip(before, kept, strict=True)) == len(sample.changes)
        assert ("\r\n" in after) == ("\r\n" in text)

    def test_what_was_written_is_withdrawn_to_the_byte(self, sample: CodecSample, text: str) -> None:
        after = sample.codec.write(text, dict(sample.both))
        ours = {address: (value,) for address, value in sample.both.items()}
        assert sample.codec.withdraw(after, text, ours) == text
        assert sample.codec.withdraw(text, text, ours) == text

    def test_a_value_that_somebody_else_wrote_meanwhile_stays(self, sample: CodecSample, text: str) -> None:
        (mine, value), *others = sample.changes.items()
        after = sample.codec.write(text, {mine: value})
        assert sample.codec.withdraw(after, text, {mine: ("never written",)}) == after
        for address, theirs in others:
            both = sample.codec.write(after, {address: theirs})
            left = sample.codec.withdraw(both, text, {mine: (value,), address: ("never written",)})
            assert left == sample.codec.write(text, {address: theirs})

    def test_lines_are_those_of_the_values(self, sample: CodecSample, text: str) -> None:
        lines = text.splitlines()
        for address in sample.changes:
            located = sample.codec.find(text, address)
            assert located is not None
            assert 1 <= located.line <= len(lines)

    @pytest.mark.parametrize("value", _WRONG)
    def test_a_value_brings_in_no_line_of_its_own(self, sample: CodecSample, text: str, value: str) -> None:
        for address in sample.both:
            try:
                after = sample.codec.write(text, {address: value})
            except CodecError:
                continue
            located = sample.codec.find(after, address)
            assert located is not None
            assert located.value == value
            before = sample.codec.read(text)
            assert set(sample.codec.read(after)) <= {*before, *map(sample.codec.key, sample.both)}

    def test_an_address_that_is_not_there_is_none(self, sample: CodecSample, text: str) -> None:
        for address in sample.added:
            assert sample.codec.find(text, address) is None
            assert sample.codec.write(text, {address: None}) == text
