"""A branch as a page of HTML: everything is shown, nothing is loaded, nothing runs."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import ChatMessage
from steno.messages.content import Image, ImageUrl
from steno.records.stored_record import Header
from steno.render.transcript_document import BranchLocation
from steno.render.transcripts import WRITE_ONLY
from tests.every_payload import PAYLOADS
from tests.render.transcript_samples import (
    HEADER,
    HOSTILE,
    entries_of,
    image_of_size,
    sample_branch,
    text_everywhere,
)

PLACE = BranchLocation("main", {"i3": 12})
VOID = frozenset({"meta", "img", "br", "hr"})
TAGS = frozenset(
    [
        *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section"),
        *("article", "h1", "h2", "h3", "h4", "h5", "h6", "p", "div", "a", "img", "br", "hr", "pre"),
        *("code", "em", "strong", "s", "ul", "ol", "li", "blockquote", "dl", "dt", "dd", "details"),
        *("summary", "ins", "del", "table", "thead", "tbody", "tr", "th", "td"),
    ]
)
ATTRIBUTES = frozenset(
    [
        *("lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "rel", "alt"),
        *("src", "start", "style"),
    ]
)
MARKUP = st.text(
    alphabet=st.sampled_from("<>\"'&=/!-`~#[]()| \nabhrefsc:.1\u202e\x1b"), max_size=60
)


class Page(HTMLParser):
    """Reads a page, and finds what is not closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    @property
    def text(self) -> str:
        return "".join(self.shown)


def written(*payloads: Any) -> str:
    return WRITE_ONLY["html"].encode(HEADER, entries_of(*payloads), PLACE).data.decode()


def test_a_branch_is_written_from_its_title_to_its_decisions() -> None:
    exported = WRITE_ONLY["html"].encode(HEADER, sample_branch(), PLACE)
    page = Page(exported.data.decode())
    assert page.open == []
    for text in ("Mend the build", "main", "lab/tester", "Is it broken?\n# really", "Simple."):
        assert text in page.text
    anchors = [attrs["id"] for tag, attrs in page.tags if tag == "article"]
    assert anchors == ["e1", "e2", "e12", "e4", "e5", "e6", "e7"]
    text = exported.data.decode()
    assert "<h3>Plan</h3>\n<p>I <em>mend</em> it.</p>" in text
    assert "<del>-old &lt;b&gt;</del>\n<ins>+new</ins>" in text
    row = '<tr><td><a href="#e5">#5</a></td><td>2026-02-18 12:00:00Z</td><td>edit</td>'
    rule = "<td>approved</td><td>rule edit(src/**)</td><td>it is ours</td></tr>"
    assert row + rule in text
    assert "<dt>lab/tester</dt><dd>1,200 tokens in, 33 tokens out</dd>" in text
    lost = exported.losses[-1]
    assert (lost.reason, lost.place, lost.names) == ("fields", "entries[5]", ("details",))


def test_a_page_loads_nothing_and_fits_a_phone_and_the_night() -> None:
    text = written(ChatMessage.user("Hi"))
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy} ' in text
    assert '<meta name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http-equiv", "")
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_an_image_is_in_the_page_and_one_of_elsewhere_is_named() -> None:
    text = written(ChatMessage.user([image_of_size(300_000)]))
    assert 'src="data:image/png;base64,' in text
    odd = image_of_size(mime_type='image/svg+xml" onload="alert(1)')
    elsewhere = Image(source=ImageUrl("https://example.org/a.png"))
    exported = WRITE_ONLY["html"].encode(
        HEADER, entries_of(ChatMessage.user([odd, elsewhere])), PLACE
    )
    assert not any(tag == "img" for tag, _ in Page(exported.data.decode()).tags)
    lost = exported.losses[-1]
    assert (lost.reason, lost.place) == ("fields", "entries[0]")
    assert lost.names == ("content[1] (image)", "content[0] (image)")


def test_links_of_a_model_lead_to_the_web_alone() -> None:
    answer = (
        "[a](https://example.org) [b](javascript:alert(1)) [c](#e1) [d](../secret) "
        "[e](data:image/png;base64,AAAA) <mailto:ada@example.org>"
    )
    links = [
        attrs for tag, attrs in Page(written(ChatMessage.assistant(answer))).tags if tag == "a"
    ]
    addresses = [attrs.get("href") for attrs in links[1:]]  # the first one is ours
    assert addresses == ["https://example.org", None, None, None, "mailto:ada@example.org"]


def test_images_of_a_model_are_shown_only_if_they_are_in_its_words() -> None:
    answer = "![here](data:image/png;base64,AAAA) ![spy](https://evil.example/x.png)"
    page = Page(written(ChatMessage.assistant(answer)))
    sources = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
    assert sources == ["data:image/png;base64,AAAA"]
    assert "[image: spy]" in page.text
    assert "evil.example" not in page.text


def test_words_that_are_nested_too_deep_are_shown_as_they_are() -> None:
    page = Page(written(ChatMessage.assistant("> " * 60 + "deep")))
    assert "> > > " in page.text
    assert "deep" in page.text


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_message_becomes_a_tag(text: str) -> None:
    assert_harmless(text)


@given(text=MARKUP)
def test_no_text_becomes_a_tag(text: str) -> None:
    assert_harmless(text)


def assert_harmless(text: str) -> None:
    header = Header(id="talk", title=text)
    html = WRITE_ONLY["html"].encode(header, text_everywhere(text), PLACE).data.decode()
    page = Page(html)
    assert page.open == []
    assert {tag for tag, _ in page.tags} <= TAGS
    for tag, attrs in page.tags:
        assert attrs.keys() <= ATTRIBUTES
        assert (attrs.get("src") or "data:image/").startswith("data:image/")
        if "style" in attrs:  # how a column of a table is aligned
            assert tag in ("th", "td")
            assert attrs["style"] in ("text-align:left", "text-align:center", "text-align:right")
        address = attrs.get("href") or "#"
        assert address.startswith(("#e", "http://", "https://", "mailto:")) or address == "#"
    assert [tag for tag, _ in page.tags].count("article") == 5
    assert [tag for tag, _ in page.tags].count("script") == 0
    for character in "\x00\x07\x1b\x9b\r\u202e\u2066\u200b\ufeff":
        assert character not in html


def test_invisible_characters_are_shown_as_escapes() -> None:
    page = Page(written(ChatMessage.user("safe \u202egnp.exe \x1b]0;x\x07 \x1b[31mred\x1b[0m")))
    assert "safe \\u202egnp.exe \\x1b]0;x\\x07 red" in page.text


def test_every_payload_and_block_can_be_described() -> None:
    page = Page(
        WRITE_ONLY["html"]
        .encode(Header(id="all"), entries_of(*PAYLOADS), BranchLocation())
        .data.decode()
    )
    assert page.open == []
    assert [tag for tag, _ in page.tags].count("article") == len(PAYLOADS)


def test_without_a_parser_words_are_plain_text_and_quotations() -> None:
    script = (
        "import sys; sys.modules['markdown_it'] = None\n"
        "from steno import ChatMessage, Entry\n"
        "from steno.render import WRITE_ONLY, BranchLocation\n"
        "from steno.records.stored_record import Header\n"
        "entries = [Entry(id='a', payload=ChatMessage.assistant('# *x* <b>'))]\n"
        "for format in WRITE_ONLY.values():\n"
        "    print(format.encode(Header(id='s'), entries, BranchLocation()).data.decode())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, timeout=60, text=True
    )
    assert "\n> # *x* &lt;b>\n" in ran.stdout
    assert '<div class="text"># *x* &lt;b&gt;</div>' in ran.stdout
