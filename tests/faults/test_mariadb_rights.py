"""Least privilege on a real MariaDB: what `trimtab doctor --grant-sql` prints is enough to tune with, and no more is used."""

from __future__ import annotations

import pytest

from tests.faults.mariadb_place import MariaPlace, check_invariants, take_picture
from tests.faults.test_mariadb_rows import make_maria, own_maria, template
from trimtab.records import Endpoint
from trimtab.systems.mysql.catalogue import curated_for
from trimtab.systems.mysql.flavour import read_flavour
from trimtab.systems.mysql.session import connect
from trimtab.systems.session import StatementError

__all__ = ["make_maria", "own_maria", "template"]

pytestmark = [pytest.mark.service, pytest.mark.slow]


def test_the_printed_user_tunes_and_may_set_every_knob_of_the_catalogue(own_maria: MariaPlace) -> None:
    server = own_maria.server
    ran = own_maria.run("doctor", "study.toml", "--grant-sql")
    assert ran.code == 0, ran.err
    lines = [line for line in ran.out.splitlines() if not line.startswith("--")]
    statements = [text.strip() for text in "\n".join(lines).split(";") if text.strip()]
    assert any(text.startswith("GRANT SUPER, PROCESS") for text in statements)
    with server.admin() as admin:
        for statement in statements:
            admin.rows(statement)
        # as the comment says, for a user who does not come in by the operating system
        admin.rows("ALTER USER 'trimtab'@'localhost' IDENTIFIED BY %s", [own_maria.canary])
        dynamic = {
            str(row[0])
            for row in admin.rows(
                "SELECT LOWER(VARIABLE_NAME) FROM information_schema.SYSTEM_VARIABLES WHERE READ_ONLY = 'NO'"
            )
        }
    user = Endpoint(protocol="mysql", host=str(server.socket), port=0, user="trimtab", password=own_maria.canary,
                    database="test")  # fmt: skip
    with connect(user) as session:
        flavour = read_flavour(str(session.value("SELECT VERSION()")))
        for name in sorted(dynamic & set(curated_for(flavour))):
            session.rows(f"SET GLOBAL `{name}` = @@GLOBAL.`{name}`")
        with pytest.raises(StatementError, match="denied"):
            session.rows("INSERT INTO test.sink VALUES (1)")
        with pytest.raises(StatementError, match="denied"):
            session.rows("SELECT * FROM mysql.global_priv")
    before = take_picture(server)
    own_maria.write(knobs=("sort_buffer_size", "innodb_flush_neighbors", "max_allowed_packet"), budget="1 trials",
                    target='unlock = ["semantics"]')  # fmt: skip
    text = own_maria.study.read_text().replace("mysql://tester@", "mysql://trimtab@")
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("include_file", "restart")))
    own_maria.study.write_text(text)
    ran = own_maria.run("tune", "study.toml")
    check_invariants(own_maria, before, ran=ran, code=(0, 1))
    assert server.query("SELECT @@GLOBAL.sort_buffer_size") == [(2097152,)]
