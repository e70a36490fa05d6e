"""What clients send of a point: figures that are none, and reasons that are no text."""

from __future__ import annotations

import json
import math
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from trimtab.client import AsyncServer, Server, ServerError, choice, integer, real
from trimtab.client.synchronous import Session
from trimtab.client.wire import Place, begin_body, best_of, failure_body, report_body
from trimtab.serve.metrics import _metric


@pytest.mark.parametrize(
    ("value", "latencies_ms"),
    [(math.nan, None), (math.inf, None), ({"a": 1.0, "b": -math.inf}, None), (None, [1.0, math.nan])],
)
def test_what_is_not_finite_is_refused_as_the_server_would(value: Any, latencies_ms: Any) -> None:
    with pytest.raises(ServerError, match="is not finite") as caught:
        report_body(value, latencies_ms)
    assert (caught.value.status, caught.value.is_passing) == (422, False)


@pytest.mark.parametrize("value", ["no result", (1.0, 2.0), 10**400, {"cost": None}])
def test_what_is_no_number_is_refused_as_the_server_would(value: Any) -> None:
    with pytest.raises(ServerError, match="is not a number\nhint: report a point that gave no figure") as caught:
        report_body(value, None)
    assert (caught.value.status, caught.value.is_passing) == (422, False)
    with pytest.raises(ServerError, match="is not a number"):
        report_body(None, [1.0, value])


def test_figures_of_numerical_libraries_are_sent_as_numbers() -> None:
    body = report_body({"throughput": np.float32(2.5), "latency_p99": np.int64(3)}, np.array([1, 2]))
    assert json.loads(json.dumps(body)) == {
        "values": {"throughput": 2.5, "latency_p99": 3.0},
        "latencies_ms": [1.0, 2.0],
    }


def test_knobs_of_numerical_libraries_are_sent_as_numbers() -> None:
    ends: Any = np.array([1, 9])
    modes: Any = np.array(["slow", "fast"])
    knobs = [integer("x", ends[0], ends[1]), choice("mode", modes)]
    body = begin_body("s", knobs, {"seed": np.int64(7), "proof": np.bool_(False)})
    assert json.loads(json.dumps(body)) == {
        "name": "s",
        "knobs": [integer("x", 1, 9), choice("mode", ["slow", "fast"])],
        "seed": 7,
        "proof": False,
    }


@pytest.mark.parametrize(
    ("high", "said"), [(math.inf, "Out of range float values"), ({1}, r"\{1\} is not a value of JSON")]
)
def test_a_session_that_no_request_can_hold_is_refused_as_the_server_would(high: Any, said: str) -> None:
    with pytest.raises(ServerError, match=f"the session cannot be begun: {said}") as caught:
        begin_body("s", [real("x", 0.0, high)], {})
    assert (caught.value.status, caught.value.is_passing) == (422, False)


def test_a_reason_is_text_whatever_the_program_said() -> None:
    body = failure_body("cannot open caf\udce9" + "x" * 5000, "crashed")
    assert json.dumps(body, ensure_ascii=False).encode()
    assert body["failed"]["reason"].startswith("cannot open caf?x")
    assert len(body["failed"]["reason"]) == 4000


def test_a_place_is_read_without_the_ends_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a secret of a container has one; the server leaves it out, too."""
    monkeypatch.setenv("TRIMTAB_SERVER", "http://127.0.0.1:1979/\n")
    monkeypatch.setenv("TRIMTAB_TOKEN", "a-token-of-the-tests\n")
    found = Place.of(None, None)
    assert (found.url, found.headers) == ("http://127.0.0.1:1979", {"Authorization": "Bearer a-token-of-the-tests"})


@pytest.mark.parametrize("client", [Server, AsyncServer])
def test_certificates_that_cannot_be_read_are_said(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, url, token = tmp_path / "ca.pem", "https://127.0.0.1:1979", "a-token-of-the-tests"
    said = f"the certificates of file='{file}' cannot be read: "
    with pytest.raises(ServerError, match=f"{said}No such file or directory\nhint: name a file"):
        client(url, token, verify=str(file))
    file.write_text("no certificate\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ServerError, match=said):
        client(url, token)
    for verify in (False, str(tmp_path)):  # a folder of certificates
        client(url, token, verify=verify)
    client("http://127.0.0.1:1979", token)


def signed(folder: Path) -> None:
    """server.pem with its key, signed by ca.pem."""
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj"]
    # What later versions of Python ask of certificates is in them, too.
    said = ("subjectAltName=DNS:tuner.example.org", "subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid")
    (folder / "said").write_text("\n".join(said) + "\n")
    for words in (
        ["req", "-x509", *new, "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-addext",
         "keyUsage=critical,keyCertSign"],
        ["req", *new, "/CN=tuner.example.org", "-keyout", "server.key", "-out", "server.csr"],
        ["x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "said",
         "-out", "server.pem", "-days", "2"],
    ):  # fmt: skip
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Without a socket; raises ssl.SSLError where they do not come to terms."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    left = [
        client.wrap_bio(back, there, server_hostname="tuner.example.org"),
        server.wrap_bio(there, back, server_side=True),
    ]
    while left:
        for each in list(left):
            with suppress(ssl.SSLWantReadError):
                each.do_handshake()
                left.remove(each)


@pytest.mark.needs("openssl")
def test_a_server_is_trusted_by_its_own_certificate_whoever_has_signed_it(tmp_path: Path) -> None:
    """As by libcurl, so that one SSL_CERT_FILE does for both clients."""
    signed(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    for name in ("ca.pem", "server.pem"):
        client = Place.of("https://tuner.example.org:1979", "a-token-of-the-tests").trusted(str(tmp_path / name))
        assert isinstance(client, ssl.SSLContext)
        shake_hands(client, server)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_server_of_this_machine_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """It would be sent the token, and would ask another machine."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    url = f"http://{host}:1979"
    for server in (Server(url, "a-token-of-the-tests"), AsyncServer(url, "a-token-of-the-tests")):
        http: Any = server._http
        assert http._transport_for_url(httpx.URL(url)) is http._transport
        assert http._transport_for_url(httpx.URL("http://tuner.example.org:1979")) is not http._transport


@pytest.mark.parametrize(
    ("url", "token", "said"),
    [
        ("http://127.0.0.1:1979", "caf\u00e9-caf\u00e9-caf\u00e9-1", "the token is none"),
        ("http://127.0.0.1:1979", "two\nlines-of-a-token", "the token is none"),
        ("http://127.0.0.1:19\n79", "a-token-of-the-tests", "is not a URL"),
        ("http://127.0.0.1:1979/a b", "a-token-of-the-tests", "is not a URL"),
    ],
)
def test_a_place_that_no_request_can_name_is_said(url: str, token: str, said: str) -> None:
    with pytest.raises(ServerError, match=said):
        Place.of(url, token)


@pytest.mark.parametrize("answer", [{}, {"best": "x"}, {"best": {"config": {}, "gain": None, "is_proven": 1}}])
def test_what_something_else_answers_is_said(answer: Any) -> None:
    with pytest.raises(ServerError, match="the server's answer is not understood"):
        best_of(answer)


class Point:
    """Refuses what a server refuses."""

    def __init__(self, size: int) -> None:
        self.config = {"size": size}
        self.told: list[str] = []

    def report(self, value: float) -> None:
        report_body(value, None)
        if value <= 0:
            raise ServerError("value=0 is not above 0", status=422)
        self.told.append(f"{value:g}")

    def fail(self, reason: str, status: str = "crashed") -> None:
        self.told.append(f"{status}: {reason}")


class Points(list[Point]):
    """A session's points."""

    best = None


def test_a_function_that_returns_no_figure_does_not_end_the_tuning() -> None:
    points = Points(Point(size) for size in range(5))
    figures: dict[int, Any] = {0: 2.0, 1: math.nan, 2: 0.0, 3: 3.0, 4: "no result"}
    Session.tune(points, lambda size: figures[size])  # type: ignore[arg-type]
    assert [point.told[0] for point in points] == [
        "2", "failed_load: it returned nan: value=nan is not finite", "failed_load: it returned 0.0: value=0 is not above 0", "3",
        "failed_load: it returned 'no result': value='no result' is not a number",
    ]  # fmt: skip


def test_a_counter_has_all_its_digits() -> None:
    assert list(_metric("n", "counter", "Of all.", [({}, 1234567), ({"a": "b"}, 0.25)]))[2:] == [
        "n 1234567",
        'n{a="b"} 0.25',
    ]
