"""The built-in formats pass the public suite."""

from __future__ import annotations

from trimtab.history.formats.csv import CsvFormat
from trimtab.history.formats.jsonl import JsonLinesFormat
from trimtab.history.formats.parquet import ParquetFormat
from trimtab.history.formats.taudb import TaudbFormat
from trimtab.history.formats.text import TextFormat
from trimtab.history.formats.xml import XmlFormat
from trimtab.testing.format_suite import FormatSuite


class TestCsv(FormatSuite):
    format_class = CsvFormat


class TestJsonLines(FormatSuite):
    format_class = JsonLinesFormat


class TestParquet(FormatSuite):
    format_class = ParquetFormat


class TestTaudb(FormatSuite):
    format_class = TaudbFormat


class TestText(FormatSuite):
    format_class = TextFormat


class TestXml(FormatSuite):
    format_class = XmlFormat
