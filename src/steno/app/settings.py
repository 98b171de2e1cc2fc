"""What can be set, how two settings of a name become one, and what a stranger's project may set.

This file reads nothing: where settings come from is the business of `configuration`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, TypeAlias, final

from msgspec import Meta, Struct

from steno.agent.permissions.policy import AgentRole
from steno.agent.permissions.rules import PermissionRule
from steno.agent.run_config import Limits
from steno.agent.steering import SteeringPolicy
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.messages.content import RecognitionMode
from steno.providers import CATALOG, Vendor
from steno.records.entry import Mode
from steno.tools.shell.sandbox import SandboxSetting as Sandbox
from steno.values import RedactedRepr

_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_Amount: TypeAlias = Annotated[float, Meta(gt=0)]
_Name: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
_Text: TypeAlias = Annotated[str, Meta(min_length=1)]


@final
class OcrEngineSetting(StrEnum):
    """What recognises text in images: whichever is installed, one of them, or nothing."""

    AUTO = "auto"
    RAPIDOCR = "rapidocr"
    TESSERACT = "tesseract"
    OFF = "off"


@final
class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user knows about a model, and neither the catalog nor its server says."""

    context_tokens: _Count | None = None
    vision: bool | None = None
    tools: bool | None = None


@final
class Settings(RedactedRepr, frozen=True, kw_only=True):
    """Everything that can be set. The names are those of the files; None: nobody said."""

    shown: ClassVar[frozenset[str]] = frozenset({"model"})

    model: _Text | None = None
    """`provider/model`; where nobody names one, one is looked for."""
    mode: Mode = Mode.ACT
    role: AgentRole = AgentRole.ACTOR
    allow: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()
    max_turns: _Count = 50
    max_total_tokens: _Count | None = None
    max_seconds: _Amount | None = None
    max_cost: _Amount | None = None
    max_tokens: _Count | None = None
    """Of one answer."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    store: _Text | None = None
    """The address of a store."""
    add_dirs: tuple[Path, ...] = ()
    """Folders beside the working folder, as their real absolute paths."""
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    sandbox: Sandbox = Sandbox.AUTO
    """Whether commands run inside a sandbox of the operating system."""
    network: bool = False
    """Whether commands in the sandbox may use the network."""
    env: tuple[_Name, ...] = ()
    """Variables that are passed on to commands, beside the harmless ones."""
    theme: _Text | None = None
    """How the full-screen terminal looks; see `/theme`."""
    plain: bool = False
    """Whether the terminal is used line by line, as screen readers like it."""
    steering: SteeringPolicy = SteeringPolicy.AFTER_CALLS
    telemetry: bool = False
    capture_content: bool = False
    """Whether telemetry holds what was said."""
    image_mode: RecognitionMode = RecognitionMode.AUTO
    """How images reach a model where nobody says it of one of them."""
    ocr: OcrEngineSetting = OcrEngineSetting.AUTO
    ocr_languages: tuple[_Name, ...] = ()
    """What Tesseract calls the languages that it looks for; by itself it takes those it has."""
    resource_ttl_s: Annotated[float, Meta(ge=0)] = 3600
    """How long what a server's resource holds is used again, where the server does not say."""
    resource_tokens: _Count | None = None
    """How much of a conversation resources may be, all together."""
    providers: Mapping[str, Vendor] = MappingProxyType(CATALOG)
    """All vendors: those of the catalog, and those of the user."""
    models: Mapping[str, ModelSettings] = MappingProxyType({})
    """By `provider/model`."""
    mcp_servers: Mapping[str, McpServerSpec] = MappingProxyType({})
    """By name. Those of a project's `.mcp.json` are not among them."""
    trusted_projects: tuple[Path, ...] = ()
    """Projects whose own file counts in full; only the user's file can say so."""

    @property
    def limits(self) -> Limits:
        """How far one run may go."""
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
"""What an environment variable can set."""
CUMULATIVE_NAMES: Final = frozenset(SETTING_NAMES) - frozenset(SCALAR_NAMES) | {
    "append_system_prompt"
}
"""What is not replaced where it is given twice."""


def variable_name(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"STENO_{name.upper()}"


def merge_setting(name: str, old: Any, new: Any) -> Any:
    """Return what counts where a setting was given twice.

    Lists add up, so that nothing takes a deny rule back; tables are joined by their keys; so are
    texts whose point it is to be appended. All others are replaced.
    """
    if isinstance(old, Mapping):
        return MappingProxyType({**old, **new})
    if isinstance(old, tuple):
        return tuple(dict.fromkeys((*old, *new)))
    return f"{old}\n\n{new}" if name in CUMULATIVE_NAMES and old else new


# -- projects that nobody trusts -------------------------------------------------------------------

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
    "append_system_prompt": _allow_always,  # a project can say as much in its AGENTS.md
    "sandbox": _allow_only(Sandbox.REQUIRE),
    "network": _allow_only(False),
    "image_mode": _allow_always,
    "ocr": _allow_always,
    "ocr_languages": _allow_always,
    "resource_tokens": _allow_if_lower,
}
"""When a setting counts that comes with a project: if it tightens something, or is mere taste.

The new value, the old one and the root of the project decide. What is not in this table could
spend the user's money, send keys or words somewhere else, or let commands do more: it never
counts. `trusted_projects` is not even for a trusted project to set.
"""
