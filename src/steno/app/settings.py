"""The settings: types, defaults, how two values merge, and what an untrusted project may set.

This module reads nothing: `settings_loader` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, TypeAlias, final

from msgspec import Meta, Struct

from steno.agent.permissions.rules import AgentRole, PermissionRule
from steno.agent.run_config import Limits
from steno.agent.steering import SteeringPolicy
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.messages.content import RecognitionMode
from steno.providers import CATALOG, Vendor
from steno.records.entry import Mode
from steno.tools.shell.sandbox import SandboxSetting
from steno.values import RedactedRepr

_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_Amount: TypeAlias = Annotated[float, Meta(gt=0)]
_Name: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
_Text: TypeAlias = Annotated[str, Meta(min_length=1)]


@final
class OcrEngineSetting(StrEnum):
    """The OCR engine: the first that is installed, a named one, or none."""

    AUTO = "auto"
    RAPIDOCR = "rapidocr"
    TESSERACT = "tesseract"
    OFF = "off"


@final
class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a model that neither the catalog nor its server knows."""

    context_tokens: _Count | None = None
    vision: bool | None = None
    tools: bool | None = None


@final
class Settings(RedactedRepr, frozen=True, kw_only=True):
    """All settings, under their names in the files. None: not set."""

    shown: ClassVar[frozenset[str]] = frozenset({"model"})

    model: _Text | None = None
    """`provider/model`; without one, steno searches for a model."""
    mode: Mode = Mode.ACT
    role: AgentRole = AgentRole.ACTOR
    allow: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()
    max_turns: _Count = 50
    max_total_tokens: _Count | None = None
    max_seconds: _Amount | None = None
    max_cost: _Amount | None = None
    max_tokens: _Count | None = None
    """Of one response."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    store: _Text | None = None
    """The address of a store."""
    add_dirs: tuple[Path, ...] = ()
    """Folders in addition to the working folder, as their real absolute paths."""
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    sandbox: SandboxSetting = SandboxSetting.AUTO
    """Whether commands run inside a sandbox of the operating system."""
    network: bool = False
    """Whether commands in the sandbox may use the network."""
    env: tuple[_Name, ...] = ()
    """Variables that commands receive in addition to the harmless ones."""
    theme: _Text | None = None
    """The theme of the full-screen terminal; see `/theme`."""
    plain: bool = False
    """Whether the terminal works line by line, as screen readers need it."""
    steering: SteeringPolicy = SteeringPolicy.AFTER_CALLS
    telemetry: bool = False
    capture_content: bool = False
    """Whether telemetry holds the content of messages."""
    image_mode: RecognitionMode = RecognitionMode.AUTO
    """How images reach a model, unless a prompt sets it for one of them."""
    ocr: OcrEngineSetting = OcrEngineSetting.AUTO
    ocr_languages: tuple[_Name, ...] = ()
    """The languages that Tesseract recognises, by its own names; by default all installed ones."""
    resource_ttl_s: Annotated[float, Meta(ge=0)] = 3600
    """How long the content of a resource is reused, where its server sets no time."""
    resource_tokens: _Count | None = None
    """How many tokens of a conversation all resources together may take."""
    providers: Mapping[str, Vendor] = MappingProxyType(CATALOG)
    """All vendors: those of the catalog, and those of the user."""
    models: Mapping[str, ModelSettings] = MappingProxyType({})
    """By `provider/model`."""
    mcp_servers: Mapping[str, McpServerSpec] = MappingProxyType({})
    """By name. Those of a project's `.mcp.json` are not among them."""
    trusted_projects: tuple[Path, ...] = ()
    """Projects whose file counts in full; only the user's file can set this."""

    @property
    def limits(self) -> Limits:
        """The limits of one run."""
        return Limits(
            turns=self.max_turns,
            tokens=self.max_total_tokens,
            seconds=self.max_seconds,
            cost=None if self.max_cost is None else Decimal(str(self.max_cost)),
        )


DEFAULTS: Final = Settings()
SETTING_NAMES: Final = Settings.__struct_fields__
SCALAR_NAMES: Final = tuple(
    [name for name in SETTING_NAMES if not isinstance(getattr(DEFAULTS, name), tuple | Mapping)]
)
"""Settings that have an environment variable."""
CUMULATIVE_NAMES: Final = frozenset(SETTING_NAMES) - frozenset(SCALAR_NAMES) | {
    "append_system_prompt"
}
"""Settings that are merged, not replaced, where they are set twice."""


def variable_name(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"STENO_{name.upper()}"


def merge_setting(name: str, old: Any, new: Any) -> Any:
    """Return the value of a setting that was set twice.

    Lists are joined, so that no file can take a deny rule back; tables are joined by their keys;
    so are texts that are meant to be appended. All others are replaced.
    """
    if isinstance(old, Mapping):
        return MappingProxyType({**old, **new})
    if isinstance(old, tuple):
        return tuple(dict.fromkeys((*old, *new)))
    return f"{old}\n\n{new}" if name in CUMULATIVE_NAMES and old else new


# -- untrusted projects ----------------------------------------------------------------------------

_TrustCheck: TypeAlias = Callable[[Any, Any, Path], bool]


def _allow_always(new: Any, old: Any, project: Path) -> bool:
    return True


def _allow_if_lower(new: float, old: float | None, project: Path) -> bool:
    return old is None or new <= old


def _allow_only(value: object) -> _TrustCheck:
    return lambda new, old, project: new == value


ALLOWED_UNTRUSTED: Final[Mapping[str, _TrustCheck]] = {
    "mode": _allow_only(Mode.PLAN),
    "role": _allow_only(AgentRole.PLANNER),
    "deny": _allow_always,
    "max_turns": _allow_if_lower,
    "max_total_tokens": _allow_if_lower,
    "max_seconds": _allow_if_lower,
    "max_cost": _allow_if_lower,
    "max_tokens": _allow_if_lower,
    "temperature": _allow_always,
    "add_dirs": lambda new, old, project: all(path.is_relative_to(project) for path in new),
    "append_system_prompt": _allow_always,  # its AGENTS.md has the same effect
    "sandbox": _allow_only(SandboxSetting.REQUIRE),
    "network": _allow_only(False),
    "image_mode": _allow_always,
    "ocr": _allow_always,
    "ocr_languages": _allow_always,
    "resource_tokens": _allow_if_lower,
}
"""When a setting of an untrusted project counts: if it tightens something, or is harmless.

The new value, the old one and the root of the project decide. A setting outside of this table could
spend the user's money, send keys or messages elsewhere, or let commands do more: it never counts.
Not even a trusted project can set `trusted_projects`.
"""
