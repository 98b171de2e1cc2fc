"""Resolve references to files, folders and patterns: to the text that the model reads.

Permission is asked for the name in the workspace, and exactly that name is opened: a link that is
swapped in between fails. A file that was shown counts as read, so that the model may change it. The
model sees all lines of a reference or none: a part would be taken for the whole.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, assert_never, cast, final

from msgspec import Struct

from steno.context.notes import file_heading
from steno.errors import InvalidArguments, ToolFailed
from steno.inputs.path_lookup import (
    FolderListing,
    PathLookupTimeout,
    find_matching_files,
    is_glob,
    list_folder,
    parse_listing,
    suggest_path,
    workspace_name,
)
from steno.messages.content import FileReference, Text
from steno.ports import Capability, ResolveContext, ResolvedReference
from steno.records.entry import Resolution, ResolutionStatus
from steno.schema.convert import convert_value
from steno.tools.path_patterns import printable_name
from steno.tools.safe_open import path_error, quote_path
from steno.tools.search import SEARCH_TIME_LIMIT_S, SearchEngine, choose_search_engine
from steno.tools.text_file import (
    TextFile,
    decode_text_file,
    describe_binary,
    detect_image_type,
    format_numbered_line,
)
from steno.tools.workspace import Fingerprint, Workspace
from steno.values import RedactedRepr


@final
class FileLimits(RedactedRepr, frozen=True, kw_only=True):
    """Limits for one reference."""

    max_bytes: int = 256 * 1024
    """Of the text with its line numbers."""
    max_files: int = 20
    """That a pattern may match."""
    max_listed: int = 500
    """Entries of a folder that are listed; the rest is counted."""
    timeout_s: float = SEARCH_TIME_LIMIT_S
    """For a search through folders."""


DEFAULT_FILE_LIMITS: Final = FileLimits()


@final
class FileReferenceResolver:
    """Resolves file references in a workspace, with the permissions of the tool `read`."""

    def __init__(
        self,
        workspace: Workspace | None,
        *,
        limits: FileLimits = DEFAULT_FILE_LIMITS,
        engine: SearchEngine | None = None,
    ) -> None:
        """Use the best search engine on this machine, unless one is given."""
        self._workspace: Final = workspace
        self._limits: Final = limits
        self._search_engine: Final = engine

    async def resolve(self, reference: FileReference, context: ResolveContext) -> ResolvedReference:
        """Return the text of a file, a folder or a pattern. A failure is a result with an error."""
        try:
            return await self._resolve(reference, context)
        except ToolFailed as exc:
            return ResolvedReference(error=str(exc), error_code=exc.code)

    def is_current(
        self, reference: FileReference, resolution: Resolution, context: ResolveContext
    ) -> bool:
        """Return whether it was resolved: a file that was shown is not shown again by itself."""
        return resolution.status is ResolutionStatus.RESOLVED

    async def changes(
        self,
        reference: FileReference,
        resolution: Resolution,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        """Return which files have changed since they were shown. Never raises.

        Files in `known` are skipped, and in folders their lines do not count.
        """
        workspace, recorded = self._workspace, read_recorded_paths(resolution.details)
        if workspace is None or recorded is None:
            return ()
        match recorded:
            case RecordedFile():
                return await asyncio.to_thread(find_changes, workspace, (recorded,), known)
            case RecordedFolder():
                return await self._changes_of_folder(workspace, recorded, resolution, known)
            case RecordedFileSet():
                return await self._changes_of_files(workspace, reference.path, recorded, known)
            case _:
                assert_never(recorded)

    # -- opening -----------------------------------------------------------------------------

    async def _resolve(
        self, reference: FileReference, context: ResolveContext
    ) -> ResolvedReference:
        workspace = self._workspace
        if workspace is None:
            raise path_error(
                reference.path,
                "there is no workspace, so no file can be opened; name a folder to work in",
                code="no_workspace",
            )
        name = await asyncio.to_thread(workspace_name, workspace, reference.path)
        if not await asyncio.to_thread(workspace.strict.exists, name):
            if is_glob(reference.path):
                return await self._show_matching(workspace, reference, context)
            suggestion = await suggest_path(workspace, self._choose_engine(workspace), name)
            hint = "" if suggestion is None else f"; do you mean {quote_path(suggestion)}?"
            raise path_error(name, f"there is no such file or folder{hint}", code="file_not_found")
        rule = await _require_read_permission(context, name, reference)
        if await asyncio.to_thread(_is_folder, workspace, name):
            return await self._show_folder(workspace, reference, name, rule=rule)
        return await asyncio.to_thread(self._show_file, workspace, reference, name, rule)

    def _show_file(
        self, workspace: Workspace, reference: FileReference, name: str, rule: str
    ) -> ResolvedReference:
        data = workspace.strict.read_file(name)
        text, details = extract_lines(name, data, reference, max_bytes=self._limits.max_bytes)
        workspace.strict.mark_as_read(name, data)
        return ResolvedReference(content=(Text(text),), details={**details, "allowed_by": rule})

    async def _show_folder(
        self, workspace: Workspace, reference: FileReference, name: str, *, rule: str
    ) -> ResolvedReference:
        _check_without_lines(reference, "a folder")
        text, left_out = await self._list_folder(workspace, name)
        details = {
            "kind": "folder",
            "path": name,
            "sha256": _text_digest(text),
            "left_out": left_out,
            "allowed_by": rule,
        }
        notice = f"{printable_name(name)}: holds {left_out:,} more names than are shown"
        return ResolvedReference(
            content=(Text(text),), details=details, notice=notice if left_out else ""
        )

    async def _show_matching(
        self, workspace: Workspace, reference: FileReference, context: ResolveContext
    ) -> ResolvedReference:
        _check_without_lines(reference, "a pattern")
        names = await self._find_matching_files(workspace, reference.path)
        if not names:
            raise path_error(
                reference.path,
                "no file fits; what is hidden or ignored is left out",
                code="no_file_matches",
            )
        if len(names) > self._limits.max_files:
            raise path_error(
                reference.path,
                f"{len(names):,} files fit, and no more than"
                f" {self._limits.max_files} can be shown; narrow the pattern",
                code="too_many_files",
            )
        rules = [await _require_read_permission(context, name, reference) for name in names]
        extracts = await asyncio.to_thread(self._extract_files, workspace, reference, names)
        return ResolvedReference(
            content=tuple([Text(text) for text, _ in extracts]),
            details={
                "kind": "pattern",
                "files": [
                    {**details, "allowed_by": rule}
                    for (_, details), rule in zip(extracts, rules, strict=True)
                ],
            },
        )

    def _extract_files(
        self, workspace: Workspace, reference: FileReference, names: Sequence[str]
    ) -> list[FileExtract]:
        max_bytes = remaining_bytes = self._limits.max_bytes
        extracts: list[FileExtract] = []
        contents: dict[str, bytes] = {}
        for name in names:
            data = workspace.strict.read_file(name)
            try:
                extracts.append(extract_lines(name, data, reference, max_bytes=remaining_bytes))
            except NotTextFile as exc:
                raise _pattern_error(
                    reference, name, f"is not text but {exc.kind}", code="not_text"
                ) from None
            except ExtractTooLong:
                if len(data) > max_bytes:
                    too_long = (
                        f"has {len(data):,} bytes, and no more than {max_bytes:,} can be shown"
                    )
                    raise _pattern_error(
                        reference, name, too_long, code="extract_too_long"
                    ) from None
                raise path_error(
                    reference.path,
                    f"{len(names)} files fit, which are together too long"
                    f" to be shown, with more than {max_bytes:,} bytes; narrow the pattern",
                    code="files_too_long",
                ) from None
            remaining_bytes -= len(extracts[-1].text.encode())
            contents[name] = data
        for name, data in contents.items():
            workspace.strict.mark_as_read(name, data)
        return extracts

    # -- changes since -----------------------------------------------------------------------

    async def _changes_of_folder(
        self,
        workspace: Workspace,
        recorded: RecordedFolder,
        resolution: Resolution,
        known: frozenset[str],
    ) -> tuple[str, ...]:
        known_names = {_entry_inside(path, recorded.path) for path in known} - {""}
        try:
            if not await asyncio.to_thread(workspace.strict.exists, recorded.path):
                return (gone_text(recorded.path),)
            # With room for new entries, so that nothing that was shown is omitted because of them.
            current = await self._list_folder(
                workspace, recorded.path, extra_entries=len(known_names)
            )
        except PathLookupTimeout:
            return (unclear_text(recorded.path),)
        except ToolFailed:
            return (unreadable_text(recorded.path),)
        recorded_listing = _recorded_listing(resolution)
        if recorded_listing is None or not known_names:
            is_same = _text_digest(current.text) == recorded.sha256
        else:
            is_same = _is_same_listing(
                recorded_listing, current, frozenset(map(printable_name, known_names))
            )
        return () if is_same else (changed_text(recorded.path),)

    async def _changes_of_files(
        self, workspace: Workspace, pattern: str, recorded: RecordedFileSet, known: frozenset[str]
    ) -> tuple[str, ...]:
        changes = await asyncio.to_thread(find_changes, workspace, recorded.files, known)
        if not is_glob(pattern):
            return changes
        try:
            names = await self._find_matching_files(workspace, pattern)
        except PathLookupTimeout:
            return (*changes, unclear_text(pattern))
        except ToolFailed:
            return changes  # the folder is gone, and all of its files with it
        known |= {file.path for file in recorded.files}
        return (*changes, *new_files_text([name for name in names if name not in known]))

    async def _find_matching_files(self, workspace: Workspace, pattern: str) -> list[str]:
        engine, timeout_s = self._choose_engine(workspace), self._limits.timeout_s
        return await find_matching_files(workspace, engine, pattern, timeout_s=timeout_s)

    async def _list_folder(
        self, workspace: Workspace, name: str, *, extra_entries: int = 0
    ) -> FolderListing:
        max_entries, timeout_s = self._limits.max_listed + extra_entries, self._limits.timeout_s
        return await list_folder(workspace, name, max_entries=max_entries, timeout_s=timeout_s)

    def _choose_engine(self, workspace: Workspace) -> SearchEngine:
        return (
            choose_search_engine(workspace) if self._search_engine is None else self._search_engine
        )


async def _require_read_permission(
    context: ResolveContext, name: str, reference: FileReference
) -> str:
    """Return what allows a file or folder to be read. Raises ToolFailed."""
    first, last = reference.start_line, reference.end_line or reference.start_line
    preview = name if first is None else f"{name}, lines {first} to {last}"
    shown_name = printable_name(name)
    return await context.require_permission(
        "read", Capability.READ, name, name=shown_name, preview=preview
    )


def _is_folder(workspace: Workspace, name: str) -> bool:
    """Return whether to open it as a folder; if it changes before, opening fails."""
    try:
        return stat.S_ISDIR(os.lstat(workspace.root / name).st_mode)
    except OSError:
        return False


def _check_without_lines(reference: FileReference, kind: str) -> None:
    if reference.start_line is not None:
        raise path_error(
            reference.path, f"is {kind}, which has no lines; name a file", code="has_no_lines"
        )


def _text_digest(text: str) -> str:
    return Fingerprint.of(text.encode()).sha256


def _pattern_error(reference: FileReference, name: str, problem: str, *, code: str) -> ToolFailed:
    """Return an error about one file of a pattern; the user did not name the file."""
    return path_error(
        reference.path,
        f"fits {printable_name(name)}, which {problem}; narrow the pattern",
        code=code,
    )


# -- extracts -------------------------------------------------------------------------------------


class ExtractTooLong(ToolFailed):
    """The lines of a reference take more bytes than may be shown."""

    code = "extract_too_long"


class NotTextFile(ToolFailed):
    """A file is not text; `kind` describes its content."""

    code = "not_text"

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(f"is not text but {kind}", place=quote_path(name))
        self.kind = kind


class FileExtract(NamedTuple):
    """The text of a file for the model, and its details for the log."""

    text: str
    details: dict[str, Any]


def extract_lines(
    name: str, data: bytes, reference: FileReference, *, max_bytes: int
) -> FileExtract:
    """Return the lines of a file that a reference is about, under the name it was opened by.

    Raises NotTextFile, ToolFailed for lines that do not exist, ExtractTooLong if they take more
    than `max_bytes`.
    """
    file = _decode_file(name, data)
    lines = file.lines
    first = reference.start_line or 1
    last = reference.end_line or reference.start_line or len(lines)
    size, sha256 = Fingerprint.of(data)
    details: dict[str, Any] = {
        "kind": "file",
        "path": name,
        "sha256": sha256,
        "bytes": size,
        "encoding": file.label,
        "lines": len(lines),
    }
    if not lines and reference.start_line is None:
        return FileExtract(f"[{printable_name(name)} is empty]", details)
    if last > len(lines):
        raise path_error(
            name, f"{_missing_lines_text(first, last, len(lines))}", code="line_not_found"
        )
    details |= {"first_line": first, "last_line": last}
    heading = f"{file_heading(printable_name(name), first, last, len(lines))}\n"
    shown, last_fitting = _number_lines(
        lines, first, last, remaining_bytes=max_bytes - len(heading.encode())
    )
    if last_fitting < last:
        raise ExtractTooLong(
            _too_long_text(size, first, last_fitting, max_bytes), place=quote_path(name)
        )
    return FileExtract(heading + shown, details)


def _decode_file(name: str, data: bytes) -> TextFile:
    image = detect_image_type(data)
    file = decode_text_file(data) if image is None else None
    if file is None:
        kind = describe_binary(data) if image is None else f"an image ({image})"
        raise NotTextFile(name, f"{kind} of {len(data):,} bytes")
    return file


def _number_lines(
    lines: list[str], first: int, last: int, *, remaining_bytes: int
) -> tuple[str, int]:
    """Return lines with their numbers, and the last one for which there is room."""
    shown: list[str] = []
    for number in range(first, last + 1):
        line = format_numbered_line(number, lines[number - 1])
        remaining_bytes -= len(line.encode())
        if remaining_bytes < 0:
            return "", number - 1
        shown.append(line)
    return "".join(shown), last


def _missing_lines_text(first: int, last: int, count: int) -> str:
    count_text = {0: "no lines", 1: "only 1 line"}.get(count, f"only {count:,} lines")
    range_text = f"line {first}" if first == last else _format_range(first, last)
    advice = f"; name {_format_range(first, count)}" if first <= count else ""
    return f"has {count_text}, so {range_text} is not there{advice}"


def _too_long_text(size: int, first: int, fitting: int, max_bytes: int) -> str:
    if fitting < first:
        return (
            f"line {first} alone takes more than {max_bytes:,} bytes, and no more"
            " can be shown; ask about it instead, and the model can search it"
        )
    return (
        f"has {size:,} bytes, and no more than {max_bytes:,} can be shown at once,"
        f" with the numbers of lines; name lines behind the path, such as :{_format_range(first, fitting)}"
    )


def _format_range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


# -- recorded listings ----------------------------------------------------------------------------


def _recorded_listing(resolution: Resolution) -> FolderListing | None:
    """Return the listing that the model was shown, if the log has it."""
    left_out = (resolution.details or {}).get("left_out")
    match resolution.content:
        case (Text(text),) if isinstance(left_out, int):
            return FolderListing(text, left_out)
        case _:
            return None


def _entry_inside(path: str, folder: str) -> str:
    """Return the entry of a folder that a path is in; empty if it is elsewhere."""
    if folder == ".":
        return "" if path.startswith("/") else path.partition("/")[0]
    is_inside = path.startswith(f"{folder}/")
    return path[len(folder) + 1 :].partition("/")[0] if is_inside else ""


def _is_same_listing(before: FolderListing, now: FolderListing, known: frozenset[str]) -> bool:
    """Compare two listings, except for known names; names that were only counted are ignored."""
    lines = {name: line for name, line in parse_listing(before).items() if name not in known}
    current_lines = {name: line for name, line in parse_listing(now).items() if name not in known}
    return lines.items() <= current_lines.items() if before.left_out else lines == current_lines


# -- changed files -------------------------------------------------------------------------------


_MAX_NAMED_FILES: Final = 20
"""Of new files; the rest is counted."""


@final
class RecordedFile(Struct, frozen=True, tag_field="kind", tag="file"):
    """The identity of a recorded file."""

    path: str
    sha256: str
    bytes: int


@final
class RecordedFolder(Struct, frozen=True, tag_field="kind", tag="folder"):
    """A recorded folder, and the hash of its listing."""

    path: str
    sha256: str


@final
class RecordedFileSet(Struct, frozen=True, tag_field="kind", tag="pattern"):
    """The files that a pattern matched."""

    files: tuple[RecordedFile, ...]


RecordedPaths: TypeAlias = RecordedFile | RecordedFolder | RecordedFileSet


def read_recorded_paths(details: Mapping[str, Any] | None) -> RecordedPaths | None:
    """Return the paths in the details of a resolution; None if it was not of a file."""
    try:
        return cast("RecordedPaths", convert_value(details, RecordedPaths))
    except InvalidArguments:
        return None


def read_recorded_image(details: Mapping[str, Any] | None) -> RecordedFile | None:
    """Return the file that an image was read from; None if it came from elsewhere."""
    recorded = read_recorded_paths({**(details or {}), "kind": "file"})
    return recorded if isinstance(recorded, RecordedFile) else None


def find_changes(
    workspace: Workspace, files: Iterable[RecordedFile], known: frozenset[str]
) -> tuple[str, ...]:
    """Return which files have changed, a line each, without known ones. Never raises."""
    unknown = [file for file in files if file.path not in known]
    changes = [_find_change(workspace, file) for file in unknown]
    return tuple([change for change in changes if change is not None])


def _find_change(workspace: Workspace, recorded: RecordedFile) -> str | None:
    try:
        if not workspace.strict.exists(recorded.path):
            return gone_text(recorded.path)
        with workspace.strict.open_file(recorded.path) as file:
            has_size = os.fstat(file.fileno()).st_size == recorded.bytes
            is_same = (
                has_size and Fingerprint.of(file.read(recorded.bytes)).sha256 == recorded.sha256
            )
    except (ToolFailed, OSError):
        return unreadable_text(recorded.path)
    return None if is_same else changed_text(recorded.path)


# -- text ------------------------------------------------------------------------------------


def changed_text(name: str) -> str:
    """Return that a file is not what was shown."""
    return f"{printable_name(name)} has changed since it was shown"


def gone_text(name: str) -> str:
    """Return that a file is gone."""
    return f"{printable_name(name)} is gone"


def unreadable_text(name: str) -> str:
    """Return that a file cannot be read, so that its state is unknown."""
    return f"{printable_name(name)} cannot be read any more"


def unclear_text(name: str) -> str:
    """Return that a check took too long."""
    return f"{printable_name(name)} could not be looked through in time, so it may have changed"


def new_files_text(names: Sequence[str]) -> tuple[str, ...]:
    """Return which files a pattern matches that it did not match before."""
    lines = [f"{printable_name(name)} is new" for name in names[:_MAX_NAMED_FILES]]
    if len(names) > _MAX_NAMED_FILES:
        lines.append(f"{len(names) - _MAX_NAMED_FILES:,} more files are new")
    return tuple(lines)
