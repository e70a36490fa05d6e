"""XML as Active Harmony writes it (seed 000, Figure 4.1): Metadata with Nodeinfo and ParamList, RawData with a Data a trial.

What the figure has no element for stands in attributes of `HarmonyData` and `Data`, which its readers pass over. Read with
defusedxml: no entities, no document types, nothing from outside.
"""

from __future__ import annotations

import datetime
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from trimtab.errors import UsageError
from trimtab.history.formats.base import Imported, file_of, refuse
from trimtab.history.formats.partial import (
    measurement_of,
    of_one_kind,
    performance_of,
    scored,
    status_without_verdict,
    study_of,
)
from trimtab.history.formats.scalar import cell_of, value_of
from trimtab.history.record import StudyCopy
from trimtab.history.rows import target_kinds
from trimtab.history.space import knobs_from_json
from trimtab.measure import Interval
from trimtab.records import Context, Machine, Objective, Role, Status, Trial
from trimtab.space import Config, Knob, KnobKind, Value

__all__ = ["XmlFormat"]

_LARGEST_BYTES = 512 << 20
"""A document is held in memory as a whole, at several times its size."""

_FIRST_EPOCH_S = 100_000_000
"""A larger StartTime counts seconds since the epoch, a smaller one is an hour of the day."""

_TAG = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]*", re.IGNORECASE)
_LESS_IS_BETTER = "latency_mean"
_LOST = ("xml: left out were settings, constraints, verdict and events of the studies, and of the trials intervals, all metrics "
         "but the objective's, context features, searcher, seed, costs, effective values, histograms and counters")  # fmt: skip


class XmlFormat:
    """Active Harmony's XML: one element a study."""

    suffixes: Sequence[str] = (".xml",)
    is_exact = False
    is_database = False

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """A failed trial has an empty `Perf`; a knob whose name is no tag stands in `<Value name="…">`."""
        root = ET.Element("Harmony")
        for study in studies:
            root.append(_data_of(study))
        ET.indent(root)
        with open(place, "wb") as file:
            ET.ElementTree(root).write(file, encoding="us-ascii", xml_declaration=True)
        return (_LOST,)

    def read(self, place: str) -> Imported:
        """Takes documents of Active Harmony as well, which lack the attributes."""
        from defusedxml.common import DefusedXmlException
        from defusedxml.ElementTree import parse

        path = file_of(place)
        if path.stat().st_size > _LARGEST_BYTES:
            raise refuse(place, f"it is larger than {_LARGEST_BYTES} bytes", "export fewer studies at once")
        try:
            root = parse(path, forbid_dtd=True).getroot()
        except DefusedXmlException as error:
            raise refuse(
                place, f"it declares entities or a document type ({type(error).__name__})", "it is not plain XML"
            ) from error
        except (ET.ParseError, LookupError, ValueError, RecursionError) as error:  # LookupError: of an unknown encoding
            raise refuse(place, f"it is not XML: {error}") from error
        imported = Imported(())
        imported.studies = _studies(root, str(path), imported)
        return imported


def _data_of(study: StudyCopy) -> ET.Element:
    record = study.record
    found = ET.Element(
        "HarmonyData",
        name=cell_of(record.name),
        objective=record.objective,
        status=record.status,
        workload=cell_of(record.context.workload),
        clients=str(record.context.clients),
        target=cell_of(target_kinds(record.settings)),
        version=cell_of(record.machine.server_version),
        memory=str(record.machine.memory_bytes),
    )
    metadata = ET.SubElement(found, "Metadata")
    _add_machine(ET.SubElement(metadata, "Nodeinfo"), record.machine)
    _add(metadata, "AppName", cell_of(record.name))
    params = ET.SubElement(metadata, "ParamList")
    for knob in knobs_from_json(record.space).values():
        _add_param(params, knob)
    _add(metadata, "StartTime", cell_of(record.created_at))
    raw = ET.SubElement(found, "RawData")
    objective = Objective.parse(record.objective)
    for trial in study.trials:
        _add_trial(raw, trial, objective, record.context)
    return found


def _add(parent: ET.Element, tag: str, text: str, **attributes: str) -> ET.Element:
    found = ET.SubElement(parent, tag, attributes)
    found.text = text
    return found


def _add_machine(nodes: ET.Element, machine: Machine) -> None:
    node = ET.SubElement(nodes, "Node")
    for tag, value in (
        ("HostName", machine.hostname),
        ("Release", machine.kernel),
        ("ProcessorNum", machine.cores),
        ("CPUModel", machine.cpu_model),
        ("ClientID", 0),
    ):
        _add(node, tag, cell_of(value))


def _add_param(params: ET.Element, knob: Knob) -> None:
    param = ET.SubElement(params, "Param")
    _add(param, "paramName", cell_of(knob.name))
    if knob.low is not None and knob.high is not None:
        _add(param, "paramMin", cell_of(knob.low))
        _add(param, "paramMax", cell_of(knob.high))
        _add(
            param,
            "paramStep",
            cell_of(knob.step if knob.step is not None else 1 if knob.kind is KnobKind.INTEGER else 0),
        )
    for choice in knob.choices:
        _add(param, "paramValue", cell_of(choice))


def _add_trial(raw: ET.Element, trial: Trial, objective: Objective, usual: Context) -> None:
    """`usual` is the study's own context: only those of a cycle are others."""
    data = ET.SubElement(raw, "Data", number=str(trial.number), role=trial.role.value, status=trial.status.value)
    if trial.context != usual:
        data.set("workload", cell_of(trial.context.workload))
        data.set("clients", str(trial.context.clients))
    for name, loss in (("loss", trial.loss), ("loss_se", trial.loss_se)):
        if loss is not None:
            data.set(name, cell_of(float(loss)))
    if trial.reason:
        data.set("reason", cell_of(trial.reason))
    if trial.excess:
        data.set("excess", cell_of(float(trial.excess)))
    config = ET.SubElement(data, "Config")
    for name, value in trial.config.items():
        if _TAG.fullmatch(name):
            _add(config, name, cell_of(value))
        else:
            _add(config, "Value", cell_of(value), name=cell_of(name))
    value = performance_of(trial, objective)
    _add(data, "Perf", "" if trial.measurement is None else cell_of(float(value)))
    _add(data, "Time", _clock(trial.started_at), at=cell_of(trial.started_at))
    _add(data, "Client", "0")


def _clock(at: float) -> str:
    """The hour, as the figure shows it; UTC, so that the same study gives the same text everywhere."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%H:%M:%S") if 0 <= at < 2**38 else ""


def _studies(root: Any, place: str, imported: Imported) -> Iterator[StudyCopy]:
    if root.tag != "Harmony":
        raise refuse(
            place, f"its root is {root.tag[:60]!r}, not 'Harmony'", "give a file of Active Harmony's structure"
        )
    for data in root.findall("HarmonyData"):
        try:
            yield _study(data, imported)
        except (ValueError, UsageError, OverflowError) as error:
            raise refuse(place, getattr(error, "message", str(error))[:300]) from error


def _study(data: Any, imported: Imported) -> StudyCopy:
    metadata = data.find("Metadata")
    if metadata is None:
        metadata = ET.Element("Metadata")
    if data.get("objective") is None:
        imported.note(f"xml: the file names no objective; Perf is taken as {_LESS_IS_BETTER}: less is better")
    objective = Objective.parse(data.get("objective", _LESS_IS_BETTER))
    context = Context(_text(data.get("workload", "")), int(_whole(data.get("clients", "0"))))
    entries = [entry for raw in data.findall("RawData") for entry in raw.findall("Data")]
    trials = of_one_kind([_trial(number, entry, objective, context) for number, entry in enumerate(entries)])
    app_name = (metadata.findtext("AppName") or "").strip()
    record = study_of(
        name=_text(data.get("name") or app_name) or "harmony",
        objective=str(objective),
        configs=[trial.config for trial in trials],
        created_at=_start(metadata, imported),
        status=status_without_verdict(data.get("status", "stopped"), imported, "xml"),
        context=context,
        machine=_machine(data, metadata, imported),
        kinds=_text(data.get("target", "")),
        knobs=_knobs(metadata, trials),
    )
    # Ours tell each trial's loss, which is against the baseline of its time and context.
    has_losses = any(entry.get("loss") is not None for entry in entries)
    return StudyCopy(record, trials if has_losses else scored(trials, objective))


def _start(metadata: Any, imported: Imported) -> float:
    """Active Harmony writes the hour of the day (124139), of which no date can be made."""
    text = (metadata.findtext("StartTime") or "0.0").strip()
    value = value_of(text)
    if isinstance(value, float) or (type(value) is int and value > _FIRST_EPOCH_S):
        return float(value)
    imported.note(f"xml: StartTime={text[:20]!r} names no date and was left out")
    return 0.0


def _machine(data: Any, metadata: Any, imported: Imported) -> Machine:
    nodes = metadata.findall("Nodeinfo/Node")
    if len(nodes) > 1:
        imported.note(f"xml: a study ran on {len(nodes)} nodes; the first stands for all")
    node = nodes[0] if nodes else ET.Element("Node")
    left_out = sorted({child.tag for child in node} & {"sysName", "Machine", "CPUVendor", "CPUFreq", "CacheSize"})
    if left_out:
        imported.note(f"xml: facts of the nodes that have no place were left out: {', '.join(left_out)}")
    return Machine(
        cores=_whole((node.findtext("ProcessorNum") or "0").strip()),
        memory_bytes=_whole(data.get("memory", "0")),
        cpu_model=_text(node.findtext("CPUModel") or ""),
        kernel=_text(node.findtext("Release") or ""),
        hostname=_text(node.findtext("HostName") or ""),
        server_version=_text(data.get("version", "")),
    )


def _knobs(metadata: Any, trials: Sequence[Trial]) -> dict[str, Knob]:
    """The ranges of ParamList, where numbers; other knobs are made from what was tried."""
    found = {}
    baseline = trials[0].config if trials else Config({})
    for param in metadata.findall("ParamList/Param"):
        name = _text(param.findtext("paramName") or "")
        low, high, step = (value_of(param.findtext(tag) or '""') for tag in ("paramMin", "paramMax", "paramStep"))
        if isinstance(low, str | bool) or isinstance(high, str | bool):
            continue
        values = [trial.config[name] for trial in trials if name in trial.config]
        numbers = [value for value in values if not isinstance(value, str | bool)]
        if len(numbers) < len(values):
            continue
        is_whole = all(isinstance(value, int) for value in (low, high, *numbers))
        has_step = not isinstance(step, str | bool) and step > 0
        default = baseline.get(name, low)
        found[name] = Knob(
            name=name,
            kind=KnobKind.INTEGER if is_whole else KnobKind.REAL,
            low=min([low, *numbers]),
            high=max([high, *numbers]),
            step=step if has_step and not isinstance(step, str) and _is_on_step(low, step, numbers) else None,
            default=default,
        )
    return found


def _is_on_step(low: float, step: float, values: Sequence[float]) -> bool:
    """Whether every value lies on the step, so that it is legal in the knob's space."""
    return all(
        value >= low and math.isclose((value - low) / step, round((value - low) / step), abs_tol=1e-9)
        for value in values
    )


def _trial(number: int, entry: Any, objective: Objective, context: Context) -> Trial:
    values: dict[str, Value] = {}
    for child in entry.findall("Config/*"):
        name = _text(child.get("name", "")) if child.tag == "Value" and child.get("name") else child.tag
        values[name] = value_of(child.text or '""')
    text = (entry.findtext("Perf") or "").strip()
    perf = value_of(text) if text else math.nan
    if isinstance(perf, str | bool):
        raise ValueError(f"Perf={text[:40]!r} is not a number")
    is_measured = bool(text)
    time = entry.find("Time")
    at = value_of(time.get("at", "0.0")) if time is not None else 0.0
    interval = Interval(float(perf), math.nan, math.nan)
    return Trial(
        number=_whole(entry.get("number", str(number))),
        role=Role(entry.get("role", "search" if number else "baseline")),
        config=Config(values),
        context=replace(
            context,
            workload=_text(entry.get("workload", context.workload)),
            clients=_whole(entry.get("clients", str(context.clients))),
        ),
        status=Status(entry.get("status", "ok" if is_measured else "crashed")),
        reason=_text(entry.get("reason", "")),
        measurement=measurement_of({objective.metric: interval}) if is_measured else None,
        loss=_number(entry, "loss"),
        loss_se=_number(entry, "loss_se"),
        excess=_number(entry, "excess") or 0.0,
        started_at=0.0 if isinstance(at, str | bool) else float(at),
    )


def _number(entry: Any, name: str) -> float | None:
    """An attribute of ours; None where there is none."""
    value = value_of(text) if (text := entry.get(name)) is not None else None
    if isinstance(value, str | bool):
        raise ValueError(f"{name}={value!r} is not a number")
    return None if value is None else float(value)


def _text(text: str) -> str:
    """A text as `cell_of` wrote it; another program's as it stands, even where it looks like a number."""
    text = text.strip()
    return str(value_of(text)) if text.startswith('"') else text


def _whole(text: str) -> int:
    value = value_of(text)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return value
