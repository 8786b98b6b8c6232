"""Specifications of campaigns as people write them: `timeout="30m"`, `fallback="builtin"`, as in the YAML files."""

import datetime
import difflib
import math
import os
import re
from typing import Any, List, Mapping

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_DURATION = "google.protobuf.Duration"


def fields_of(descriptor: Any, given: Mapping[str, Any], place: str = "") -> Any:
    """Returns the arguments of a message's constructor for what was given. ValueError names what is wrong, and where.

    A duration is a text such as "90s" or "1h30m", a timedelta, or a number of seconds; a value of an enumeration is its
    name as in the YAML files; a list of one element can be the element. Messages are taken as they are.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"{place or descriptor.name} must be a dictionary, not {given!r}")
    known = descriptor.fields_by_name
    found = {}
    for name, value in given.items():
        path = f"{place}.{name}" if place else str(name)
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"; do you mean '{near[0]}'?" if near else f"; it must be one of {', '.join(sorted(known))}"
            raise ValueError(f"there is no field '{path}'{hint}")
        if value is None:
            continue
        if _is_repeated(known[name]):
            listed = value if isinstance(value, (list, tuple, set)) else [value]
            found[name] = [_value(known[name], each, f"{path}[{number}]") for number, each in enumerate(listed)]
        else:
            found[name] = _value(known[name], value, path)
    return found


def paths_of(descriptor: Any, given: Mapping[str, Any], place: str = "") -> List[str]:
    """Returns the paths of the fields that were given, such as ["stop.labels"], for an update mask."""
    found: List[str] = []
    for name, value in given.items():
        path = f"{place}.{name}" if place else str(name)
        field = descriptor.fields_by_name[name]
        whole = field.message_type is None or _is_repeated(field) or field.message_type.full_name == _DURATION
        found += [path] if whole or not isinstance(value, Mapping) or not value else paths_of(field.message_type, value, path)
    return found


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)  # of newer releases of protobuf
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _value(field: Any, value: Any, place: str) -> Any:
    if field.message_type is not None:
        if hasattr(value, "DESCRIPTOR"):
            return value
        if field.message_type.full_name == _DURATION and not isinstance(value, Mapping):
            return _duration(value, place)
        return fields_of(field.message_type, value, place)
    if field.enum_type is not None:
        return _choice(field.enum_type, value, place)
    if field.type == field.TYPE_STRING:
        if isinstance(value, (str, int, os.PathLike)) and not isinstance(value, bool):
            return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
        raise ValueError(f"{place} must be text, not {value!r}")
    if field.type == field.TYPE_BOOL:
        if isinstance(value, bool):
            return value
        raise ValueError(f"{place} must be True or False, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, (str, bool)) or math.isnan(number):
        raise ValueError(f"{place} must be a number, not {value!r}")
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return number
    if not number.is_integer():
        raise ValueError(f"{place} must be a whole number, not {value!r}")
    return int(value)


def _choice(enum: Any, value: Any, place: str) -> Any:
    if isinstance(value, int):
        return value
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.name).upper() + "_"
    names = {each.name[len(prefix):].lower().replace("_", "-"): each.number for each in enum.values if each.number}
    text = str(value)
    wanted = text[len(prefix):] if text.startswith(prefix) else text
    number = names.get(wanted.lower().replace("_", "-"))
    if number is None:
        raise ValueError(f"{place} is {value!r}; it must be {', '.join(names)}")
    return number


def _duration(value: Any, place: str) -> Any:
    if isinstance(value, datetime.timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        parts = re.findall(r"([0-9.]+)(ms|h|m|s)", value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            raise ValueError(f"{place} is {value!r}; it must be a duration such as 90s, 10m, 2h or 1h30m")
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    else:
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{place} must be a duration such as '10m', a timedelta or seconds, not {value!r}") from None
    if not 0 <= seconds < 1e11:
        raise ValueError(f"{place} is {value!r}, which is not a duration")
    nanos = round(seconds * 1e9)
    return {"seconds": nanos // 1_000_000_000, "nanos": nanos % 1_000_000_000}


__all__ = ["fields_of", "paths_of"]
