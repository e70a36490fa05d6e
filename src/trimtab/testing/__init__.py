"""Fakes and conformance suites for the tests of Trimtab's own rooms and of plug-ins."""
