"""`net`, `unix` and `listen`: what each text grants, and what is refused with the text to write instead."""

from __future__ import annotations

import pytest

from mcpwrap.grant.grant import ArgHost, HostRule, Where
from mcpwrap.grant.hosts import covers, host_rule, host_text
from mcpwrap.grant.problem import Wrong
from mcpwrap.grant.sockets import listen_rule, socket_text, unix_rule
from tests.unit.grant.reading import VARIABLES, problems, read

HERE = Where("g", 1, 1)
ALL = (0, 65_535)


def rule(text: str) -> HostRule:
    return host_rule("tools.a.net[0]", text, HERE, arguments=True)


@pytest.mark.parametrize(
    ("text", "kind", "host", "ports", "protocol"),
    [
        ("api.example.com", "name", "api.example.com", (443, 443), "tcp"),
        ("API.Example.COM.:8443", "name", "api.example.com", (8443, 8443), "tcp"),
        ("db:5432", "name", "db", (5432, 5432), "tcp"),
        ("_srv.example.com:*", "name", "_srv.example.com", ALL, "tcp"),
        ("münchen.example", "name", "xn--mnchen-3ya.example", (443, 443), "tcp"),
        ("MÜNCHEN.example", "name", "xn--mnchen-3ya.example", (443, 443), "tcp"),
        ("*.example.org", "suffix", ".example.org", (443, 443), "tcp"),
        ("*.Example.org.:*", "suffix", ".example.org", ALL, "tcp"),
        ("localhost:5432", "localhost", "", (5432, 5432), "tcp"),
        ("127.0.0.1:5432", "localhost", "", (5432, 5432), "tcp"),
        ("127.8.9.1", "localhost", "", (443, 443), "tcp"),
        ("127.0.0.0/8:*", "localhost", "", ALL, "tcp"),
        ("[::1]:6379", "localhost", "", (6379, 6379), "tcp"),
        ("192.0.2.1", "network", "192.0.2.1/32", (443, 443), "tcp"),
        ("10.0.0.0/8:5432", "network", "10.0.0.0/8", (5432, 5432), "tcp"),
        ("169.254.169.254:80", "network", "169.254.169.254/32", (80, 80), "tcp"),
        ("[2001:DB8:0:0::1]:53", "network", "2001:db8::1/128", (53, 53), "tcp"),
        ("[fd00::/8]:*", "network", "fd00::/8", ALL, "tcp"),
        ("any", "any", "", ALL, "tcp"),
        ("udp://ntp.example.org:123", "name", "ntp.example.org", (123, 123), "udp"),
        ("udp://[2001:db8::1]:53", "network", "2001:db8::1/128", (53, 53), "udp"),
        ("udp://quic.example.org", "name", "quic.example.org", (443, 443), "udp"),
    ],
)
def test_a_host_is_read_to_one_canonical_spelling(
    text: str, kind: str, host: str, ports: tuple[int, int], protocol: str
) -> None:
    assert rule(text)[3:] == (kind, host, ports, protocol, None)


@pytest.mark.parametrize(
    ("text", "steps", "within"),
    [
        ("$arg:url", ("url",), ()),
        ("$arg:a.urls[]", ("a", "urls", "[]"), ()),
        ("$arg:url in *.wikipedia.org", ("url",), ("*.wikipedia.org",)),
        ("$arg:url in *.Wikipedia.org, example.org.", ("url",), ("*.wikipedia.org", "example.org")),
    ],
)
def test_the_host_of_an_argument_may_be_limited(
    text: str, steps: tuple[str, ...], within: tuple[str, ...]
) -> None:
    assert rule(text)[3:] == ("arg", "", ALL, "tcp", ArgHost(steps, within))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2130706433", "write 127.0.0.1"),
        ("0x7f000001", "write 127.0.0.1"),
        ("0177.0.0.1", "write 127.0.0.1"),
        ("127.1:80", "write 127.0.0.1"),
        ("0xA9.254.43518", "write 169.254.169.254"),
        ("0xa.0/8", 'write "10.0.0.0/8"'),
        ("[::ffff:169.254.169.254]:80", "write 169.254.169.254"),
        ("::1", 'write "[::1]"'),
        ("fd00::/8", 'write "[fd00::/8]"'),
        ("[fd00::]/8:22", 'write "[fd00::/8]"'),
        ("[10.0.0.1]:80", 'write "10.0.0.1"'),
        ("10.1.2.3/8", "write 10.0.0.0/8, or the address alone"),
        ("https://api.example.com/v1", 'write "api.example.com"'),
        ("http://user:secret@api.example.com/v1", 'write "api.example.com:80"'),
        ("https://api.example.com:8443", 'write "api.example.com:8443"'),
        ("http://[::1]/", 'write "[::1]:80"'),
        ("api.example.com/v1", 'write "api.example.com"'),
        ("0.0.0.0:80", 'write "localhost:PORT"'),
        ("app.localhost", 'write "localhost:PORT"'),
        ("*.localhost", 'write "localhost:PORT"'),
        ("*", 'write "any" for every public address'),
        ("any:443", 'write "any"'),
        ("udp://any", 'write "any"'),
        ("udp://$arg:url", 'write "$arg:url"'),
        ("$arg:url:80", 'write "$arg:url"'),
        ("$arg:url/x", 'write "$arg:url"'),
        ("h:0443", "write 443"),
        ("$HOST:80", "write the name"),
    ],
)
def test_another_spelling_is_refused_with_the_one_to_write(text: str, hint: str) -> None:
    with pytest.raises(Wrong) as caught:
        rule(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "a b",
            "a..b",
            "-a.example",
            "a-.example",
            "a" * 64,
            ".".join(["a" * 60] * 5),
            "a,b",
            "a\u202eb",
        ),
        *("1.2.3.4.5", "256.1.1.1", "a.1", "a.0x1", "09.1.1.1", "9" * 5000),
        *("h:", "h:0", "h:65536", "h:+80", "h:８０", "h:http", "h:80-90", "h:" + "1" * 5000),
        *("10.0.0.0/33", "10.0.0.0/", "10.0.0.0/" + "1" * 5000, "10.0.0.0/８", "[::/129]", "[]:80", "[x]:80"),
        *("0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "[::/0]", "[::]:80", "224.0.0.251:5353", "[ff02::1]:80"),
        *("[fe80::1%eth0]:80", "[fe80::1%25eth0]", "a.*.example", "*a.example", "*.*.example", "*."),
        *("straße.example", "\u0627\u200d.example", "xn--\u00fc.example", "udp://h:*", "udp://"),
        *(
            "$arg",
            "$arg:",
            "$arg:url in",
            "$arg:url in ",
            "$arg:url in *",
            "$arg:url in a, a",
            "$arg:url in a,",
        ),
        *("$arg:url in 10.0.0.0/8", "$arg:url in localhost", "$arg:url in any", "$arg:url in a:80"),
    ],
)
def test_what_names_no_host_for_certain_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        rule(text)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("a.example", "A.example."),
        ("a.example:*", "a.example"),
        ("*.example", "*.a.example"),
        ("10.0.0.0/8", "10.1.0.0/16"),
        ("localhost:1", "127.0.0.1:1"),
        ("[::1]:1", "127.0.0.1:1"),
        ("any", "any"),
        ("$arg:url", "$arg:url in a.example"),
        ("$arg:url in a.example, b.example", "$arg:url in b.example"),
    ],
)
def test_a_rule_that_adds_nothing_is_known(wide: str, narrow: str) -> None:
    assert covers(rule(wide), rule(narrow))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("*.example", "a.example"),  # the name alone may be on a private network
        ("any", "a.example"),
        ("*.example", "*.myexample"),
        ("a.example", "a.example:*"),
        ("a.example", "udp://a.example"),
        ("10.0.0.0/8", "[fd00::/8]"),
        ("10.1.0.0/16", "10.0.0.0/8"),
        ("$arg:url in a.example", "$arg:url"),
        ("$arg:url", "$arg:uri"),
    ],
)
def test_a_rule_that_adds_something_is_kept(wide: str, narrow: str) -> None:
    assert not covers(rule(wide), rule(narrow))


def test_an_argument_is_only_of_a_tools_call() -> None:
    for table in ("server", "startup", "resources", "prompts", "server.quiet"):
        assert "only stand in a [tools" in problems(f'[{table}]\nnet = ["$arg:url"]')[0][2]


@pytest.mark.parametrize(
    ("host", "port", "protocol", "text"),
    [
        ("api.example.com", 443, "tcp", "api.example.com"),
        ("api.example.com", 8443, "tcp", "api.example.com:8443"),
        ("192.0.2.1", 80, "tcp", "192.0.2.1:80"),
        ("2001:db8::1", 80, "tcp", "[2001:db8::1]:80"),
        ("127.0.0.1", 5432, "tcp", "localhost:5432"),
        ("::1", 5432, "tcp", "localhost:5432"),
        ("localhost", 443, "tcp", "localhost:443"),
        ("ntp.example.org", 123, "udp", "udp://ntp.example.org:123"),
        ("any", 80, "tcp", None),
        ("any", 443, "tcp", None),
        ("*.example.org", 443, "tcp", None),
        ("10.0.0.0/8", 443, "tcp", None),
        ("0.0.0.0", 80, "tcp", None),
        ("224.0.0.1", 80, "tcp", None),
        ("API.example.com", 443, "tcp", None),
        ('x"]\nfs_write = ["/', 443, "tcp", None),
        ("a.example:80", 443, "tcp", None),
        ("a.example", 0, "tcp", None),
        ("::ffff:10.0.0.1", 80, "tcp", None),
        ("", 80, "tcp", None),
    ],
)
def test_an_offer_names_exactly_one_host_and_port(
    host: str, port: int, protocol: str, text: str | None
) -> None:
    assert host_text(host, port, "udp" if protocol == "udp" else "tcp") == text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/run/postgresql/.s.PGSQL.5432", "/run/postgresql/.s.PGSQL.5432"),
        ("/var/run//docker.sock", "/var/run/docker.sock"),
        ("$DATA/s", "/srv/data/s"),
        ("~/.sock", "/home/u/.sock"),
        ("/tmp/.X11-unix/X0", "/tmp/.X11-unix/X0"),
        ("/dev/log", "/dev/log"),
    ],
)
def test_a_socket_is_named_exactly(text: str, path: str) -> None:
    assert unix_rule("server.unix[0]", text, HERE, VARIABLES).path == path


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "run/s",
            "@abstract",
            "~/run/*.sock",
            "$STAR/s",
            "$arg:socket",
            "$TMP/s",
            "$EMPTY/s",
            "$NOPE",
            "/",
            "~",
        ),
        *(
            "/home",
            "unix:///run/s",
            "/proc/self/s",
            "/a/../s",
            "/" + "s" * 107,
            "/" + "\u00fc" * 54,
            "/a\u202eb",
        ),
    ],
)
def test_what_names_no_socket_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unix_rule("server.unix[0]", text, HERE, VARIABLES)


def test_an_offered_socket_is_that_socket() -> None:
    assert socket_text("/run/user/1000/bus") == "/run/user/1000/bus"
    assert socket_text("/home/u/$s", "/home/u") == "~/$$s"
    assert socket_text("/run/" + "s" * 103) is None
    assert socket_text("/run/*") is None


@pytest.mark.parametrize(
    ("text", "port", "everywhere"),
    [
        ("8080", 8080, False),
        ("localhost:8080", 8080, False),
        ("127.0.0.1:8080", 8080, False),
        ("[::1]:8080", 8080, False),
        ("any:1", 1, True),
    ],
)
def test_a_port_is_reached_from_here_unless_from_everywhere(text: str, port: int, everywhere: bool) -> None:
    assert listen_rule("server.listen[0]", text, HERE)[3:] == (port, everywhere)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "any",
        "localhost",
        "any:*",
        "0.0.0.0:80",
        "[::]:80",
        "*:80",
        "192.0.2.1:80",
        "h:80",
        "0",
        "65536",
        ":80",
    ],
)
def test_what_is_no_port_to_listen_on_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        listen_rule("server.listen[0]", text, HERE)


def test_rules_of_the_network_stand_in_their_tables_in_file_order() -> None:
    grant = read(
        '[server]\nnet = ["b.example", "a.example"]\nunix = ["/run/s"]\n[startup]\nlisten = ["8080"]\n'
        '[resources]\nnet = ["r.example"]\nfs_read = ["~/r"]\n[prompts]\nexec = ["git"]\n'
        '[tools.fetch]\nnet = ["$arg:url", "any"]\n[server.quiet]\nnet = ["telemetry.example.com"]\n'
    )
    assert [rule.host for rule in grant.server.hosts] == ["b.example", "a.example"]
    assert [rule.id for rule in grant.server.hosts] == ["server.net[0]", "server.net[1]"]
    assert [rule.path for rule in grant.server.sockets] == ["/run/s"]
    assert [rule.port for rule in grant.startup.listens] == [8080]
    assert [rule.host for rule in grant.resources.hosts] == ["r.example"]
    assert [rule.path for rule in grant.resources.paths] == ["/home/u/r"]
    assert [rule.program for rule in grant.prompts.execs] == ["git"]
    assert [rule.kind for rule in grant.tools[0].block.hosts] == ["arg", "any"]
    assert [rule.id for rule in grant.quiet.hosts] == ["server.quiet.net[0]"]
    assert grant.lines["tools", "fetch", "net"] == 12


def test_one_table_may_list_any_beside_what_it_does_not_hold() -> None:
    assert (
        problems('[tools.a]\nnet = ["any", "localhost:80", "a.example", "10.0.0.0/8:1", "udp://b:53"]') == []
    )


@pytest.mark.parametrize(
    "text",
    [
        '[server]\nnet = ["a.example:*"]\n[server.quiet]\nnet = ["a.example"]',
        '[server]\nunix = ["/run/s"]\n[server.quiet]\nunix = ["/run//s"]',
        '[server]\nnet = ["a.example"]\n[tools.x]\nnet = ["A.example"]',
        '[server]\nnet = ["a.example"]\n[startup]\nnet = ["a.example"]',
        '[server]\nnet = ["a.example"]\n[resources]\nnet = ["a.example"]',
        '[server]\nunix = ["/run/s"]\n[tools.x]\nunix = ["/run/s"]',
        '[server]\nlisten = ["any:80"]\n[tools.x]\nlisten = ["80"]',
        '[tools."*"]\nnet = ["a.example"]\n[tools.x]\nnet = ["a.example"]',
        '[server]\nlisten = ["80", "localhost:80"]',
        '[server]\nlisten = ["80", "any:80"]',
        '[server]\nnet = ["a.example", "a.example:*"]',
        '[resources]\nfs_read = ["~/a"]\nfs_deny = ["~/a"]',
    ],
)
def test_a_rule_that_can_never_apply_is_told_once(text: str) -> None:
    assert len(problems(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        '[tools.x]\nnet = ["a.example"]\n[tools.y]\nnet = ["a.example"]',
        '[tools."*"]\nnet = ["a.example"]\n[tools.x]\ninherit = false\nnet = ["a.example"]',
        '[tools.x]\nnet = ["a.example"]\n[server.quiet]\nnet = ["a.example"]',
        '[server]\nlisten = ["80"]\n[tools.x]\nlisten = ["any:80"]',
        '[server]\nnet = ["*.example"]\n[tools.x]\nnet = ["a.example"]',
    ],
)
def test_what_adds_something_somewhere_is_no_contradiction(text: str) -> None:
    assert problems(text) == []
