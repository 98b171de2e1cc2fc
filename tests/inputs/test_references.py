"""One object parses and resolves references of every kind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import steno.inputs
from steno.errors import InvalidValue
from steno.inputs import (
    InputResolver,
    McpServers,
    OcrReader,
    choose_ocr_engine,
    image_limits_for,
    is_url,
    read_server_specs,
)
from steno.messages.content import (
    FileReference,
    Image,
    ImageData,
    ImageFile,
    ImageUrl,
    RecognitionMode,
    Resource,
    Text,
)
from steno.ports import Capability, ReferenceBlock, ResolveContext, ResolvedReference
from steno.tools import Workspace
from tests.agent.reference_doubles import FakeOcr
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.ocr.text_images import draw_text, encode_png
from tests.raised_errors import raises_code

PICTURE = encode_image(red_image())


async def allow(tool: str, capability: Capability, subject: str, *, preview: str = "") -> str:
    return "the test"


def resolve(inputs: InputResolver, pointer: ReferenceBlock) -> ResolvedReference:
    resolving = inputs.resolve(pointer, ResolveContext(authorize=allow))
    return asyncio.run(asyncio.wait_for(resolving, 60))


def failed_reference(inputs: InputResolver, text: str) -> ResolvedReference:
    (pointer,) = inputs.prompt(text).message.content[1:]
    assert isinstance(pointer, (FileReference, Image, Resource))
    return resolve(inputs, pointer)


def error_of(inputs: InputResolver, text: str) -> str:
    error = failed_reference(inputs, text).error
    assert error is not None
    return error


def error_code_of(inputs: InputResolver, text: str) -> str:
    code = failed_reference(inputs, text).error_code
    assert code is not None
    return code


@pytest.mark.parametrize("kind", [str, Path, Workspace])
def test_a_folder_is_all_it_needs(tmp_path: Path, kind: type) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    inputs = InputResolver(kind(tmp_path))
    text, pointer = inputs.prompt("See @a.py").message.content
    assert (text, pointer) == (Text("See @a.py"), FileReference(path="a.py"))
    assert isinstance(pointer, FileReference)
    assert resolve(inputs, pointer).content == (Text("a.py, line 1 of 1:\n     1\tx = 1\n"),)


def test_the_limits_of_images_are_those_that_are_given(tmp_path: Path) -> None:
    wide = encode_image(red_image(400, 20))
    small = image_limits_for("")._replace(max_edge=64)
    sizes = [
        InputResolver(tmp_path, image_limits=limits).prepare_image(wide).source == ImageData(wide)
        for limits in (image_limits_for(""), small)
    ]
    assert sizes == [True, False]


@pytest.mark.parametrize("workspace", [3, b"folder", ["."]])
def test_a_workspace_of_the_wrong_type_is_refused(workspace: object) -> None:
    with raises_code(InvalidValue, "invalid_workspace", place="inputs"):
        InputResolver(workspace)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("mode", ["ocr", RecognitionMode.OCR])
def test_images_are_paths_addresses_bytes_or_blocks(tmp_path: Path, mode: str) -> None:
    own = Image(source=ImageFile("own.png"), mode=RecognitionMode.VISION)
    given: list[str | Path | ImageData | Image] = [
        "a.png",
        Path("sub/b.png"),
        "HTTPS://host/c.png",
        ImageData(PICTURE),
        own,
    ]
    message = InputResolver(tmp_path).prompt("", images=given, mode=mode).message
    assert message.content == (
        Image(source=ImageFile("a.png"), mode=RecognitionMode.OCR),
        Image(source=ImageFile("sub/b.png"), mode=RecognitionMode.OCR),
        Image(source=ImageUrl("https://host/c.png"), mode=RecognitionMode.OCR),
        Image(source=ImageData(PICTURE), mime_type="image/png", mode=RecognitionMode.OCR),
        own,
    )


def test_invalid_images_and_modes_are_refused() -> None:
    with raises_code(InvalidValue, "invalid_image_source"):
        InputResolver().prompt("", images=[PICTURE])  # type: ignore[list-item]  # wrong on purpose
    with raises_code(InvalidValue, "unknown_image_mode"):
        InputResolver().prompt("", mode="eyes")


@pytest.mark.parametrize("text", ["https://host", "http://x", "HTTPS://host/a.png", "Http://x"])
def test_an_address_is_one_however_it_is_spelled(text: str) -> None:
    assert is_url(text)
    assert not is_url(f"./{text}")
    assert not is_url(text.replace(":", "", 1))


@pytest.mark.requirement("S2-11")
@pytest.mark.parametrize("word", ["note.md", "none.png"])
def test_a_path_that_may_not_be_meant_fails_with_the_way_out(tmp_path: Path, word: str) -> None:
    way_out = "(write \\@ for a literal @)"
    inputs = InputResolver(tmp_path)
    assert error_code_of(inputs, f"See @{word}") == "file_not_found"
    assert error_of(inputs, f"See @{word}").endswith(way_out)
    assert way_out not in error_of(InputResolver(tmp_path), f"See @'{word}'")


def test_a_path_outside_fails_for_that_reason_alone(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret.txt").touch()
    (folder / "link").symlink_to(tmp_path / "secret.txt")
    for path in ("link", f"{tmp_path}/secret.txt"):
        inputs = InputResolver(folder)
        assert inputs.prompt(f"See @{path}").notices == ()
        assert error_code_of(inputs, f"See @{path}") == "outside_workspace"
        assert error_of(inputs, f"See @{path}").endswith("--add-dir")


def servers(tmp_path: Path, given: Mapping[str, object]) -> McpServers:
    specs = read_server_specs(given, place="test", environ={}, base=None)
    return McpServers(specs.values(), folder=tmp_path)


def test_a_reference_to_an_unusable_server_is_an_error_with_its_problem(tmp_path: Path) -> None:
    lacking = {"docs": {"command": "docs", "env": {"KEY": "${DOCS_KEY}"}}}
    inputs = InputResolver(tmp_path, servers=servers(tmp_path, lacking))
    assert "DOCS_KEY" in error_of(inputs, "See @docs:demo://x")
    with raises_code(InvalidValue, "server_not_found", place="@'dosc'") as raised:
        inputs.prompt("See @dosc:demo://x")
    assert "did you mean 'docs'?" in raised.value.message


def test_everything_public_is_there_and_nothing_is_loaded_for_it_before() -> None:
    for name in steno.inputs.__all__:
        assert getattr(steno.inputs, name)
    program = (
        "import sys, steno.inputs\n"
        "print([name for name in sys.modules if name.startswith('steno.inputs.')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60
    )
    assert ran.stdout == b"[]\n"


# -- the OCR engine --------------------------------------------------------------------------------


TEXT = "Ship it on Friday, or tell Ada."


def text_image() -> Image:
    return Image(
        source=ImageData(encode_png(draw_text(TEXT))),
        mime_type="image/png",
        mode=RecognitionMode.OCR,
    )


@pytest.mark.requirement("S2-25", "P-22")
@pytest.mark.parametrize("settings", [{}, {"ocr": "rapidocr"}])
def test_the_installed_ocr_engine_is_found(tmp_path: Path, settings: dict[str, Any]) -> None:
    found = resolve(InputResolver(Workspace(tmp_path), **settings), text_image())
    (block,) = found.content
    assert isinstance(block, Text)
    assert TEXT in block.text
    assert str((found.details or {})["engine"]).startswith("rapidocr")


@pytest.mark.requirement("P-22")
def test_ocr_can_be_disabled_or_replaced(tmp_path: Path) -> None:
    assert resolve(InputResolver(tmp_path, ocr=None), text_image()).error_code == "ocr_off"
    found = resolve(InputResolver(tmp_path, ocr=FakeOcr()), text_image())
    assert (found.details or {})["engine"] == "scribe 1.0"


@pytest.mark.requirement("P-22")
def test_without_an_installed_engine_the_error_is_another_one_than_without_ocr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    assert resolve(InputResolver(tmp_path), text_image()).error_code == "no_ocr"


@pytest.mark.requirement("P-22")
@pytest.mark.parametrize("name", ["off", "easyocr", ""])
def test_an_unknown_ocr_engine_is_refused(name: str) -> None:
    with raises_code(InvalidValue, "unknown_engine", place="inputs"):
        InputResolver(ocr=name)


@pytest.mark.parametrize("ocr", [42, b"auto", OcrReader, choose_ocr_engine("rapidocr")])
def test_a_value_that_cannot_read_images_is_refused(ocr: Any) -> None:
    with raises_code(InvalidValue, "wrong_type", place="inputs"):
        InputResolver(ocr=ocr)


def test_images_that_are_read_at_once_share_one_engine() -> None:
    program = (
        "import threading\n"
        "from steno.inputs.references import _ocr_finder\n"
        "find, begin, found = _ocr_finder('rapidocr', ()), threading.Barrier(8), []\n"
        "def run(): begin.wait(); found.append(find())\n"
        "threads = [threading.Thread(target=run) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(len(found), len({id(reader) for reader in found}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60
    )
    assert ran.stdout == b"8 1\n"


@pytest.mark.requirement("P-22")
def test_no_engine_is_loaded_before_an_image_needs_it(tmp_path: Path) -> None:
    program = (
        "import sys, steno.inputs\n"
        f"steno.inputs.InputResolver({str(tmp_path)!r}, ocr_languages=('deu',)).prompt('See.')\n"
        "heavy = {'numpy', 'onnxruntime', 'rapidocr', 'cv2', 'tesserocr', 'steno.inputs.ocr.reader'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60
    )
    assert ran.stdout == b"[]\n"
