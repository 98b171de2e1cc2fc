"""Requests that two programs could understand differently, by what is wrong with them."""

from __future__ import annotations

from typing import Final

_GET: Final = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"
_POST: Final = b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"

BAD_REQUESTS: Final[dict[str, bytes]] = {
    "empty": b"\r\n\r\n",
    "no_version": b"GET http://a.example/\r\nHost: a.example\r\n\r\n",
    "http_2": b"PRI * HTTP/2.0\r\n\r\n",
    "http_1_2": b"GET http://a.example/ HTTP/1.2\r\nHost: a.example\r\n\r\n",
    "two_spaces": b"GET  http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "tab_in_request_line": b"GET\thttp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "space_in_url": b"GET http://a.example/ x HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "method_with_brackets": b"GE[T http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "origin_form": b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "https_url": b"GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "ftp_url": b"GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "user_in_url": b"GET http://b.example@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "fragment": b"GET http://a.example/#x HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "backslash_host": b"GET http://a.example\\@b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "percent_host": b"GET http://a%2eexample/ HTTP/1.1\r\nHost: a%2eexample\r\n\r\n",
    "not_ascii_host": b"GET http://\xe9.example/ HTTP/1.1\r\nHost: \xe9.example\r\n\r\n",
    "empty_port": b"GET http://a.example:/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "port_0": b"GET http://a.example:0/ HTTP/1.1\r\nHost: a.example:0\r\n\r\n",
    "port_65536": b"GET http://a.example:65536/ HTTP/1.1\r\nHost: a.example:65536\r\n\r\n",
    "other_host": b"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
    "other_port": b"GET http://a.example/ HTTP/1.1\r\nHost: a.example:8080\r\n\r\n",
    "no_host": b"GET http://a.example/ HTTP/1.1\r\n\r\n",
    "empty_host": b"GET http://a.example/ HTTP/1.1\r\nHost:\r\n\r\n",
    "two_hosts": _GET + b"Host: a.example\r\n\r\n",
    "second_host_differs": _GET + b"host: b.example\r\n\r\n",
    "old_request_other_host": b"GET http://a.example/ HTTP/1.0\r\nHost: b.example\r\n\r\n",
    "length_and_encoding": _POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two_lengths": _POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\n",
    "two_different_lengths": _POST + b"Content-Length: 4\r\nContent-Length: 0\r\n\r\n",
    "list_of_lengths": _POST + b"Content-Length: 4, 4\r\n\r\n",
    "negative_length": _POST + b"Content-Length: -1\r\n\r\n",
    "signed_length": _POST + b"Content-Length: +4\r\n\r\n",
    "hexadecimal_length": _POST + b"Content-Length: 0x4\r\n\r\n",
    "length_with_underscore": _POST + b"Content-Length: 1_0\r\n\r\n",
    "empty_length": _POST + b"Content-Length:\r\n\r\n",
    "huge_length": _POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    "length_with_vertical_tab": _POST + b"Content-Length: \x0b4\r\n\r\n",
    "superscript_length": _POST + b"Content-Length: \xb2\r\n\r\n",
    "identity_encoding": _POST + b"Transfer-Encoding: identity\r\n\r\n",
    "chunked_twice": _POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n",
    "two_encodings": _POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "gzip_chunked": _POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "chunked_with_vertical_tab": _POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
    "chunked_quoted": _POST + b'Transfer-Encoding: "chunked"\r\n\r\n',
    "chunked_in_old_request": (
        b"POST http://a.example/ HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
    "space_before_colon": _POST + b"Content-Length : 4\r\n\r\n",
    "tab_before_colon": _POST + b"Transfer-Encoding\t: chunked\r\n\r\n",
    "folded_field": _GET + b"A: b\r\n c\r\n\r\n",
    "folded_with_tab": _GET + b"Transfer-Encoding:\r\n\tchunked\r\n\r\n",
    "first_field_folded": b"GET http://a.example/ HTTP/1.1\r\n Host: a.example\r\n\r\n",
    "line_feed": _GET + b"A: b\nTransfer-Encoding: chunked\r\n\r\n",
    "carriage_return": _GET + b"A: b\rTransfer-Encoding: chunked\r\n\r\n",
    "line_feed_in_request_line": b"GET http://a.example/ HTTP/1.1\nHost: a.example\r\n\r\n",
    "nul": _GET + b"A: b\x00\r\n\r\n",
    "nul_in_name": _GET + b"A\x00: b\r\n\r\n",
    "empty_name": _GET + b": b\r\n\r\n",
    "no_colon": _GET + b"Transfer-Encoding chunked\r\n\r\n",
    "not_ascii_name": _GET + b"Transf\xe9r: chunked\r\n\r\n",
    "many_fields": _GET + b"A: b\r\n" * 200 + b"\r\n",
    "connect_without_port": b"CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_url": b"CONNECT http://a.example:443/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_path": b"CONNECT a.example:443/x HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_user": b"CONNECT b@a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_bare_ipv6": b"CONNECT ::1:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_zone": b"CONNECT [fe80::1%25lo]:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_hexadecimal": b"CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_decimal": b"CONNECT 2130706433:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_octal": b"CONNECT 0177.0.0.1:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_short": b"CONNECT 127.1:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "connect_with_length": (
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\n"
    ),
    "connect_chunked": (
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
    "connect_lower_case": b"connect a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "socks_4": b"\x04\x01\x01\xbb\x01\x02\x03\x04\x00\r\n\r\n",
    "socks_5": b"\x05\x01\x00\r\n\r\n",
}
"""Heads of requests, each with its end."""
