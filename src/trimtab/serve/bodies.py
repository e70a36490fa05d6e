"""What requests hold, as models: they check, and the OpenAPI document is made of them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trimtab.errors import UsageError
from trimtab.session.point import Report
from trimtab.session.spec import SessionSpec, faults_of

__all__ = [
    "BeginBody",
    "EmptyBody",
    "FetchBody",
    "JoinBody",
    "ReportBody",
    "RestartBody",
    "SectionBody",
    "StartBody",
    "read_body",
]

MOST_WAIT_S = 30.0


class BeginBody(SessionSpec):
    """POST /api/v1/sessions: a session, and whether one of this name that has ended is begun again."""

    again: bool = False

    def spec(self) -> SessionSpec:
        """Without what is only said here."""
        return SessionSpec.model_validate(self.model_dump(exclude={"again"}))


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class JoinBody(_Body):
    """A client's name is for people; it need not be unique. `request`: any text that is new for each client; a request that is
    sent again with the same one takes in no other client."""

    name: Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    request: Annotated[str, Field(max_length=100)] = ""


class FetchBody(_Body):
    """`wait_s`: how long the answer may wait for a point to become ready."""

    client: Annotated[str, Field(max_length=64)]
    wait_s: float = Field(default=0.0, ge=0.0, le=MOST_WAIT_S)


class ReportBody(Report):
    """What one run gave; see `Report`."""

    client: Annotated[str, Field(max_length=64)]
    ticket: Annotated[str, Field(max_length=64)]

    def report(self) -> Report:
        """Without who and what for; it was checked already."""
        return Report.model_construct(**{name: getattr(self, name) for name in Report.model_fields})


class StartBody(_Body):
    """`file`: name of a study file in the folder that the server was told."""

    file: Annotated[str, Field(max_length=200)]


_Names = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Values = Annotated[dict[_Names, int], Field(min_length=1, max_length=100)]


class SectionBody(_Body):
    """What a tuning section inside a program has learnt, as `tt_section_json` tells it; what a newer library adds is left out."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, strict=True)

    kind: Literal["trimtab section"]
    schema_version: Literal[1]
    section: _Names
    defaults: _Values
    values: _Values
    choices: list[_Names] = Field(default=[], max_length=100)
    default_ns: float = Field(ge=0)
    gain: float = Field(gt=0)
    gain_low: float = Field(gt=0)
    gain_high: float = Field(gt=0)


class EmptyBody(_Body):
    """Nothing."""


class RestartBody(_Body):
    """`request`: any text that is new for each restart; a request that is sent again with the same one restarts nothing."""

    request: Annotated[str, Field(max_length=100)] = ""


M = TypeVar("M", bound=BaseModel)


def read_body(model: type[M], data: bytes) -> M:
    """The body as `model`.

    Raises:
        UsageError: it is none; every key that is wrong is named.
    """
    try:
        return model.model_validate_json(data or b"{}")
    except ValidationError as error:
        raise UsageError(f"the request is not legal: {faults_of(error)}", hint="see docs/reference/api.md") from None
