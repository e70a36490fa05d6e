"""What is taken out of texts before they are shown or stored, and what stays readable."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from trimtab.errors import ApplyError, TargetError
from trimtab.records import Endpoint
from trimtab.redact import digest, forget_all, hide_literals, hide_values, redact, redact_settings, remember


@pytest.fixture(autouse=True)
def forgets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    forget_all()
    yield
    forget_all()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:hunter2@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u:p@ss/w@h/d and more", "postgresql://u:***@h/d and more"),
        ("mysql+pymysql://u:x@h", "mysql+pymysql://u:***@h"),
        ("postgresql://u:it's'n@h/d", "postgresql://u:***@h/d"),
        ("['postgresql://u:x@h/d', 'a@b']", "['postgresql://u:***@h/d', 'a@b']"),
        ('{"url":"redis://:x@h","mail":"a@b"}', '{"url":"redis://:***@h","mail":"a@b"}'),
        ("host=h password=hunter2 user=u", "host=h password=*** user=u"),
        (r"host=h password='hun\'t er2' user=u", "host=h password=*** user=u"),
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=*** psql"),
        ('{"password": "hunter2", "port": 1}', '{"password": ***, "port": 1}'),
        ('{"password":"hunter2","port":1}', '{"password":***,"port":1}'),
        ("sslpassword=x&port=1", "sslpassword=***&port=1"),
        ("host=h password=hun,ter'2 user=u", "host=h password=*** user=u"),
        ("['--password=hunter2', 'x']", "['--password=***', 'x']"),
        ("sysbench --mysql-password hunter2 --threads 4", "sysbench --mysql-password *** --threads 4"),
        ("REDISCLI_AUTH=hunter2 redis-cli", "REDISCLI_AUTH=*** redis-cli"),
        ("mysqladmin -uroot -phunter2 shutdown", "mysqladmin -uroot -p*** shutdown"),
        ("sudo /opt/bin/mariadb-admin -p'hunt er2' ping; x", "sudo /opt/bin/mariadb-admin -p*** ping; x"),
        ("['mysql', '-phunter2', '-P', '3306']", "['mysql', '-p***', '-P', '3306']"),
        ("mysql -p12345 -e x", "mysql -p*** -e x"),
        ("sshpass -p hunter2 ssh db systemctl restart x", "sshpass -p *** ssh db systemctl restart x"),
        ("sshpass -phunter2 ssh db", "sshpass -p*** ssh db"),
        ("mongosh -u root -p hunter2 --eval x", "mongosh -u root -p *** --eval x"),
        ("redis-cli -a hunter2 SHUTDOWN", "redis-cli -a *** SHUTDOWN"),
        ("curl -s -u root:hunter2 http://h/again", "curl -s -u root:*** http://h/again"),
        ("curl -H 'Authorization: Bearer hunter2' http://h", "curl -H 'Authorization: ***' http://h"),
        ("curl -H 'X-Auth-Token: hunter2' http://h", "curl -H 'X-Auth-Token: ***' http://h"),
        ('curl -H "X-API-Key:hunter2" http://h', 'curl -H "X-API-Key:***" http://h'),
        ("['curl', '-H', 'PRIVATE-TOKEN: hunter2', 'http://h']", "['curl', '-H', 'PRIVATE-TOKEN: ***', 'http://h']"),
        ("give --no-token: nobody else reaches the port", "give --no-token: nobody else reaches the port"),
        ("curl http://h/?access_token=hunter2&n=1", "curl http://h/?access_token=***&n=1"),
        ("cqlsh -u cassandra -p hunter2 -e x", "cqlsh -u cassandra -p *** -e x"),
        ("nodetool -u jmx -pw hunter2 drain", "nodetool -u jmx -pw *** drain"),
        ("SSHPASS=hunter2 sshpass -e ssh db", "SSHPASS=*** sshpass -e ssh db"),
        ("DB_PASS=hunter2 TRIMTAB_TOKEN=hunter2 ./run", "DB_PASS=*** TRIMTAB_TOKEN=*** ./run"),
        ("AWS_SECRET_ACCESS_KEY=hunter2 s5cmd ls", "AWS_SECRET_ACCESS_KEY=*** s5cmd ls"),
        ("['mysql', '--password', 'hunter2', '-e', 'x']", "['mysql', '--password', '***', '-e', 'x']"),
        (
            "passes='tiers' bypass=on max_token=256 token_aware=no TOKEN=... x",
            "passes='tiers' bypass=on max_token=256 token_aware=no TOKEN=... x",
        ),
        ("mysql -p -P 3306", "mysql -p -P 3306"),
        ("mysqld -port 3306", "mysqld -port 3306"),
        ("psql -p 5432 -h h", "psql -p 5432 -h h"),
        ("psql -p5432; cp -pr a b", "psql -p5432; cp -pr a b"),
        ("systemctl restart mysql && mkdir -p/srv/x", "systemctl restart mysql && mkdir -p/srv/x"),
        ("java -port 80 --path x", "java -port 80 --path x"),
        ("curl -u root http://h:80/again", "curl -u root http://h:80/again"),
        ("it takes --password --quiet", "it takes --password --quiet"),
        ("the server refused the password: host=h", "the server refused the password: host=h"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("see https://example.org:80/a", "see https://example.org:80/a"),
    ],
)
def test_passwords_are_found_by_their_place(text: str, shown: str) -> None:
    assert redact(text) == redact(shown) == shown


def test_known_passwords_are_found_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    remember("hun/ter2")
    assert redact("it said hun/ter2, or hun%2Fter2") == "it said ***, or ***"
    monkeypatch.setenv("PGPASSWORD", "from-env")
    assert redact("(from-env)") == "(***)"


def test_an_ordinary_word_as_password_leaves_messages_readable() -> None:
    for word in ("postgres", "abc", "mysql"):
        remember(word)
    assert redact("kind=postgresql user=postgres abc") == "kind=postgresql user=postgres abc"
    remember("fast")
    assert redact("faster") == "faster"


def test_an_endpoint_makes_its_password_known() -> None:
    Endpoint(protocol="postgresql", host="h", port=1, user="u", database="d", password="c4nary-x")
    error = ApplyError("said c4nary-x", hint="not c4nary-x", log_excerpt="log: c4nary-x")
    assert "c4nary" not in f"{error} {error.hint} {error.log_excerpt} {error.args} {error!r}"
    assert str(TargetError("a", hint="b")) == "a\nhint: b"


def test_settings_lose_passwords_at_every_depth() -> None:
    settings = {
        "url": "postgresql://u:hunter2@h/d",
        "list": ["password=hunter2", {"deep": "mysql://u:hunter2@h"}],
        "password": "hunter2",
        "ssl_passphrase": "hunter2",
        "env": {"MYSQL_PWD": "hunter2", "REDISCLI_AUTH": "hunter2", "SEED": "1"},
        "passwords": ["hunter2", {"deep": "hunter2"}],
        "headers": {"Authorization": "Bearer hunter2", "Cookie": "sid=hunter2", "Accept": "text/html"},
        "password_reuse": 5,
        "cookies": True,
        "count": 3,
        "kind": "postgresql",
    }
    kept = redact_settings(settings)
    assert "hunter2" not in str(kept)
    assert (kept["count"], kept["kind"], kept["password"]) == (3, "postgresql", "***")
    assert (kept["env"]["SEED"], kept["password_reuse"], kept["cookies"]) == ("1", 5, True)
    assert kept["headers"]["Accept"] == "text/html"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('invalid input syntax for type integer: "CANARY"', 'invalid input syntax for type integer: "(hidden)"'),
        ('syntax error at or near "\'CANARY\'"', 'syntax error at or near "(hidden)"'),
        ('syntax error at or near "4711"', 'syntax error at or near "(hidden)"'),
        ('syntax error at or near "SELCT"', 'syntax error at or near "SELCT"'),
        ('value "CANARY" is out of range for type integer', 'value "(hidden)" is out of range for type integer'),
        ("x\nLINE 1: SELECT 'CANARY'\n               ^", "x\nLINE: (hidden)"),
        ("DETAIL:  Key (email)=(CANARY) already exists.", "DETAIL:  Key (email)=(hidden) already exists."),
        ("DETAIL:  Failing row contains (1, CANARY).", "DETAIL:  Failing row contains (hidden)."),
        ("[7] STATEMENT:  SELECT 'CANARY'\n\tFROM CANARY\nnext", "[7] STATEMENT: (hidden)\nnext"),
        ("[7] DETAIL:  Failed process was running: SELECT 'CANARY'\n\tFROM CANARY\nnext",
         "[7] DETAIL:  Failed process was running: (hidden)\nnext"),
        ("[7] DETAIL:  prepare: PREPARE a AS SELECT 'CANARY'", "[7] DETAIL:  prepare: (hidden)"),
        ("Query (0x7f2c): SELECT 'CANARY'\nFROM CANARY\n\nConnection ID (thread ID): 8",
         "Query (0x7f2c): (hidden)\n\nConnection ID (thread ID): 8"),
        ("[Warning] [MY-010908] [Server] Unsafe statement written to the binary log using statement format since"
         " BINLOG_FORMAT = STATEMENT. Statement: UPDATE t SET a = 'CANARY'\nLIMIT 1\n2026-01-01T00:00:00Z 0 [Note] x",
         "[Warning] [MY-010908] [Server] Unsafe statement written to the binary log using statement format since"
         " BINLOG_FORMAT = STATEMENT. Statement: (hidden)\n2026-01-01T00:00:00Z 0 [Note] x"),
        ("\tFROM CANARY\n\tWHERE x = 'CANARY'\n[7] LOG:  ready", "(hidden)\n[7] LOG:  ready"),
        ("\tat java.base/A.b(C.java:1)\n\t... 2 more", "\tat java.base/A.b(C.java:1)\n\t... 2 more"),
        ("[7] LOG:  statement: SELECT 'CANARY'", "[7] LOG:  statement: (hidden)"),
        ("[7] LOG:  duration: 3 ms  execute <unnamed>: SELECT 'CANARY'",
         "[7] LOG:  duration: 3 ms  execute <unnamed>: (hidden)"),
        ("DETAIL:  Parameters: $1 = 'CANARY'", "DETAIL:  Parameters: (hidden)"),
        ('CONTEXT:  unnamed portal parameter $1 = \'CANARY\'', "CONTEXT: (hidden)"),
        ("Duplicate entry 'CANARY' for key 'PRIMARY'", "Duplicate entry '(hidden)' for key 'PRIMARY'"),
        ('DETAIL:  Token "CANARY" is invalid.', "DETAIL:  Token (hidden)"),
        ("[7] LOG:  duration: 3 ms  plan:\n\tQuery Text: SELECT 'CANARY'\n\tSeq Scan on t\nnext",
         "[7] LOG:  duration: 3 ms  plan: (hidden)\nnext"),
        ("[7] DETAIL:  Process 7 waits for ShareLock on transaction 5; blocked by process 8."
         "\n\tProcess 7: UPDATE t\n\tSET x = 'CANARY'\n\tProcess 8: DELETE 'CANARY'\n[7] HINT:  See",
         "[7] DETAIL:  Process 7 waits for ShareLock on transaction 5; blocked by process 8."
         "\n\tProcess 7: (hidden)\n\tProcess 8: (hidden)\n[7] HINT:  See"),
        ('E11000 duplicate key error collection: shop.users index: a_1_b_1 dup key: { a: "CANARY", b: 4711 }',
         "E11000 duplicate key error collection: shop.users index: a_1_b_1 dup key: { (hidden) }"),
    ],
)  # fmt: skip
def test_words_of_a_server_lose_statements_and_values(text: str, shown: str) -> None:
    assert hide_literals(text) == hide_literals(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        'FATAL:  could not access file "missing": No such file or directory',
        'LOG:  invalid value for parameter "work_mem": "5PB"',
        'ERROR:  relation "orders" does not exist',
        'FATAL:  role "tuner" does not exist',
        'ERROR:  duplicate key value violates unique constraint "orders_pkey"',
        "FATAL:  could not map anonymous shared memory: Cannot allocate memory",
        'LOG:  parameter "shared_buffers" cannot be changed without restarting the server',
        "the server uses work_mem=4MB (configuration file /x/postgresql.conf:3), not 8MB",
        "LOG:  database system is ready to accept connections",
    ],
)
def test_what_explains_a_fault_stays(text: str) -> None:
    assert hide_literals(text) == text


@pytest.mark.parametrize("text", ["[7] LOG: {}", "[7] DETAIL: {}", "Query (0x7f2c): {}x", "LOG:  execute {}"])
@pytest.mark.parametrize("part", ["LOG: ", "DETAIL: ", "\n", "'", '"', ": ", "Process 1"])
def test_a_hostile_text_takes_no_long(text: str, part: str) -> None:
    """64 KiB of a log: one took nine seconds."""
    began_s = time.process_time()
    hide_literals(text.format(part * (65_536 // len(part))))
    assert time.process_time() - began_s < 2.0


def test_statements_lose_their_values() -> None:
    text = "ALTER ROLE bob1 PASSWORD 'CANARY''s' VALID $x$CANARY$x$; SELECT 4711, t1.c2, E'CAN\\'ARY', $1"
    assert hide_values(text, "postgresql") == "ALTER ROLE bob1 PASSWORD ? VALID ?; SELECT ?, t1.c2, E?, $1"


@pytest.mark.parametrize(
    ("dialect", "text", "shown"),
    [
        ("postgresql", r"""INSERT INTO "t" VALUES ('C:\', 'CANARY')""", 'INSERT INTO "t" VALUES (?, ?)'),
        ("cql", r"""INSERT INTO "t" VALUES ('C:\', $$CANARY$$)""", 'INSERT INTO "t" VALUES (?, ?)'),
        (
            "mysql",
            r"""SELECT `a` FROM t WHERE b = "CAN'ARY" OR c = 'CAN\'"ARY' """,
            "SELECT `a` FROM t WHERE b = ? OR c = ? ",
        ),
        ("mysql", r"""SELECT "CAN\"ARY", "CAN""ARY", 4711""", "SELECT ?, ?, ?"),
    ],
)
def test_texts_end_where_the_dialect_ends_them(dialect: str, text: str, shown: str) -> None:
    assert hide_values(text, dialect) == shown


def test_a_digest_says_whether_texts_are_the_same() -> None:
    assert digest("SELECT 1") == digest("SELECT 1") != digest("SELECT 2")
    assert "SELECT" not in digest("SELECT 1")
