"""Spaces to and from ConfigSpace (extra `configspace`), the space description that SMAC3 and others share.

Source: M. Lindauer et al., "BOAH: A Tool Suite for Multi-Fidelity Bayesian Optimization & Analysis of Hyperparameters",
arXiv:1908.06756 (2019), §3. Units, restart and safety classes travel in the hyper-parameters' `meta`. ConfigSpace has no
special values, so those become a choice beside the number; it has no sums or products, so of the constraints only
comparisons of two knobs can be expressed, and of the conditions only comparisons with a value. What cannot is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.errors import SpaceError, UsageError
from trimtab.search.parameters import Parameter, ParameterSpace
from trimtab.space import Constraint, Knob, KnobKind, RestartClass, SafetyClass, Space
from trimtab.space.rename import quoted

__all__ = ["Exported", "configspace_of", "from_configspace", "plain", "to_configspace"]

_META = "trimtab"


def _library() -> Any:
    try:
        import ConfigSpace
    except ImportError as error:
        raise UsageError("ConfigSpace is not installed", hint="pip install 'trimtab[configspace]'") from error
    return ConfigSpace


@dataclass(frozen=True, slots=True)
class Exported:
    """A space as ConfigSpace has it.

    Attributes:
        configspace: the `ConfigurationSpace`.
        parameter_space: translates configs of the one into values of the other.
        left_out: constraints and conditions that ConfigSpace cannot express.
    """

    configspace: Any
    parameter_space: ParameterSpace
    left_out: tuple[str, ...]


def to_configspace(space: Space, seed: int = 0) -> Exported:
    """`space` as a `ConfigurationSpace` that draws with `seed`.

    Raises:
        UsageError: ConfigSpace is not installed.
    """
    flat = ParameterSpace(space)
    meta = {name: _meta(space.knobs[name.removesuffix("?")]) for name in flat.parameters}
    conditions = [f"{knob.name} if {knob.condition}" for knob in space.knobs.values() if knob.condition]
    left_out = (*(constraint.text for constraint in space.constraints), *conditions)
    return Exported(configspace_of(flat.parameters.values(), seed, meta), flat, left_out)


def configspace_of(
    parameters: Iterable[Parameter], seed: int = 0, meta: Mapping[str, Mapping[str, Any]] | None = None
) -> Any:
    """A `ConfigurationSpace` of such parameters.

    Raises:
        UsageError: ConfigSpace is not installed.
    """
    library = _library()
    found = library.ConfigurationSpace(seed=seed)
    found.add([_hyperparameter(library, p, (meta or {}).get(p.name)) for p in parameters])
    return found


def _hyperparameter(library: Any, parameter: Parameter, meta: Mapping[str, Any] | None) -> Any:
    if parameter.kind == "choice":
        choices = parameter.choices
        return library.CategoricalHyperparameter(parameter.name, choices, default_value=parameter.default, meta=meta)
    kind = library.Integer if parameter.kind == "int" else library.Float
    bounds = (parameter.low, parameter.high)
    return kind(parameter.name, bounds, log=parameter.log, default=parameter.default, meta=meta)


def _meta(knob: Knob) -> dict[str, Any]:
    told = {
        "unit": knob.unit, "restart": knob.restart.value, "safety": knob.safety.value, "kind": knob.kind.value,
        "step": knob.step, "is_round": knob.is_round, "special": list(knob.special), "doc": knob.doc,
    }  # fmt: skip
    # The default may be special, or outside the useful range; here it has to lie inside.
    return {_META: {**told, "default": knob.default}}


def from_configspace(configspace: Any) -> Space:
    """The space that a `ConfigurationSpace` describes; one that `to_configspace` made comes back with its units and classes.

    Equality conditions become conditions, forbidden relations and forbidden values become constraints.

    Raises:
        SpaceError: a hyper-parameter, condition or forbidden clause of a kind that has no counterpart; it is named.
        UsageError: ConfigSpace is not installed.
    """
    library = _library()
    conditions = _conditions(library, configspace)
    knobs = [
        _knob(library, parameter, conditions.get(parameter.name), _special(configspace, parameter.name))
        for parameter in configspace.values()
        if not (parameter.name.endswith("?") and _META in (parameter.meta or {}))
    ]
    return Space(knobs, [_constraint(library, clause) for clause in configspace.forbidden_clauses])


def _special(configspace: Any, name: str) -> tuple[int | float, ...]:
    meta = (configspace[name].meta or {}).get(_META, {})
    return tuple(meta.get("special", ()))


def _knob(library: Any, parameter: Any, condition: str | None, special: tuple[int | float, ...]) -> Knob:
    told = (parameter.meta or {}).get(_META, {})
    kept: dict[str, Any] = {
        "name": parameter.name, "condition": condition, "doc": told.get("doc", ""), "unit": told.get("unit", ""),
        "restart": RestartClass(told.get("restart", "reload")),
        "safety": SafetyClass(told.get("safety", "performance")),
    }  # fmt: skip
    default = told.get("default", plain(parameter.default_value))
    if isinstance(parameter, (library.UniformIntegerHyperparameter, library.UniformFloatHyperparameter)):
        is_int = isinstance(parameter, library.UniformIntegerHyperparameter)
        kind = KnobKind(told.get("kind", "integer" if is_int else "real"))
        return Knob(
            kind=kind, low=parameter.lower, high=parameter.upper, log=parameter.log, step=told.get("step"),
            is_round=told.get("is_round", False), special=special, default=default, **kept,
        )  # fmt: skip
    labels = {
        library.CategoricalHyperparameter: ("choices", KnobKind.CHOICE),
        library.OrdinalHyperparameter: ("sequence", KnobKind.ORDINAL),
        library.Constant: (None, KnobKind.CHOICE),
    }
    for kind_of, (attribute, kind) in labels.items():
        if isinstance(parameter, kind_of):
            if _is_boolean(parameter):
                return Knob(kind=KnobKind.BOOLEAN, default=str(default) == "True", **kept)
            values = map(plain, getattr(parameter, attribute)) if attribute else (default,)
            choices = tuple(map(str, values))
            return Knob(kind=KnobKind(told.get("kind", kind)), choices=choices, default=str(default), **kept)
    raise SpaceError(
        f"hyper-parameter {parameter.name}: {type(parameter).__name__} has no counterpart",
        hint="use uniform integers and floats, categoricals, ordinals or constants",
    )


def _is_boolean(parameter: Any) -> bool:
    """Whether it was a boolean knob, or has the choices True and False; 1 and 0 are none."""
    if (parameter.meta or {}).get(_META, {}).get("kind") == KnobKind.BOOLEAN:
        return True
    return {repr(plain(value)) for value in getattr(parameter, "choices", ())} == {"False", "True"}


def plain(value: Any) -> Any:
    """A value as Python has it, not NumPy."""
    return value.item() if hasattr(value, "item") else value


def _literal(parameter: Any, value: Any) -> str:
    own = plain(value)
    if hasattr(parameter, "lower"):
        return repr(own)
    return str(own) if _is_boolean(parameter) else repr(str(own))


_SIGNS = {"Equals": "==", "NotEquals": "!=", "LessThan": "<", "GreaterThan": ">"}
_OPPOSITE = {"Equals": "!=", "LessThan": ">=", "GreaterThan": "<="}


def _conditions(library: Any, configspace: Any) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for condition in configspace.conditions:
        sign = _SIGNS.get(type(condition).__name__.removesuffix("Condition"))
        if sign is None and not isinstance(condition, library.InCondition):
            raise SpaceError(f"condition {condition} has no counterpart", hint="use comparisons with a value")
        parent = condition.parent
        if sign is None:
            texts = [f"{quoted(parent.name)} == {_literal(parent, value)}" for value in condition.values]
            text = " or ".join(texts)
        else:
            text = f"{quoted(parent.name)} {sign} {_literal(parent, condition.value)}"
        found.setdefault(condition.child.name, []).append(f"({text})")
    return {name: " and ".join(texts) for name, texts in found.items()}


def _constraint(library: Any, clause: Any) -> Constraint:
    name = type(clause).__name__.removeprefix("Forbidden")
    if name.endswith("Relation") and name.removesuffix("Relation") in _OPPOSITE:
        sign = _OPPOSITE[name.removesuffix("Relation")]
        return Constraint(f"{quoted(clause.left.name)} {sign} {quoted(clause.right.name)}")
    parts = clause.components if name == "AndConjunction" else [clause]
    texts = []
    for part in parts:
        if not isinstance(part, library.ForbiddenEqualsClause):
            raise SpaceError(
                f"forbidden clause {clause} has no counterpart", hint="use equalities, or relations of two"
            )
        texts.append(f"{quoted(part.hyperparameter.name)} != {_literal(part.hyperparameter, part.value)}")
    return Constraint(" or ".join(texts))
