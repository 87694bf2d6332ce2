"""JSON Schema of the output of ``--json``, made from one class per kind of document.

A document names its kind and version in ``schema``, for instance ``glassformer/table/1``. A key that is removed, is
renamed or gets another meaning makes a new version; an added key does not.
"""

from __future__ import annotations

import argparse
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model

from glassformer.cli.output import KINDS, schema_name
from glassformer.core.errors import ParameterError
from glassformer.core.status import Status

StatusName = Annotated[str, Field(pattern=f"^({'|'.join(map(str, Status))})$", description="status of the computation")]
Alpha = Annotated[float | None, Field(description="sample ratio; null if it is infinite or does not exist")]
ErrorEstimate = Annotated[float | None, Field(description="absolute error of alpha; null if alpha is null")]
Reached = Annotated[
    Literal["at_alpha", "never", "unknown", "does_not_apply"], Field(description="meaning of alpha if it is null")
]
Parameters = Annotated[dict[str, JsonValue], Field(description="parameters of the computation, by name")]


def add(parser: argparse.ArgumentParser) -> None:
    """The kind of document."""
    parser.add_argument("kind", nargs="?", help=f"{', '.join(KINDS)} (default: list the names of all)")


def run(options: argparse.Namespace) -> int:
    """Print a schema, or the names of all schemas."""
    if options.kind is None:
        print("\n".join(schema_name(kind) for kind in KINDS))
    else:
        print(json.dumps(json_schema(options.kind), indent=2))
    return 0


class _Closed(BaseModel):
    """An object of these keys and no others."""

    model_config = ConfigDict(extra="forbid")


class _Open(BaseModel):
    """An object of these keys and, for quantities of some models or learners, further ones."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]


class Point(_Open):
    """A row: a number, vector or matrix of every quantity; null if it is not finite."""

    alpha: Alpha
    status: StatusName


class Table(_Closed):
    """Quantities against the sample ratio, by limits, simulate, hysteresis and trajectory."""

    model: str
    parameters: Parameters
    points: list[Point]
    notes: list[str] = []


class Threshold(_Open):
    """A threshold: a sample ratio at which a phase begins."""

    name: str
    alpha: Alpha
    error_estimate: ErrorEstimate
    note: str
    reached: Reached
    layer: str | None = None
    subspace: list[list[float]] | None = None


class Thresholds(_Open):
    """All thresholds of a model, and the exponents of a link."""

    model: str
    parameters: Parameters
    thresholds: list[Threshold]
    hard_phase: bool | None = Field(description="null if unknown")
    hard_phase_reason: str


class DiagramPoint(_Open):
    """A threshold at one value of the parameter that varies; the parameter is a key of its own."""

    threshold: str
    alpha: Alpha
    error_estimate: ErrorEstimate
    note: str
    reached: Reached


class PhaseDiagram(_Closed):
    """Thresholds against one parameter."""

    model: str
    parameters: Parameters
    parameter: str
    points: list[DiagramPoint]


class LandscapeCurve(Table):
    """Free entropy against the overlap at one sample ratio."""

    alpha: float
    hard_phase: bool
    maxima: list[float]
    minima: list[float]
    diverges_at_overlap_one: bool


class Landscapes(_Closed):
    """One curve for each sample ratio."""

    model: str
    landscapes: list[LandscapeCurve]


class Outlier(_Closed):
    """Few values of an estimate outside its other bulks."""

    value: float
    share: float
    teacher: float
    overlap: float


class EstimateSpectrum(Table):
    """Law of the singular values of an estimate at one sample ratio."""

    alpha: float
    atom: float
    edges: list[list[float]]
    outliers: list[Outlier]


class Spectra(_Closed):
    """One law for each sample ratio."""

    model: str
    spectra: list[EstimateSpectrum]


class WidthPlan(Table):
    """Errors over the width of the student."""

    quantity: str
    target: float
    alpha: float
    best: float
    gain: float
    needed: float


class Needed(_Closed):
    """Sample ratio at which a learner reaches the target."""

    name: str
    alpha: Alpha
    error_estimate: ErrorEstimate
    samples: int | None
    note: str
    reached: Literal["at_alpha", "never_seen", "unknown"]
    status: StatusName


class Plan(_Closed):
    """Sample ratios at which a target is reached."""

    model: str
    parameters: Parameters
    quantity: str
    target: float
    d: int | None
    needed: list[Needed]
    thresholds: list[Threshold]
    curves: dict[str, JsonValue]
    notes: list[str]


class Sweep(_Closed):
    """Progress of a sweep: number of points with each status."""

    total: int
    computed: int
    counts: dict[str, int]
    complete: bool


class Check(_Closed):
    """A check of the installation, with its result or its error."""

    name: str
    ok: bool
    seconds: float
    found: str


class Doctor(_Closed):
    """Versions, machine and checks of an installation."""

    versions: dict[str, str | None]
    machine: dict[str, JsonValue]
    checks: list[Check]
    ok: bool


_DOCUMENTS: dict[str, type[BaseModel]] = dict(
    zip(KINDS, (Table, Thresholds, PhaseDiagram, Landscapes, Spectra, Plan, WidthPlan, Sweep, Doctor), strict=True)
)


def document(kind: str) -> type[BaseModel]:
    """Return the class of the documents of a kind, with the name of their schema.

    Raises:
        ParameterError: an unknown kind.

    Example:
        >>> found = {"schema": "glassformer/sweep/1", "total": 1, "computed": 1, "counts": {}, "complete": True}
        >>> document("sweep").model_validate(found).total
        1
    """
    if kind not in _DOCUMENTS:
        raise ParameterError("kind", kind, f"one of {', '.join(KINDS)}")
    named: Any = Field(alias="schema", pattern=f"^{schema_name(kind)}$")
    return create_model(kind, __base__=_DOCUMENTS[kind], __doc__=_DOCUMENTS[kind].__doc__, schema_=(str, named))


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of document.

    Raises:
        ParameterError: an unknown kind.

    Example:
        >>> json_schema("table")["$id"], json_schema("table")["required"]
        ('glassformer/table/1', ['model', 'parameters', 'points', 'schema'])
    """
    draft, found = "https://json-schema.org/draft/2020-12/schema", document(kind)
    return {"$schema": draft, "$id": schema_name(kind), **found.model_json_schema()}
