"""Settings of the regions in a TOML file, measured by `memdecay calibrate-decay` or by hand."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.region_settings import (
    BIT_WIDTHS,
    DEFAULT_TEMPLATE_WEIGHT,
    RegionSettings,
)
from memdecay.classifier.regions import Region, RegionDecay, RegionTable
from memdecay.classifier.storage import write_text_atomically

FORMAT_VERSION = 1
_META_KEYS = ("version", "model", "made_by")
_SCORE_KEYS = ("template_weight", "prior_weight")
_REGION_KEYS = ("initial_score", "decay", "weight", "max_share", "min_share", "min_bits")
_HINT = "write such a file with `memdecay calibrate-decay`, or see docs/regions.md"


def write_region_settings(path: Path, settings: RegionSettings) -> None:
    """Write settings to a file that `read_region_settings` reads back.

    Raises:
        StorageError: The file could not be written.
    """
    write_text_atomically(path, region_settings_toml(settings))


def region_settings_toml(settings: RegionSettings) -> str:
    """Return settings as a file's text; what stands at its default is left out."""
    lines = ["[meta]", f"version = {FORMAT_VERSION}"]
    lines += [
        f"{key} = {_quoted(value)}"
        for key, value in (("model", settings.model), ("made_by", settings.made_by))
        if value
    ]
    if score := _score_lines(settings):
        lines += ["", "[score]", *score]
    for region in Region:
        lines += ["", f"[regions.{region.label}]", *_row_lines(settings, region)]
    return "\n".join(lines) + "\n"


def _score_lines(settings: RegionSettings) -> list[str]:
    lines = []
    if settings.template_weight != DEFAULT_TEMPLATE_WEIGHT:
        lines.append(f"template_weight = {settings.template_weight!r}")
    if settings.prior_weight is not None:
        lines.append(f"prior_weight = {settings.prior_weight!r}")
    return lines


def _row_lines(settings: RegionSettings, region: Region) -> list[str]:
    fading, bits = settings.table[region], settings.min_bits[region]
    row: dict[str, float | None] = {
        "initial_score": float(fading.initial_score),
        "decay": float(fading.decay),
        "weight": settings.weights[region] or None,
        "max_share": settings.max_shares[region],
        "min_share": settings.min_shares[region] or None,
        "min_bits": bits if bits > BIT_WIDTHS[0] else None,
    }
    return [f"{key} = {value!r}" for key, value in row.items() if value is not None]


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's for basic strings, but for DEL and the signs above it.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_region_settings(path: Path) -> RegionSettings:
    """Read a file of settings; a region or key that it leaves out keeps its default.

    Raises:
        ConfigError: The file is missing or no TOML, or has a table, key or value that does not fit.
    """
    data = _parse(path)
    _refuse_unknown(path, "the file", data, ("meta", "score", "regions"))
    meta = _table(path, "[meta]", data.get("meta", {}))
    _check_meta(path, meta)
    score = _table(path, "[score]", data.get("score", {}))
    _refuse_unknown(path, "[score]", score, _SCORE_KEYS)
    regions = _table(path, "[regions]", data.get("regions", {}))
    _refuse_unknown(path, "[regions]", regions, [region.label for region in Region])
    rows = [_read_row(path, region, regions.get(region.label, {})) for region in Region]
    try:
        return RegionSettings(
            table=RegionTable(
                **{region.label: row.decay for region, row in zip(Region, rows, strict=True)}
            ),
            weights=tuple(row.weight for row in rows),
            max_shares=tuple(row.max_share for row in rows),
            min_shares=tuple(row.min_share for row in rows),
            min_bits=tuple(row.min_bits for row in rows),
            template_weight=_number(
                path, "[score]", score, "template_weight", DEFAULT_TEMPLATE_WEIGHT
            ),
            prior_weight=_number(path, "[score]", score, "prior_weight", 0.0)
            if "prior_weight" in score
            else None,
            model=str(meta.get("model", "")),
            made_by=str(meta.get("made_by", "")),
        )
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; mend that value") from error


@dataclass(frozen=True, slots=True)
class _Row:
    decay: RegionDecay
    weight: float
    max_share: float | None
    min_share: float
    min_bits: int


def _read_row(path: Path, region: Region, value: Any) -> _Row:
    name = f"[regions.{region.label}]"
    row = _table(path, name, value)
    _refuse_unknown(path, name, row, _REGION_KEYS)
    default = RegionTable()[region]
    score = _number(path, name, row, "initial_score", default.initial_score)
    decay = _number(path, name, row, "decay", default.decay)
    try:
        fading = RegionDecay(score, decay)
    except ValueError as error:
        raise ConfigError(f"{path}, {name}: {error}; mend that value") from error
    bits = row.get("min_bits", BIT_WIDTHS[0])
    if isinstance(bits, bool) or not isinstance(bits, int):
        raise ConfigError(
            f"{path}, {name}: min_bits must be one of {BIT_WIDTHS}, got {bits!r}; mend that value"
        )
    return _Row(
        decay=fading,
        weight=_number(path, name, row, "weight", 0.0),
        max_share=_number(path, name, row, "max_share", 0.0) if "max_share" in row else None,
        min_share=_number(path, name, row, "min_share", 0.0),
        min_bits=bits,
    )


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigError(f"the region file {path} can't be read ({reason}); {_HINT}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the region file {path} is no TOML ({error}); {_HINT}") from error


def _check_meta(path: Path, meta: Mapping[str, Any]) -> None:
    _refuse_unknown(path, "[meta]", meta, _META_KEYS)
    version = meta.get("version", FORMAT_VERSION)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ConfigError(
            f"{path}, [meta]: version must be a whole number from 1 to {FORMAT_VERSION}, got "
            f"{version!r}; {_HINT}"
        )
    if version > FORMAT_VERSION:
        raise ConfigError(
            f"{path} has format version {version}, but this memdecay reads up to version "
            f"{FORMAT_VERSION}; update memdecay or write the file again"
        )
    for key in ("model", "made_by"):
        if not isinstance(meta.get(key, ""), str):
            raise ConfigError(
                f"{path}, [meta]: {key} must be text, got {meta[key]!r}; mend that value"
            )


def _table(path: Path, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {name} must be a table, got {value!r}; {_HINT}")
    return value


def _refuse_unknown(path: Path, name: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := sorted(set(table) - set(known)):
        raise ConfigError(
            f"{path}: {name} has the unknown key {unknown[0]!r}; expected {', '.join(known)}"
        )


def _number(path: Path, name: str, row: Mapping[str, Any], key: str, default: float) -> float:
    value = row.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{path}, {name}: {key} must be a number, got {value!r}; mend that value")
    return float(value)
