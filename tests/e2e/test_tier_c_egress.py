"""The same connections where there are no namespaces, and no descriptor is copied out of another process: in a
container with Docker's default filter. Datagrams and listening are not to be had there.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.internet import Internet
from tests.e2e.test_egress import (  # noqa: F401 - fixtures and tests, collected here as well
    Run,
    database,
    internet,
    running,
    test_a_connection_is_parked_between_calls_and_alive_in_the_next,
    test_a_granted_host_is_reached_by_http_and_https,
    test_a_host_that_is_down_is_no_refusal,
    test_a_name_bound_anew_never_leads_inside,
    test_a_private_host_one_tool_names_is_not_lent_to_another_whose_rule_only_fits_its_name,
    test_a_private_host_that_is_named_is_reached,
    test_another_name_inside_tls_is_refused,
    test_bulk_arrives_whole,
    test_localhost_is_the_hosts_where_a_rule_says_so,
    test_names_that_are_not_granted_are_looked_up_nowhere,
    test_nothing_passes_outside_of_the_window,
    test_plain_text_on_the_port_of_tls_is_refused,
    test_the_audit_says_where_a_call_connected,
    test_the_host_of_an_argument_is_reached,
    test_what_is_not_granted_is_refused_and_told,
)

pytestmark = [pytest.mark.needs("userns", "seccomp", "landlock", "user", "openssl")]


@pytest.fixture(scope="module")
def run(internet: Internet) -> Iterator[Run]:  # noqa: F811 - the one imported is for tier B
    with running(internet, "egress-c", lacking="docker") as made:
        yield made
        records = [each for each in made.place.audit() if each["kind"] == "protections"]
        assert records[-1]["tier"] == "C"


def test_datagrams_and_listening_are_refused(run: Run) -> None:
    assert "Permission denied" in run.said("time", "datagram", host="ntp.example.com", port=123, send="now")
    assert "refused by mcpwrap" in run.said("serve", "accept", port=9100)


def test_a_rule_of_listen_opens_no_port_and_that_is_said(internet: Internet) -> None:  # noqa: F811
    grant = 'schema = 1\n\n[server]\nlisten = ["localhost:8098"]\n\n[tools.serve]\n'
    with running(internet, "egress-c-listen", grant, lacking="filter") as run:
        said = run.said("serve", "accept", port=8098)
        assert "without a network of its own (tier B)" in said
        with pytest.raises(ConnectionRefusedError):
            internet.connect("127.0.0.1", 8098)
        assert "at tier C no server can be reached" in run.session.stderr()
