"""Resolve references to files, folders and patterns to text for the model.

Permission is requested for the canonical name in the workspace, and exactly that name is opened;
opening fails if a part of the path has been replaced by a link in the meantime. A file that was
sent to the model counts as read, so that the model may edit it. A reference is sent with all of its
lines or fails, because the model would mistake a part for the whole. Folders and patterns leave out
hidden and ignored files, as the search tools do.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
import stat
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, assert_never, cast, final

from msgspec import Struct

from steno.context.notes import file_heading, folder_heading, former_folder_heading
from steno.errors import InvalidArguments, InvalidValue, ToolFailed
from steno.messages.content import FileReference, Text
from steno.ports import Capability, ResolveContext, ResolvedReference
from steno.records.entry import Resolution, ResolutionStatus
from steno.schema.convert import convert_value
from steno.suggest import closest_name
from steno.tools.cancellable_thread import check_not_cancelled, run_in_cancellable_thread
from steno.tools.path_patterns import (
    IgnoreRules,
    asks_for_hidden_names,
    build_filter_below,
    printable_name,
)
from steno.tools.safe_open import explain_os_errors, open_path, path_error, quote_path
from steno.tools.search import (
    SEARCH_TIME_LIMIT_S,
    SearchEngine,
    check_exists,
    choose_search_engine,
    filter_paths,
)
from steno.tools.text_file import (
    LineReader,
    decode_text_file,
    describe_binary,
    detect_image_type,
    format_numbered_line,
)
from steno.tools.workspace import Fingerprint, Workspace
from steno.values import RedactedRepr, is_utf8_text

T = TypeVar("T")

_GLOB_CHARACTERS: Final = frozenset("*?[{")
_MAX_COMPARED_NAMES: Final = 2_000
_NAMES_AT_ONCE: Final = 8
"""The maximum number of names in a folder that are compared with a missing name."""
_SUGGEST_TIMEOUT_S: Final = 3.0
"""The time limit of the search for a file to suggest."""
_MAX_NAMED_FILES: Final = 20
"""The number of new files that are listed by name; further files are only counted."""
_ENTRY_SUFFIX: Final = re.compile(r" \((?:[0-9,]+ bytes|link)\)\Z")
"""Matches the size or kind that follows a name in a listing."""


@final
class FileLimits(RedactedRepr, frozen=True, kw_only=True):
    """The limits for resolving one file reference."""

    max_bytes: int = 256 * 1024
    """The maximum size of the text, including its line numbers."""
    max_files: int = 20
    """The maximum number of files that a pattern may match."""
    max_listed: int = 500
    """The maximum number of folder entries that are listed; further entries are only counted."""
    timeout_s: float = SEARCH_TIME_LIMIT_S
    """The time limit of a search through folders."""


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
        """Create a resolver; `engine` defaults to the best search engine on this machine."""
        self._workspace: Final = workspace
        self._limits: Final = limits
        self._search_engine: Final = engine

    async def resolve(self, reference: FileReference, context: ResolveContext) -> ResolvedReference:
        """Resolve a file, folder or pattern to text.

        A failure is returned as a result with an error.
        """
        try:
            return await self._resolve(reference, context)
        except ToolFailed as exc:
            return ResolvedReference(error=str(exc), error_code=exc.code)

    def is_current(
        self, reference: FileReference, resolution: Resolution, context: ResolveContext
    ) -> bool:
        """Return whether the reference was resolved.

        A changed file also counts as current, so that no file is sent to the model twice.
        """
        return resolution.status is ResolutionStatus.RESOLVED

    async def changes(
        self,
        reference: FileReference,
        resolution: Resolution,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        """Return a line for each file or folder that has changed since it was shown. Never raises.

        New files that a pattern matches count as changed. Files in `known`, whose changes the model
        already knows, are skipped, including in the listing of a folder.
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
            message = "files cannot be opened without a workspace; pass a Workspace"
            raise path_error(reference.path, message, code="no_workspace")
        name = await asyncio.to_thread(workspace_name, workspace, reference.path)
        if not await asyncio.to_thread(workspace.strict.exists, name):
            if is_glob(reference.path):
                return await self._show_matching(workspace, reference, context)
            suggestion = await _suggest_path(workspace, self._engine(workspace), name)
            hint = "" if suggestion is None else f"; did you mean {quote_path(suggestion)}?"
            raise path_error(name, f"no such file or folder{hint}", code="file_not_found")
        rule = await _require_read_permission(context, name, reference)
        if await asyncio.to_thread(_is_folder, workspace, name):
            return await self._show_folder(workspace, reference, name, rule=rule)
        return await asyncio.to_thread(self._show_file, workspace, reference, name, rule)

    def _show_file(
        self, workspace: Workspace, reference: FileReference, name: str, rule: str
    ) -> ResolvedReference:
        data = workspace.strict.read_file(name)
        text, details = _extract_lines(name, data, reference, self._limits.max_bytes)
        workspace.strict.mark_as_read(name, data)
        return ResolvedReference(content=(Text(text),), details={**details, "allowed_by": rule})

    async def _show_folder(
        self, workspace: Workspace, reference: FileReference, name: str, *, rule: str
    ) -> ResolvedReference:
        _check_without_lines(reference, "a folder")
        text, left_out, _ = await self._list_folder(workspace, name)
        details = {
            "kind": "folder",
            "path": name,
            "sha256": _text_digest(text),
            "left_out": left_out,
            "allowed_by": rule,
        }
        entries = "1 more entry is" if left_out == 1 else f"{left_out:,} more entries are"
        notice = f"{printable_name(name)}: {entries} not shown"
        return ResolvedReference(
            content=(Text(text),), details=details, notice=notice if left_out else ""
        )

    async def _show_matching(
        self, workspace: Workspace, reference: FileReference, context: ResolveContext
    ) -> ResolvedReference:
        _check_without_lines(reference, "a pattern")
        names = await self._find_matching_files(workspace, reference.path)
        if not names:
            message = "no file matches the pattern; hidden and ignored files are left out"
            raise path_error(reference.path, message, code="no_file_matches")
        if len(names) > self._limits.max_files:
            too_many = f"{len(names):,} files match, more than the limit of"
            message = f"{too_many} {self._limits.max_files}; narrow the pattern"
            raise path_error(reference.path, message, code="too_many_files")
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
    ) -> list[_FileExtract]:
        max_bytes = remaining_bytes = self._limits.max_bytes
        extracts: list[_FileExtract] = []
        contents: dict[str, bytes] = {}
        for name in names:
            data = workspace.strict.read_file(name)
            # The user named the pattern, not this file.
            place = f"matches {printable_name(name)}, which"
            try:
                extracts.append(_extract_lines(name, data, reference, remaining_bytes))
            except _NotTextFile as exc:
                message = f"{place} {exc.message}; narrow the pattern"
                raise path_error(reference.path, message, code=exc.code) from None
            except _ExtractTooLong as exc:
                if len(data) > max_bytes:
                    too_long = f"has {len(data):,} bytes, more than the limit of {max_bytes:,}"
                    message = f"{place} {too_long}; narrow the pattern"
                    raise path_error(reference.path, message, code=exc.code) from None
                raise path_error(
                    reference.path,
                    f"{len(names)} files match, which together exceed the limit of"
                    f" {max_bytes:,} bytes; narrow the pattern",
                    code="files_too_long",
                ) from None
            remaining_bytes -= len(extracts[-1][0].encode())
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
                return (_gone(recorded.path),)
            # List more entries, so that known new ones do not displace those that were shown.
            current = await self._list_folder(
                workspace, recorded.path, extra_entries=len(known_names)
            )
        except _PathLookupTimeout:
            return (_unclear(recorded.path),)
        except ToolFailed:
            return (_unreadable(recorded.path),)
        left_out = (resolution.details or {}).get("left_out")
        match resolution.content:
            case (Text(text),) if isinstance(left_out, int) and known_names:
                shown_names = frozenset(map(printable_name, known_names))
                before = _FolderListing(text, left_out).lines_except(shown_names).items()
                now = current.lines_except(shown_names).items()
                # Entries that were only counted cannot be compared.
                is_same = before <= now if left_out else before == now
            case _:
                texts = (current.text, current.former_text)
                is_same = recorded.sha256 in map(_text_digest, texts)
        return () if is_same else (_changed(recorded.path),)

    async def _changes_of_files(
        self, workspace: Workspace, pattern: str, recorded: RecordedFileSet, known: frozenset[str]
    ) -> tuple[str, ...]:
        changes = await asyncio.to_thread(find_changes, workspace, recorded.files, known)
        if not is_glob(pattern):
            return changes
        try:
            names = await self._find_matching_files(workspace, pattern)
        except _PathLookupTimeout:
            return (*changes, _unclear(pattern))
        except ToolFailed:
            return changes  # the folder was deleted with all of its files
        known |= {file.path for file in recorded.files}
        new = [f"{printable_name(name)} is new" for name in names if name not in known]
        if len(new) > _MAX_NAMED_FILES:
            rest = len(new) - _MAX_NAMED_FILES
            files = "1 more file is" if rest == 1 else f"{rest:,} more files are"
            new[_MAX_NAMED_FILES:] = [f"{files} new"]
        return (*changes, *new)

    async def _find_matching_files(self, workspace: Workspace, pattern: str) -> list[str]:
        engine = self._engine(workspace)
        return await _find_matching_files(workspace, engine, pattern, self._limits.timeout_s)

    async def _list_folder(
        self, workspace: Workspace, name: str, *, extra_entries: int = 0
    ) -> _FolderListing:
        max_entries = self._limits.max_listed + extra_entries
        listing = run_in_cancellable_thread(lambda: _list_folder(workspace, name, max_entries))
        return await _with_timeout(self._limits.timeout_s, name, listing)

    def _engine(self, workspace: Workspace) -> SearchEngine:
        return self._search_engine or choose_search_engine(workspace)


async def _require_read_permission(
    context: ResolveContext, name: str, reference: FileReference
) -> str:
    """Return the rule that allows a file or folder to be read.

    Raises ToolFailed if reading is not allowed.
    """
    first, last = reference.start_line, reference.end_line or reference.start_line
    preview = name if first is None else f"{name}, lines {first} to {last}"
    shown_name = printable_name(name)
    return await context.require_permission(
        "read", Capability.READ, name, name=shown_name, preview=preview
    )


def _is_folder(workspace: Workspace, name: str) -> bool:
    """Return whether a name is a folder; False if that cannot be determined.

    If the name is replaced before it is opened, opening it fails.
    """
    try:
        return stat.S_ISDIR(os.lstat(workspace.root / name).st_mode)
    except OSError:
        return False


def _check_without_lines(reference: FileReference, kind: str) -> None:
    if reference.start_line is not None:
        message = f"is {kind}, which has no lines; name a file"
        raise path_error(reference.path, message, code="has_no_lines")


def _text_digest(text: str) -> str:
    return Fingerprint.of(text.encode()).sha256


class _PathLookupTimeout(ToolFailed):
    """A search for files took too long."""

    code = "lookup_timeout"


async def _with_timeout(limit_s: float, name: str, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(limit_s):
            return await work
    except TimeoutError:
        message = f"the search did not finish within {limit_s:g} s; narrow the path"
        raise _PathLookupTimeout(message, place=quote_path(name)) from None


def workspace_name(workspace: Workspace, path: str) -> str:
    """Return the canonical name of a path. Raises ToolFailed if it is outside the workspace."""
    try:
        return workspace.relative(path)
    except ToolFailed as exc:
        real = Path(os.path.realpath(workspace.root / path))
        if any(real.is_relative_to(root) for root in workspace.roots):
            raise
        message = f"{exc.message}; add the folder with --add-dir"
        raise ToolFailed(message, code=exc.code, place=exc.place) from exc


# -- extracts -------------------------------------------------------------------------------------

_FileExtract: TypeAlias = tuple[str, dict[str, Any]]
"""The text of a file for the model, and its details for the log."""


class _ExtractTooLong(ToolFailed):
    """The lines of a reference exceed the size limit."""

    code = "extract_too_long"


class _NotTextFile(ToolFailed):
    """A file is not text."""

    code = "not_text"


def _extract_lines(
    name: str, data: bytes, reference: FileReference, max_bytes: int
) -> _FileExtract:
    """Return the lines of a file that a reference names, under a heading with the file's name.

    Raises _NotTextFile if the file is not text, ToolFailed if a line does not exist, and
    _ExtractTooLong if the text is longer than `max_bytes`.
    """
    image = detect_image_type(data)
    file = decode_text_file(data) if image is None else None
    if file is None:
        kind = describe_binary(data) if image is None else f"an image ({image})"
        message = f"is not text but {kind} of {len(data):,} bytes"
        raise _NotTextFile(message, place=quote_path(name))
    total = file.line_count
    first = reference.start_line or 1
    last = reference.end_line or reference.start_line or total
    size, sha256 = Fingerprint.of(data)
    details: dict[str, Any] = {
        "kind": "file",
        "path": name,
        "sha256": sha256,
        "bytes": size,
        "encoding": file.label,
        "lines": total,
    }
    if not total and reference.start_line is None:
        return f"[{printable_name(name)} is empty]", details
    if last > total:
        raise path_error(name, _missing_lines_text(first, total), code="line_not_found")
    details |= {"first_line": first, "last_line": last}
    shown = [f"{file_heading(printable_name(name), first, last, total)}\n"]
    remaining_bytes = max_bytes - len(shown[0].encode())
    lines = LineReader(file.text, "\n")
    for number in range(first, last + 1):
        text = (lines.read(number) or "").removesuffix("\r")
        line = format_numbered_line(number, text)
        remaining_bytes -= len(line.encode())
        if remaining_bytes < 0:
            message = _too_long_text(size, first, number - 1, max_bytes)
            raise _ExtractTooLong(message, place=quote_path(name))
        shown.append(line)
    return "".join(shown), details


def _missing_lines_text(first: int, count: int) -> str:
    count_text = {0: "no lines", 1: "only 1 line"}.get(count, f"only {count:,} lines")
    missing = f"there is no line {max(first, count + 1)}"
    advice = f"; use {_format_range(first, count)}" if first <= count else ""
    return f"has {count_text}, so {missing}{advice}"


def _too_long_text(size: int, first: int, fitting: int, max_bytes: int) -> str:
    if fitting < first:
        return (
            f"line {first} alone exceeds the limit of {max_bytes:,} bytes;"
            " remove the @, so that the model can search the file"
        )
    return (
        f"has {size:,} bytes, and with line numbers exceeds the limit of {max_bytes:,};"
        f" add a line range after the path, such as :{_format_range(first, fitting)}"
    )


def _format_range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


# -- patterns -------------------------------------------------------------------------------------


def is_glob(path: str) -> bool:
    """Return whether a path contains glob characters."""
    return not _GLOB_CHARACTERS.isdisjoint(path)


async def _find_matching_files(
    workspace: Workspace, engine: SearchEngine, pattern: str, timeout_s: float
) -> list[str]:
    """Return the names of all files that a pattern matches, in order.

    `*` does not match a slash, as in a shell. Raises ToolFailed if the pattern is invalid or its
    folder is missing, and _PathLookupTimeout if the search takes too long.
    """
    steps = pattern.split("/")
    first_glob = next(number for number, step in enumerate(steps) if is_glob(step))
    folder, rest = "/".join(steps[:first_glob]), "/".join(steps[first_glob:])
    if not folder:
        folder = "/" if first_glob else "."
    try:
        # A leading slash anchors the pattern in this folder.
        under = await asyncio.to_thread(workspace_name, workspace, folder)
        matches = build_filter_below(under, f"/{rest}")
    except InvalidValue as exc:
        raise path_error(pattern, str(exc), code=exc.code) from exc
    await asyncio.to_thread(check_exists, workspace, under)

    async def find() -> list[str]:
        names = await engine.files(under, hidden=asks_for_hidden_names(rest))
        return await run_in_cancellable_thread(
            lambda: filter_paths(lambda name: name != under and matches(name), names)
        )

    return await _with_timeout(timeout_s, under, find())


# -- folders --------------------------------------------------------------------------------------


class _FolderListing(NamedTuple):
    """The entries of a folder, one per line, and the number of entries that are left out."""

    text: str
    left_out: int
    former_text: str = ""
    """The text as earlier versions of steno formatted it, because a log may contain its digest."""

    def lines_except(self, names: frozenset[str]) -> dict[str, str]:
        """Return the lines of the entries by printed name, except the entries in `names`."""
        lines = self.text.splitlines()[1 : -1 if self.left_out else None]
        by_name = {_ENTRY_SUFFIX.sub("", line).removesuffix("/"): line for line in lines}
        return {name: line for name, line in by_name.items() if name not in names}


def _list_folder(workspace: Workspace, name: str, max_entries: int) -> _FolderListing:
    """List the direct entries of a folder. Raises ToolFailed if it cannot be read."""
    ignored = IgnoreRules(workspace)
    entries = _read_folder(workspace.strict, name)

    def visible(names: Iterable[str], *, is_folder: bool = False) -> list[str]:
        paths = {name: str(workspace.root / name) for name in names}
        found = [e for e, path in paths.items() if not ignored.ignores(path, is_folder=is_folder)]
        return sorted(found)

    folders, files = visible(entries[0], is_folder=True), visible(entries[1])
    links = visible(_find_links(workspace, name))
    counts = [
        f"{len(names):,} {noun}{'' if len(names) == 1 else 's'}"
        for names, noun in ((folders, "folder"), (files, "file"), (links, "link"))
        if names or noun != "link"
    ]
    counted = f"{', '.join(counts[:-1])} and {counts[-1]}"
    lines: list[str] = []
    for position, path in enumerate((*folders, *files, *links)[:max_entries]):
        shown = printable_name(_base_name(path))
        if position < len(folders):
            lines.append(f"{shown}/")
        elif position < len(folders) + len(files):
            lines.append(shown + _size_note(workspace, path))
        else:
            lines.append(f"{shown} (link)")
    left_out = max(0, len(folders) + len(files) + len(links) - max_entries)
    if left_out:
        lines.append(f"[... {left_out:,} more ...]")
    text, former_text = (
        "\n".join([heading(printable_name(name), counted), *lines, ""])
        for heading in (folder_heading, former_folder_heading)
    )
    return _FolderListing(text, left_out, former_text)


def _read_folder(workspace: Workspace, folder: str) -> tuple[list[str], list[str]]:
    """Return the names of the folders and files in a folder.

    Raises ToolFailed if the folder cannot be read.
    """
    folders: list[str] = []

    def enters(below: str) -> bool:
        folders.append(below)
        return False

    files = [file for file in workspace.files(folder, should_enter=enters) if file != folder]
    return folders, files


def _find_links(workspace: Workspace, folder: str) -> list[str]:
    """Return the names of the links in a folder, without resolving their targets.

    Raises ToolFailed if the folder cannot be read, or if a part of its path has become a link.
    """
    real = workspace.root / folder
    tops = frozenset(root.parts[1:] for root in workspace.roots)
    with explain_os_errors(folder), open_path(str(real), (), tops) as resolved:
        if resolved.rest or resolved.names != real.parts[1:]:
            message = "the path has changed since it was allowed; try again"
            raise path_error(folder, message, code="changed_since_allowed")
        with os.scandir(resolved.folder) as entries:
            names = [e.name for e in entries if e.is_symlink() and is_utf8_text(e.name)]
    return [name if folder == "." else posixpath.join(folder, name) for name in names]


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]


def _size_note(workspace: Workspace, name: str) -> str:
    try:
        with workspace.strict.open_file(name) as file:
            return f" ({os.fstat(file.fileno()).st_size:,} bytes)"
    except ToolFailed:
        return ""  # not readable, or deleted since


# -- suggestions ----------------------------------------------------------------------------------


async def _suggest_path(workspace: Workspace, engine: SearchEngine, name: str) -> str | None:
    """Return a path to suggest in place of a missing path; None if there is no suggestion.

    If exactly one file in a subfolder has this name, that file is suggested. Otherwise, the
    suggestion is a path with a similar name.
    """
    try:
        files = await _with_timeout(_SUGGEST_TIMEOUT_S, name, engine.files(".", hidden=False))
    except ToolFailed:
        files = []
    deeper = await run_in_cancellable_thread(
        lambda: filter_paths(lambda file: file.endswith(f"/{name}"), files)
    )
    if len(deeper) == 1:
        return deeper[0]
    nearest = run_in_cancellable_thread(lambda: _nearest_path(workspace, name))
    try:
        return await _with_timeout(_SUGGEST_TIMEOUT_S, name, nearest)
    except ToolFailed:
        return None


def _nearest_path(workspace: Workspace, name: str) -> str | None:
    """Return the existing path most similar to a missing path; None if no path is similar.

    The paths are compared name by name, from the first name that does not exist. If a later name
    has no similar name in its folder, the path of that folder is returned.
    """
    folder, steps = name, list[str]()
    nearest = None
    try:
        while not workspace.exists(folder or "."):
            folder, step = posixpath.split(folder)
            steps.insert(0, step)
        for step in steps:
            folders, files = _read_folder(workspace, folder or ".")
            known = [_base_name(path) for path in (*folders, *files)[:_MAX_COMPARED_NAMES]]
            found = step if step in known else _closest_name(step, known)
            if found is None:
                break
            nearest = folder = posixpath.join(folder, found)
    except ToolFailed:
        pass
    return nearest


def _closest_name(name: str, known: Sequence[str]) -> str | None:
    """Return the most similar name; ends early in a thread whose task is cancelled.

    A few names at a time, because one comparison of long names may take a noticeable time.
    """
    nearest: list[str] = []
    for start in range(0, len(known), _NAMES_AT_ONCE):
        check_not_cancelled()
        some = known[start : start + _NAMES_AT_ONCE]
        if (found := closest_name(name, (*nearest, *some))) is not None:
            nearest = [found]
    return nearest[0] if nearest else None


# -- changed files -------------------------------------------------------------------------------


@final
class RecordedFile(Struct, frozen=True, tag_field="kind", tag="file"):
    """The path, the hash and the size of a file when it was resolved."""

    path: str
    sha256: str
    bytes: int


@final
class RecordedFolder(Struct, frozen=True, tag_field="kind", tag="folder"):
    """The path of a folder, and the hash of its listing when it was resolved."""

    path: str
    sha256: str


@final
class RecordedFileSet(Struct, frozen=True, tag_field="kind", tag="pattern"):
    """The files that a pattern matched when it was resolved."""

    files: tuple[RecordedFile, ...]


RecordedPaths: TypeAlias = RecordedFile | RecordedFolder | RecordedFileSet


def read_recorded_paths(details: Mapping[str, Any] | None) -> RecordedPaths | None:
    """Return the paths in the details of a resolution; None if the details contain no paths."""
    try:
        return cast("RecordedPaths", convert_value(details, RecordedPaths))
    except InvalidArguments:
        return None


def read_recorded_image(details: Mapping[str, Any] | None) -> RecordedFile | None:
    """Return the file that an image was read from; None if it was not read from a file."""
    recorded = read_recorded_paths({**(details or {}), "kind": "file"})
    return recorded if isinstance(recorded, RecordedFile) else None


def find_changes(
    workspace: Workspace, files: Iterable[RecordedFile], known: frozenset[str]
) -> tuple[str, ...]:
    """Return a line for each file that has changed, except files in `known`. Never raises."""
    unknown = [file for file in files if file.path not in known]
    return tuple(filter(None, [_find_change(workspace, file) for file in unknown]))


def _find_change(workspace: Workspace, recorded: RecordedFile) -> str:
    """Return a line that reports the change of a file; empty if it has not changed."""
    try:
        if not workspace.strict.exists(recorded.path):
            return _gone(recorded.path)
        with workspace.strict.open_file(recorded.path) as file:
            has_size = os.fstat(file.fileno()).st_size == recorded.bytes
            is_same = has_size and Fingerprint.of(file.read(recorded.bytes))[1] == recorded.sha256
    except (ToolFailed, OSError):
        return _unreadable(recorded.path)
    return "" if is_same else _changed(recorded.path)


def _entry_inside(path: str, folder: str) -> str:
    """Return the entry of a folder that contains a path; empty if the path is outside of it."""
    if folder == ".":
        return "" if path.startswith("/") else path.partition("/")[0]
    is_inside = path.startswith(f"{folder}/")
    return path[len(folder) + 1 :].partition("/")[0] if is_inside else ""


def _changed(name: str) -> str:
    return f"{printable_name(name)} has changed since it was shown"


def _gone(name: str) -> str:
    return f"{printable_name(name)} is gone"


def _unreadable(name: str) -> str:
    return f"{printable_name(name)} cannot be read any more"


def _unclear(name: str) -> str:
    return f"{printable_name(name)} could not be searched in time and may have changed"
