"""What exactly is run? The configuration of a trial, its normal form, digest and overrides."""

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from harness.domains import DomainConfig, Text
from harness.models.tiny import TinyShape
from harness.training.config import Keep, Method, Sft, check_fit


@dataclass(frozen=True, kw_only=True)
class Specialist:
    """How a teacher of one domain is made from the base, and how strong it must get.

    `gap_nats` is the held-out cross-entropy of the base minus the specialist's, on its domain.
    Training stops at the first check that passes the target, or after `training.steps`; without a
    target it takes them all.
    Both are measured on `gap_sequences` sequences.
    `width` above the student's makes a wider teacher, trained from its own initialisation.
    """

    gap_nats: float | None
    training: Sft
    check_every_steps: int = 10
    gap_sequences: int = 256
    width: int | None = None

    def __post_init__(self) -> None:
        if self.gap_nats is not None and not self.gap_nats > 0:
            raise ValueError(f"gap_nats must be positive, got {self.gap_nats}")
        for name in ("check_every_steps", "gap_sequences"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How many sequences per domain, at the end and at points of the curve (0: no curve)."""

    sequences: int = 128
    curve_sequences: int = 32
    curve_points: int = 4

    def __post_init__(self) -> None:
        for name, low in {"sequences": 1, "curve_sequences": 1, "curve_points": 0}.items():
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """Everything a trial depends on but its seed. A trial is a pure function of the two.

    `base_domains` is what the base was trained on, where that is more than `domains`: so trials
    with different numbers of teachers share base and specialists.
    """

    domains: tuple[DomainConfig, ...]
    student: TinyShape
    base: Sft
    specialist: Specialist
    method: Method
    evaluation: Evaluation
    base_domains: tuple[DomainConfig, ...] = ()

    @property
    def pretrained_on(self) -> tuple[DomainConfig, ...]:
        """What the base has seen."""
        return self.base_domains or self.domains

    def __post_init__(self) -> None:
        if not self.domains:
            raise ValueError("domains must name at least one domain")
        names = [domain.name for domain in self.pretrained_on]
        if len(set(names)) < len(names):
            raise ValueError(f"domains must have distinct names, got {names}")
        missing = [domain.name for domain in self.domains if domain not in self.pretrained_on]
        if missing:
            raise ValueError(f"base_domains must contain all of domains, but lack {missing}")
        for shared in ("vocabulary_size", "prompt_tokens", "sequence_tokens", "end_token"):
            values = [getattr(domain, shared) for domain in self.pretrained_on]
            if len(set(values)) > 1:
                raise ValueError(f"domains must share one {shared}, got {values}")
        width = self.specialist.width or self.student.width
        replace(self.student, width=width)
        if self.method == Keep(model="average") and width != self.student.width:
            allowed = f"the student's {self.student.width} for an average"
            raise ValueError(f"specialist.width must be {allowed}, got {width}")
        check_fit("base", self.base, len(self.pretrained_on), self.domains[0].vocabulary_size)
        check_fit("method", self.method, len(self.domains), self.domains[0].vocabulary_size)


def normal_form(value: Any) -> Any:
    """Plain JSON of a configuration: every field, defaults too, and the type of every object.

    A domain that reads files gives their digest too, so that other text is another cell.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        form = {"type": type(value).__name__}
        if isinstance(value, Text):
            form["corpus_digest"] = value.corpus_digest
        return form | {
            f.name: normal_form(getattr(value, f.name)) for f in dataclasses.fields(value)
        }
    if isinstance(value, tuple | list):
        return [normal_form(entry) for entry in value]
    return value


def from_normal_form(form: Any, expected: Any = TrialConfig) -> Any:
    """The object whose `normal_form` this is.

    Raises ValueError on an unknown type or field, and on text that is no longer what it was.
    """
    if isinstance(form, list):
        arguments = typing.get_args(expected)
        return tuple(from_normal_form(entry, arguments[0]) for entry in form)
    if not isinstance(form, dict):
        return form
    members = [member for member in _members(expected) if isinstance(member, type)]
    classes: dict[str, Any] = {c.__name__: c for c in members if dataclasses.is_dataclass(c)}
    name = form.get("type")
    if name not in classes:
        raise ValueError(f"type must be one of {sorted(classes)}, got {name!r}")
    hints = typing.get_type_hints(classes[name])
    form = dict(form)
    corpus_digest = form.pop("corpus_digest", None)
    unknown = set(form) - set(hints) - {"type"}
    if unknown:
        raise ValueError(f"{name} has no field {sorted(unknown)[0]!r}; it has {sorted(hints)}")
    fields = {k: from_normal_form(v, hints[k]) for k, v in form.items() if k != "type"}
    value = classes[name](**fields)
    if corpus_digest is not None and corpus_digest != value.corpus_digest:
        raise ValueError(f"the text of domain {value.name!r} has changed since this was planned")
    return value


def digest(config: TrialConfig, seed: int) -> str:
    """Names the cell: equal for equal configuration and seed, on every machine."""
    return content_digest({"config": normal_form(config), "seed": seed})


def content_digest(form: Any) -> str:
    """Sixteen hex digits of the SHA-256 of canonical JSON."""
    canonical = json.dumps(form, sort_keys=True, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def override(config: Any, path: str, text: str) -> Any:
    """`config` with the field at a dotted path (`domains.0.path`) set to `text`, typed as declared.

    Raises ValueError naming the path, what is allowed and what was given.
    """
    return override_all(config, {path: text})


def override_all(config: Any, settings: Mapping[str, str]) -> Any:
    """Like `override` for several paths at once: what is only valid together is set together."""
    split = [_Setting(path.split("."), text, path) for path, text in settings.items()]
    return _override(config, split, type(config))


class _Setting(NamedTuple):
    keys: list[str]
    text: str
    path: str


def _override(value: Any, settings: list[_Setting], hint: Any) -> Any:
    below: dict[str, list[_Setting]] = {}
    for keys, text, path in settings:
        if not keys:
            return _parse(text, hint, path)
        below.setdefault(keys[0], []).append(_Setting(keys[1:], text, path))
    if isinstance(value, tuple):
        entries = list(value)
        for key, inner in below.items():
            if not key.isdigit() or int(key) >= len(value):
                raise ValueError(f"{inner[0].path}: {key!r} must be an index below {len(value)}")
            entries[int(key)] = _override(entries[int(key)], inner, typing.get_args(hint)[0])
        return tuple(entries)
    names = [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    changed = {}
    for key, inner in below.items():
        if key not in names:
            allowed = ", ".join(names) or "none"
            raise ValueError(f"{inner[0].path}: no field {key!r}; allowed: {allowed}")
        field_hint = typing.get_type_hints(type(value))[key]
        changed[key] = _override(getattr(value, key), inner, field_hint)
    try:
        return dataclasses.replace(value, **changed)
    except ValueError as error:
        raise ValueError(f"{', '.join(s.path for s in settings)}: {error}") from None


def _parse(text: str, hint: Any, path: str) -> Any:
    """`text` as the first member of `hint` that accepts it."""
    members = _members(hint)
    if text == "none" and type(None) in members:
        return None
    for member in members:
        if typing.get_origin(member) is Literal:
            if text in typing.get_args(member):
                return text
        elif member in (int, float, str):
            try:
                return member(text)
            except ValueError:
                continue
        elif member is bool and text in ("true", "false"):
            return text == "true"
    raise ValueError(f"{path}: expected {_describe(members)}, got {text!r}")


def _members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the type itself."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _describe(members: tuple[Any, ...]) -> str:
    names: list[str] = []
    for member in members:
        if typing.get_origin(member) is Literal:
            names += [str(value) for value in typing.get_args(member)]
        else:
            names.append("none" if member is type(None) else member.__name__)
    return " or ".join(names)


def changed_fields(one: Any, other: Any, prefix: str = "") -> set[str]:
    """Dotted paths at which two configurations differ; a changed type counts at its own path."""
    if type(one) is not type(other):
        return {prefix}
    if dataclasses.is_dataclass(one):
        pairs = [(f.name, getattr(one, f.name), getattr(other, f.name))
                 for f in dataclasses.fields(one)]  # fmt: skip
    elif isinstance(one, tuple) and len(one) == len(other):
        pairs = [(str(i), a, b) for i, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return set() if one == other else {prefix}
    dot = f"{prefix}." if prefix else ""
    return set().union(*(changed_fields(a, b, dot + name) for name, a, b in pairs))
