"""Where a connection may lead, and where not, whatever a name or a redirect says."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.errors import BadInput, ServerFailed
from synth.core.mcp.address import Door, ServerAddress, split_address
from synth.core.mcp.status import failure_of, seconds_to_wait

PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::808:808"]
PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254",
    "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::", "2002:a9fe:a9fe::1",
]  # fmt: skip


def connects(door, ip, port=443):
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        door.socket((family, socket.SOCK_STREAM, 6, "", (ip, port))).close()
    except PermissionError:
        assert ip in door.refused
        return False
    return True


@pytest.mark.parametrize("ip", PUBLIC)
def test_public_addresses_are_connected_to(ip):
    assert connects(Door(ServerAddress("https://example.com/mcp")), ip)


@pytest.mark.claim("b-net")
@pytest.mark.parametrize("ip", PRIVATE)
def test_addresses_of_no_public_host_are_not(ip):
    assert not connects(Door(ServerAddress("https://example.com/mcp")), ip)


@given(st.integers(0, 2**32 - 1))
def test_an_address_inside_of_another_is_judged_as_itself(number):
    door = Door(ServerAddress("https://example.com/mcp"))
    plain = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    high, low = number >> 16, number & 0xFFFF
    inner = [f"::ffff:{plain}", f"64:ff9b::{plain}", f"2002:{high:x}:{low:x}::1"]
    assert [connects(door, ip) for ip in inner] == [connects(door, plain)] * 3


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_the_machine_that_the_user_named_is_reached_at_that_port_alone(host):
    door = Door(ServerAddress(f"http://{host}:8000/mcp"))
    assert connects(door, "127.0.0.1", 8000)
    assert connects(door, "::1", 8000)
    assert not connects(door, "127.0.0.1", 22)
    assert not connects(door, "10.0.0.1", 8000)


@pytest.mark.claim("b-net")
@pytest.mark.parametrize(
    ("start", "location", "words"),
    [
        ("https://a.example/mcp", "http://a.example/mcp", "from https to http"),
        ("https://a.example/mcp", "http://127.0.0.1/", "from https to http"),
        ("https://a.example/mcp", "https://localhost/", "redirects to this machine"),
        ("https://a.example/mcp", "https://x:y@b.example/", "user or password"),
        ("https://a.example/mcp", "ftp://b.example/", "not an address of a server"),
        ("https://a.example/mcp", "https://[::1/", "not an address of a server|refused"),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/", "redirects to this machine"),
    ],
)
def test_a_redirect_that_weakens_or_leaves_is_refused(start, location, words):
    with pytest.raises(ServerFailed, match=words) as failure:
        Door(ServerAddress(start)).redirected(start, location)
    assert failure.value.outcome == "unsafe"
    assert "x:y" not in str(failure.value)


def test_a_redirect_to_another_public_host_is_followed_without_credentials():
    door = Door(ServerAddress("https://a.example/mcp", {"Authorization": "x"}))
    there = door.redirected("https://a.example/mcp", "//b.example/new")
    assert there == "https://b.example/new"
    assert not door.same_origin(there)
    assert door.same_origin(door.redirected("https://a.example/mcp", "other/"))
    assert door.same_origin("https://a.example:443/mcp")


@pytest.mark.parametrize(
    "text",
    ["", "example.com", "ftp://x", "http://example.com/mcp", "https://", "https://u:p@x/", "https://x:y/",
     "https://x /", "https://x/\n", "https://x/{tenant}/mcp", "https://x/" + "a" * 3000, "https://[::1"],
)  # fmt: skip
def test_what_is_no_address_of_a_server_is_refused(text):
    with pytest.raises(BadInput) as failure:
        split_address(text)
    assert "u:p" not in str(failure.value)


def test_a_label_and_a_representation_never_hold_the_address():
    address = ServerAddress("https://a.example/mcp?token=hunter2", {"Authorization": "hunter3"})
    assert address.label == "a.example"
    assert "hunter" not in repr(address)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7.0), ("0", 0.0), ("", 1.0), ("soon", 1.0), ("-5", 1.0), ("9" * 30, 1.0),
     ("\u00b2", 1.0),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)  # fmt: skip
def test_the_time_to_wait_is_read_as_seconds_or_as_a_date(text, seconds):
    assert seconds_to_wait(text) == seconds


def test_what_a_status_means_is_said_with_the_servers_own_words():
    said = b'{"jsonrpc": "2.0", "error": {"code": -1, "message": "no key"}}'
    failure = failure_of(401, said, "it", html=False)
    assert failure.outcome == "denied"
    assert str(failure).startswith("it: wants credentials (HTTP 401): no key (")
    assert str(failure_of(599, b"{", "it", html=True)) == "it: fails (HTTP 599), with a web page"
