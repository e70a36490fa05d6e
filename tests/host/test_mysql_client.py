"""Passwords of option files, as the programs of MySQL and MariaDB read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.host.mysql_client import password_from_files


@pytest.mark.parametrize(
    ("line", "password"),
    [
        ("password=abc", "abc"),
        ("password = abc # a note", "abc"),
        ("password=ab#cd", "ab"),
        (r'password="a#b\s\\c\"d"', r'a#b \c"d'),
        ("password='it\"s' # a note", 'it"s'),
        ('password=a"b#c"d#e', 'a"b#c"d'),
        (r"password=a\zb'", r"a\zb'"),
        ("password=", ""),
        ("user=x", None),
    ],
)
def test_a_password_is_read_as_the_servers_own_client_reads_it(line: str, password: str | None, tmp_path: Path) -> None:
    """The results are those of MariaDB's my_print_defaults."""
    file = tmp_path / "own.cnf"
    file.write_text(f"# password=other\n[mysql]\npassword=other\n[client]\n{line}\nport=1\n")
    assert password_from_files(str(file)) == password


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("[client]\nuser=root\n    password=abc\n", "abc"),
        ("!includedir /etc/mysql/conf.d/\n[client]\npassword=abc\n", "abc"),
        ("[client]\npassword=a\n[mysql]\npassword=b\n[client] # again\npassword=c=d\n", "c=d"),
        ("[client]\npassword\n", None),
        ("[client]\n;password=abc\n[ client ]\npassword=abc\n", None),
    ],
)
def test_lines_stand_where_the_servers_own_client_lets_them_stand(
    text: str, password: str | None, tmp_path: Path
) -> None:
    """The results are those of MariaDB's my_print_defaults."""
    file = tmp_path / "own.cnf"
    file.write_text(text)
    assert password_from_files(str(file)) == password
