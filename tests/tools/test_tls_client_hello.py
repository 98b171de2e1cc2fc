"""The first TLS messages of a client must name the approved server, however they are split."""

from __future__ import annotations

import ssl
from collections.abc import Iterable

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from steno.tools.shell.domain_rules import RefusalReason
from steno.tools.shell.tls_client_hello import ClientHelloCheck, HelloRefused
from tests.tools.tls_messages import (
    CHANGE_CIPHER_SPEC,
    EARLY_DATA,
    ENCRYPTED_CLIENT_HELLO,
    Handshake,
    hello,
    hello_body,
    hello_for,
    message,
    record,
    run_handshake,
    server_name,
    vector,
)

NAME = "a.example"
GOOD = hello_for(NAME)
BAD = hello_for("b.example")
DATA = record(b"encrypted", 23)


def make_check(
    host: str = NAME, *, requires_tls: bool = True, allows_encrypted_name: bool = False
) -> ClientHelloCheck:
    return ClientHelloCheck(
        host, requires_tls=requires_tls, allows_encrypted_name=allows_encrypted_name
    )


def feed_all(check: ClientHelloCheck, chunks: Iterable[bytes]) -> bytes:
    return b"".join([check.feed(chunk) for chunk in chunks])


def split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def refusal_of(check: ClientHelloCheck, data: bytes, size: int = 1_000_000) -> RefusalReason:
    """Return the reason for which a check refuses the data."""
    with pytest.raises(HelloRefused) as caught:
        feed_all(check, split(data, size))
    return caught.value.reason


@pytest.fixture(scope="module")
def certificate() -> trustme.LeafCert:
    return trustme.CA().issue_cert(NAME)


def server_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.fixture(scope="module", params=["tls_1_3", "tls_1_2", "second_hello"])
def handshake(request: pytest.FixtureRequest, certificate: trustme.LeafCert) -> Handshake:
    client, server = client_context(), server_context(certificate)
    if request.param == "tls_1_2":
        client.maximum_version = ssl.TLSVersion.TLSv1_2
    if request.param == "second_hello":
        server.set_ecdh_curve("secp384r1")  # the client offers a key for another one first
    made = run_handshake(client, server, NAME)
    hellos = [flight for flight in made.flights if b"\x01\x00" in flight[5:7] or b"a.ex" in flight]
    assert len(hellos) == (2 if request.param == "second_hello" else 1)
    return made


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1_000_000])
def test_a_real_handshake_passes_unchanged(handshake: Handshake, size: int) -> None:
    check = make_check()
    assert feed_all(check, split(handshake.all_bytes, size)) == handshake.all_bytes
    assert check.has_hello
    assert check.is_done


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
def test_a_real_handshake_for_another_server_is_refused(handshake: Handshake, size: int) -> None:
    check = make_check("b.example")
    passed = bytearray()

    def feed() -> None:
        for chunk in split(handshake.all_bytes, size):
            passed.extend(check.feed(chunk))

    with pytest.raises(HelloRefused) as caught:
        feed()
    assert caught.value.reason is RefusalReason.SERVER_NAME_MISMATCH
    assert passed == b""


def test_the_name_is_compared_in_its_canonical_spelling() -> None:
    for name in ("A.EXAMPLE", "a.example."):
        assert make_check().feed(hello_for(name)) == hello_for(name)


def test_an_address_needs_no_name() -> None:
    check = make_check("127.0.0.1")
    assert check.feed(hello()) == hello()
    assert check.has_hello
    assert refusal_of(make_check("127.0.0.1"), GOOD) is RefusalReason.SERVER_NAME_MISMATCH


REFUSED = {
    "no_extensions": (record(message(b"\x03\x03" + bytes(33) + b"\0\2\1\2\1\0")), "missing"),
    "no_name": (hello((10, b"")), "missing"),
    "other_name": (BAD, "mismatch"),
    "subdomain": (hello_for("x.a.example"), "mismatch"),
    "name_with_nul": (hello_for("a.example\0.b.example"), "mismatch"),
    "not_ascii": (hello(server_name(b"\xe9.example")), "mismatch"),
    "address_as_name": (hello_for("127.0.0.1"), "mismatch"),
    "empty_name": (hello_for(""), "mismatch"),
    "encrypted_name": (hello(server_name(NAME.encode()), ENCRYPTED_CLIENT_HELLO), "encrypted"),
    "two_names": (
        hello((0, vector(2 * (b"\0" + vector(NAME.encode(), 2)), 2))),
        "invalid",
    ),
    "two_extensions": (hello(server_name(b"b.example"), server_name(NAME.encode())), "invalid"),
    "unknown_name_type": (hello(server_name(NAME.encode(), kind=1)), "invalid"),
    "empty_extension": (hello((0, b"")), "invalid"),
    "empty_list": (hello((0, b"\0\0")), "invalid"),
    "long_list": (hello((0, b"\0\x20\0\0\x01a")), "invalid"),
    "rest_after_list": (hello((0, server_name(b"a.example")[1] + b"x")), "invalid"),
    "rest_after_extensions": (record(message(hello_body() + b"x")), "invalid"),
    "truncated_body": (record(message(hello_body()[:50])), "invalid"),
    "huge_hello": (record(b"\x01\xff\xff\xff" + bytes(100)), "invalid"),
    "other_first_message": (record(message(b"", kind=16)), "invalid"),
    "empty_record": (record(b"") + GOOD, "invalid"),
    "huge_record": (b"\x16\x03\x01\xff\xff", "invalid"),
    "wrong_version": (b"\x16\x02\x00" + GOOD[3:], "invalid"),
    "interrupted_message": (record(GOOD[5:20]) + DATA + record(GOOD[20:]), "invalid"),
    "data_in_cipher_change": (GOOD + record(b"\x01\x01", 20), "invalid"),
    "unknown_record": (GOOD + record(b"\x01", 24), "invalid"),
    "second_hello": (GOOD + BAD, "mismatch"),
    "second_hello_in_same_record": (record(GOOD[5:] + BAD[5:]), "mismatch"),
    "second_hello_after_cipher_change": (GOOD + CHANGE_CIPHER_SPEC + BAD, "mismatch"),
    "second_hello_of_old_version": (
        GOOD + CHANGE_CIPHER_SPEC + BAD[:9] + b"\x03\x01" + BAD[11:],
        "mismatch",
    ),
    "second_hello_after_alert": (GOOD + record(b"\x01\x00", 21) + BAD, "mismatch"),
    "second_hello_in_pieces": (
        GOOD + CHANGE_CIPHER_SPEC + b"".join(map(record, split(BAD[5:], 20))),
        "mismatch",
    ),
    "second_hello_in_small_pieces": (
        GOOD + CHANGE_CIPHER_SPEC + b"".join(map(record, split(BAD[5:], 1))),
        "invalid",
    ),
    "second_hello_after_early_data": (
        hello(server_name(NAME.encode()), EARLY_DATA) + DATA + CHANGE_CIPHER_SPEC + BAD,
        "mismatch",
    ),
    "third_hello": (GOOD + CHANGE_CIPHER_SPEC + GOOD + BAD, "mismatch"),
    "http": (b"GET / HTTP/1.1\r\n\r\n", "not_tls"),
    "ssh": (b"SSH-2.0-OpenSSH\r\n", "not_tls"),
    "data_first": (DATA + GOOD, "not_tls"),
    "tls_2": (b"\x80\x2e\x01\x03\x01", "not_tls"),
}
REASONS = {
    "missing": RefusalReason.SERVER_NAME_MISSING,
    "mismatch": RefusalReason.SERVER_NAME_MISMATCH,
    "encrypted": RefusalReason.SERVER_NAME_ENCRYPTED,
    "invalid": RefusalReason.INVALID_HELLO,
    "not_tls": RefusalReason.NOT_TLS,
}


@pytest.mark.parametrize("size", [1, 13, 1_000_000])
@pytest.mark.parametrize("case", REFUSED)
def test_a_client_that_hides_its_server_is_refused(case: str, size: int) -> None:
    data, reason = REFUSED[case]
    assert refusal_of(make_check(), data, size) is REASONS[reason]


@pytest.mark.parametrize("size", [1, 13, 1_000_000])
def test_a_hello_may_span_records(size: int) -> None:
    data = b"".join(map(record, split(GOOD[5:], 9)))
    check = make_check()
    passed = bytearray()
    for chunk in split(data, size):
        assert passed == b""  # nothing is sent before the name is known
        passed += check.feed(chunk)
    assert passed == data


def test_an_encrypted_finish_ends_the_check() -> None:
    """A TLS 1.2 client that resumes a session sends no readable message after its hello."""
    finish = record(b"\x01" + bytes(39))
    check = make_check()
    data = GOOD + CHANGE_CIPHER_SPEC + finish + b"anything"
    assert feed_all(check, split(data, 3)) == data
    assert check.is_done


def test_ech_is_accepted_if_the_server_does_not_matter() -> None:
    data = hello(server_name(NAME.encode()), ENCRYPTED_CLIENT_HELLO)
    assert make_check(allows_encrypted_name=True).feed(data) == data


def test_other_protocols_pass_where_they_are_allowed() -> None:
    check = make_check(requires_tls=False)
    assert check.feed(b"SSH-2.0") == b"SSH-2.0"
    assert check.is_done
    assert check.feed(BAD) == BAD


def test_tls_is_checked_also_where_it_is_not_required() -> None:
    assert refusal_of(make_check(requires_tls=False), BAD) is RefusalReason.SERVER_NAME_MISMATCH


@given(
    st.lists(
        st.one_of(
            st.sampled_from([GOOD, BAD, DATA, CHANGE_CIPHER_SPEC, GOOD[5:30], record(b"\x01")]),
            st.binary(max_size=8),
        ),
        max_size=8,
    ),
    st.integers(min_value=1, max_value=40),
)
def test_chunks_are_not_observable(pieces: list[bytes], size: int) -> None:
    data = b"".join(pieces)

    def outcome(chunk_size: int) -> bytes | RefusalReason:
        check = make_check()
        try:
            return feed_all(check, split(data, chunk_size))
        except HelloRefused as refused:
            return refused.reason

    assert outcome(size) == outcome(1_000_000)
    passed = outcome(1)
    assert not isinstance(passed, bytes) or data.startswith(passed)
