"""Asks an application for a page, beside the load: whether it is deployed, and can use its database."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass
from urllib.parse import urlencode

from trimtab.errors import LoadError
from trimtab.host.http import http_connection
from trimtab.records import Endpoint

__all__ = ["Answer", "ask", "require_page"]

_TIMEOUT_S = 60.0
_MARK = re.compile(
    r"<!-- (?:error kind=(?P<kind>\w+) app=\w+ state=\w+|\w+ (?P<state>\w+) (?P<outcome>\w+)(?P<facts>[^>]*)) -->\n\Z"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A page.

    Attributes:
        status: of HTTP.
        text: all of it.
    """

    status: int
    text: str

    @property
    def outcome(self) -> str:
        """ "ok" or "sorry" as its mark says; else the kind of error, as PAGES.md has them."""
        mark = _MARK.search(self.text)
        if mark is None:
            return f"http_{self.status}" if self.status != http.client.OK else "cut"
        return mark["kind"] or mark["outcome"]

    @property
    def state(self) -> str:
        """Which page it says that it is; "" for one that failed."""
        mark = _MARK.search(self.text)
        return (mark["state"] or "") if mark is not None else ""

    @property
    def facts(self) -> dict[str, str]:
        """What its mark says besides."""
        mark = _MARK.search(self.text)
        words = (mark["facts"] or "").split() if mark is not None else []
        return dict(word.split("=", 1) for word in words)

    @property
    def words(self) -> str:
        """What an error page says, for people."""
        found = re.search(r"<p>(.*?)</p>", self.text, re.DOTALL)
        return " ".join(found[1].split())[:300] if found is not None else ""


def ask(there: Endpoint, path: str, form: dict[str, str] | None = None) -> Answer:
    """The page of that path; a POST where there is a form.

    Raises:
        LoadError: the site cannot be reached.
    """
    is_encrypted = there.options.get("scheme") == "https"
    connection = http_connection(there.host, there.port, is_encrypted=is_encrypted, timeout_s=_TIMEOUT_S)
    try:
        if form is None:
            connection.request("GET", path)
        else:
            header = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", path, urlencode(form).encode(), header)
        response = connection.getresponse()
        return Answer(response.status, response.read().decode("utf-8", errors="replace"))
    except (OSError, http.client.HTTPException) as error:
        raise LoadError(
            f"the site of endpoint={there.host}:{there.port} cannot be reached: {error}",
            hint="check that it runs, and that it passes requests on to the application",
        ) from error
    finally:
        connection.close()


def require_page(there: Endpoint, application: str, path: str, form: dict[str, str] | None = None) -> Answer:
    """The same, as it should be.

    Raises:
        LoadError: the site cannot be reached, the application is not there, or the page fails; the message says why.
    """
    answer = ask(there, path, form)
    if answer.outcome == "ok":
        return answer
    if answer.outcome.startswith("http_") or answer.outcome == "cut":
        raise LoadError(
            f"application={application} is not deployed at {there.host}:{there.port}: {path} has status={answer.status}",
            hint="the log of the application server says why; what is in front of it must pass on every path",
        )
    raise LoadError(
        f"page={path} of application={application} failed: kind={answer.outcome} ({answer.words})",
        hint=_HINTS.get(answer.outcome, "the log of the application server has more"),
    )


_HINTS = {
    "refused": "the database must be up, let in as many connections as the pool of the application server has, and encrypt them"
    " where the target's url asks for it (sslmode)",
    "pool": "no connection of the pool became free: is the database stuck, or the pool too small?",
}
