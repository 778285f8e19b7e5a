"""Who may pass the gate."""

import pytest

from dahgnn.explorer.security import MOST_BYTES, POLICY, Gate, allowed_hosts, is_loopback, text_headers

HOST = "127.0.0.1:8000"


@pytest.fixture
def gate():
    return Gate(8000, allowed_hosts("127.0.0.1", 8000))


def test_a_token_works_once_and_becomes_a_cookie(gate):
    token = gate.new_token()
    assert gate.redeem("wrong") is None
    header = gate.redeem(token)
    assert header.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert gate.redeem(token) is None
    cookie = header.split(";")[0]
    assert gate.knows({"cookie": f"other=1; {cookie}"})
    assert not gate.knows({"cookie": cookie + "x"})
    assert not gate.knows({"cookie": cookie.replace("dahgnn-8000", "dahgnn-8001")})
    assert not gate.knows({})


def test_tokens_and_cookies_of_two_gates_differ(gate):
    other = Gate(8000, gate.hosts)
    assert other.redeem(gate.new_token()) is None
    assert not other.knows({"cookie": gate.redeem(gate.new_token()).split(";")[0]})


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        ({"host": "evil.example:8000"}, "GET", 421),
        ({"host": "127.0.0.1:8001"}, "GET", 421),
        ({"host": "127.0.0.1"}, "GET", 421),
        ({}, "GET", 421),
        ({"host": HOST, "sec-fetch-site": "cross-site"}, "GET", 403),
        ({"host": HOST, "sec-fetch-site": "same-site"}, "GET", 403),
        ({"host": HOST, "origin": "http://evil.example"}, "POST", 403),
        ({"host": HOST, "origin": "null"}, "POST", 403),
        ({"host": HOST}, "PUT", 405),
        ({"host": HOST}, "POST", 415),
        ({"host": HOST, "content-type": "text/plain"}, "POST", 415),
        (
            {"host": HOST, "content-type": "application/json", "content-length": str(MOST_BYTES + 1)},
            "POST",
            413,
        ),
        ({"host": HOST, "content-type": "application/json", "content-length": "-1"}, "POST", 413),
    ],
)
def test_what_is_refused(gate, headers, method, status):
    found, sentence = gate.refuse(headers, method)
    assert found == status
    assert sentence.endswith(".")


@pytest.mark.parametrize("host", [HOST, "localhost:8000", "LOCALHOST:8000", "[::1]:8000"])
@pytest.mark.parametrize("site", [{}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}])
def test_what_may_pass(gate, host, site):
    assert gate.refuse({"host": host} | site, "GET") is None
    sent = {"host": host, "content-type": "application/json; charset=utf-8", "origin": f"http://{host}"}
    assert gate.refuse(sent | site, "POST") is None


def test_another_host_is_on_the_list_when_it_is_listened_at():
    assert "192.0.2.7:81" not in allowed_hosts("127.0.0.1", 81)
    assert "192.0.2.7:81" in allowed_hosts("192.0.2.7", 81)
    assert "[2001:db8::5]:81" in allowed_hosts("2001:db8::5", 81)
    assert "192.0.2.7" in allowed_hosts("192.0.2.7", 80)  # browsers leave that port out
    assert "127.0.0.1" not in allowed_hosts("127.0.0.1", 81)
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "192.0.2.7")] == [True] * 3 + [
        False
    ]


def test_the_policy_has_no_exceptions():
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'")


def test_headers_become_text():
    assert text_headers({"headers": [(b"Host", b"a"), (b"X", b"\xff")]}) == {"host": "a", "x": "ÿ"}
