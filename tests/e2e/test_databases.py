"""A database behind mcpwrap: one connection that outlives calls, and statements that only a pattern can hold."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.client import Session, failed, text
from tests.e2e.corpus import Bench, bench, launch
from tests.e2e.services import LOOK_SECONDS, Surroundings, surroundings

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "npm", "postgres")

CALLS = 10
IDLE_SECONDS = 0.5
"""Between two calls, by the database's clock. The server's pool closes what has been idle for 10 s."""
ROW = {
    "server": "postgres",
    "command": ["postgresql://u@127.0.0.1:5432/postgres?application_name=served"],
    "grant": "examples/grants/server-postgres",
}
MINE = "from pg_stat_activity where application_name = 'served'"


class Database:
    """A wrapped server, and the database it talks to seen from the other side."""

    def __init__(self, place: Bench, around: Surroundings, session: Session) -> None:
        self.place, self.around, self.session = place, around, session

    def seen(self, sql: str) -> str:
        """Return what psql, which nobody wraps, is told."""
        client = ["psql", "-h", "127.0.0.1", "-U", "u", "-d", "postgres", "-tAc", sql]
        done = subprocess.run(
            self.around.command(client), capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout.strip()

    def until(self, sql: str, seconds: float = 20) -> None:
        """Wait until `sql` answers t. The bound is the caller's."""
        end = time.monotonic() + seconds
        while self.seen(sql) != "t":
            assert time.monotonic() < end, sql
            time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def serving(how: str, extra: str = "") -> Iterator[Database]:
    place = bench(f"database-{how}")
    with surroundings(["postgres"], place.work) as around:
        command = around.command(launch(ROW, place, how))
        if extra:
            place.write_grant(str(ROW["grant"]), extra)
        stderr = place.work / "stderr"
        with Session(command, env=place.env, cwd=place.work / "data", stderr=stderr) as session:
            session.initialize()
            session.answer(session.request("tools/list"))
            yield Database(place, around, session)


@pytest.fixture(scope="module")
def database(installed: Callable[[str], Path]) -> Iterator[Database]:
    installed("postgres")
    with serving("mcpwrap") as made:
        yield made


def test_ten_calls_with_idle_time_between_use_one_connection_that_stays_alive(database: Database) -> None:
    backends = set()
    for number in range(CALLS):
        answer = database.session.call("query", {"sql": f"select pg_backend_pid() as pid, {number} as n"})
        assert not failed(answer) and f'"n": {number}' in text(answer), answer
        assert "[mcpwrap]" not in text(answer)
        backends.add(text(answer).partition('"pid": ')[2].partition(",")[0])
        # Idle, and still there: nothing but the call's own statements went over it.
        database.until(f"select count(*) = 1 {MINE} and state = 'idle'")
        database.until(f"select min(now() - state_change) > interval '{IDLE_SECONDS} s' {MINE}")
    assert backends == {database.seen(f"select pid {MINE}")}
    log = (database.place.work / "postgres.log").read_text()
    assert log.count("application_name=served") == 1, "one connection was authorized"
    assert "connection reset" not in log.lower() and "unexpected EOF" not in log


def test_its_tables_are_resources_over_the_same_connection(database: Database) -> None:
    listed = database.session.answer(database.session.request("resources/list"))
    (table,) = listed["result"]["resources"]
    assert "people" in table["uri"]
    read = database.session.answer(database.session.request("resources/read", {"uri": table["uri"]}))
    assert "column_name" in read["result"]["contents"][0]["text"]


HONEST = [
    "select * from people",
    "  SELECT name FROM people WHERE id = 1;",
    "select 'a;b' as x, \"name\" from people",
    "select count(*) from people where name like '%''%' or name = ''",
    "with p as (select id from people) select max(id) - 1, 4 / 2, '{\"a\":1}'::json->>'a' from p",
    "select 1 -- the first; and the last\n + 1",
    "values (1, 'x'), (2, 'y') ; -- done; really",
    "explain select * from people",
    "show server_version",
    "table people",
]
DROP = "drop table people"
SECOND_STATEMENTS = [
    f"COMMIT; {DROP}",
    f"select 1; {DROP}",
    f"select 1; COMMIT; {DROP}; --",
    f"select ';'; COMMIT; {DROP}",
    # A quote that the database has closed already, and a reader of plain quotes has not.
    f"select E'\\''; COMMIT; {DROP}; --'",
    f"select e'\\';'; COMMIT; {DROP}; select ''",
    f"select U&'\\0027'; COMMIT; {DROP}; --'",
    f"select 1 -- '\n; COMMIT; {DROP}; --'",
    f"select 1 --'\r; COMMIT; {DROP}; --'",
    f"select 1 /* ' */; COMMIT; {DROP}; --'",
    f"select 1 /* /* */ ' */; COMMIT; {DROP}; --'",
    f"select $$'$$; COMMIT; {DROP}; --'",
    f"select $a$ ' $a$; COMMIT; {DROP}; --'",
    f"select \"'\"; COMMIT; {DROP}; --'",
    f"select U&\"d\\0061t'\"; COMMIT; {DROP}; --'",
    f"select 1 - -- '\n 1; COMMIT; {DROP}; --'",
    f"select 1;\n--\n; COMMIT; {DROP}",
    f"select 1 --\u2028; COMMIT; {DROP}\n; COMMIT; {DROP}",
    f"select 1\x0b;\x0cCOMMIT; {DROP}",
    f"do $$ begin {DROP}; end $$",
    f"set transaction read write; {DROP}",
    "set transaction read write",
    DROP,
]


@pytest.mark.parametrize("sql", HONEST)
def test_an_honest_query_passes(database: Database, sql: str) -> None:
    answer = database.session.call("query", {"sql": sql})
    assert not failed(answer) and "[mcpwrap]" not in text(answer), answer


@pytest.mark.parametrize("sql", SECOND_STATEMENTS)
def test_no_spelling_brings_a_second_statement_through(database: Database, sql: str) -> None:
    answer = database.session.call("query", {"sql": sql})
    assert failed(answer), answer
    assert database.seen("select count(*) = 2 from people") == "t"
    if "refused by mcpwrap" in text(answer):
        assert "tools.query.args.sql" in text(answer)


@pytest.mark.parametrize(
    "arguments",
    [{"SQL": "select 1"}, {"sql": "select 1", "Sql": DROP}, {"sql": ["select 1"]}, {"sql": None}, {}],
)
def test_an_argument_by_another_name_or_of_another_kind_never_starts_a_call(
    database: Database, arguments: dict[str, object]
) -> None:
    answer = database.session.call("query", dict(arguments))
    assert failed(answer) and "refused by mcpwrap" in text(answer), answer


def test_without_the_pattern_most_of_them_do_their_harm(installed: Callable[[str], Path]) -> None:
    installed("postgres")
    with serving("bare") as made:
        harmed = 0
        for sql in SECOND_STATEMENTS:
            made.session.call("query", {"sql": sql})
            if made.seen("select to_regclass('people') is null") == "t":
                harmed += 1
                made.seen("create table people(id int, name text)")
                made.seen("insert into people values (1,'ada'),(2,'bob')")
        assert harmed > len(SECOND_STATEMENTS) // 2, harmed
