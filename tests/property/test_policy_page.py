"""The page: every reading is one whole publication, however reader and writer interleave."""

from __future__ import annotations

import mmap
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwrap.operation import Need
from mcpwrap.policy import page
from mcpwrap.policy.active import Active, ActiveWindow, BoundHost, BoundPath
from mcpwrap.policy.page import PageReader, PageWriter, TornPage, decode, encode

NAMES = st.text(st.characters(exclude_categories=()), max_size=30)
BOUND = st.builds(
    BoundPath,
    st.sampled_from(list(Need)),
    NAMES,
    st.sampled_from(["file", "tree", "create", "exact"]),
    NAMES,
    st.booleans(),
    NAMES,
)
HOSTS = st.builds(
    BoundHost, NAMES, st.lists(st.integers(0, 65535), max_size=3).map(tuple), NAMES, st.booleans()
)
AREAS = st.sampled_from(["tools", "resources", "prompts"])
WINDOWS = st.lists(
    st.builds(
        ActiveWindow,
        NAMES,
        NAMES,
        st.lists(BOUND, max_size=4).map(tuple),
        st.lists(HOSTS, max_size=4).map(tuple),
        AREAS,
    ),
    max_size=4,
)
ACTIVE = st.builds(Active, st.integers(1, 2**32 - 1), st.booleans(), WINDOWS.map(tuple))


def sized(generation: int, size: int) -> Active:
    """A state that says its own generation in every place, so that a mixture shows."""
    name = f"{generation}:" * max(1, size // (len(str(generation)) + 1))
    return Active(generation, False, (ActiveWindow(f"w{generation}", name),))


@given(ACTIVE)
def test_what_is_encoded_is_decoded_for_every_path(active: Active) -> None:
    assert decode(encode(active)) == active
    assert b"\n" not in encode(active)


class Interrupted:
    """A page whose reader is interrupted: before each step of its reading the writer may publish."""

    def __init__(self, size: int, script: list[int]) -> None:
        self.buffer = memoryview(bytearray(size))
        self.writer = PageWriter(self.buffer)
        self.published: list[Active] = []
        self.script = script

    def publish(self, size: int) -> None:
        active = sized(len(self.published) + 1, size)
        self.writer.publish(active)
        self.published.append(active)

    def step(self) -> None:
        if self.script:
            for size in range(self.script.pop() % 4):
                self.publish(size * 37 % 150)


class InterruptedReader(PageReader):
    def __init__(self, shared: Interrupted) -> None:
        super().__init__(shared.buffer)
        self._shared = shared

    def _payload(self, offset: int, generation: int) -> bytes | None:
        self._shared.step()
        payload = super()._payload(offset, generation)
        self._shared.step()
        return payload


@settings(max_examples=300)
@given(
    st.lists(st.integers(0, 7), max_size=60),
    st.integers(700, 4096),
    st.lists(st.integers(0, 150), min_size=1, max_size=30),
)
def test_a_reader_interrupted_anywhere_gets_one_whole_publication_no_older_than_its_start(
    script: list[int], size: int, sizes: list[int]
) -> None:
    shared = Interrupted(size, script)
    reader = InterruptedReader(shared)
    for each in sizes:
        shared.publish(each)
        before = len(shared.published)
        active = reader.active()
        assert active in shared.published[before - 1 :]


@settings(max_examples=200)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=200), st.integers(1500, 5000))
def test_no_record_is_written_over_the_one_in_force(sizes: list[int], size: int) -> None:
    buffer = memoryview(bytearray(size))
    writer, reader = PageWriter(buffer), PageReader(buffer)
    assert reader.active() == Active(0, True)
    for generation, each in enumerate(sizes, 1):
        active = sized(generation, each)
        place = (writer._begin, writer._end)
        if len(encode(active)) > writer.capacity:
            with pytest.raises(ValueError, match="bind too much"):
                writer.publish(active)
            assert (writer._begin, writer._end) == place
            continue
        writer.publish(active)
        assert writer._end <= size
        assert writer._begin >= page.HEAD
        assert writer._end <= place[0] or writer._begin >= place[1]
        assert reader.generation() == generation
        assert reader.active() == active


@given(st.binary(min_size=0, max_size=200), st.integers(0, 2**64 - 1))
def test_garbage_is_never_taken_for_a_grant(garbage: bytes, head: int) -> None:
    buffer = memoryview(bytearray(512))
    buffer[8 : 8 + len(garbage)] = garbage
    buffer[:8] = head.to_bytes(8, "little")
    reader = PageReader(buffer)
    if head & 0xFFFFFFFF:
        with pytest.raises(TornPage):
            reader.active()
    else:
        assert reader.active() == Active(0, True)


def test_a_generation_cannot_follow_itself_or_be_none() -> None:
    writer = PageWriter(memoryview(bytearray(4096)))
    writer.publish(Active(1, True))
    for generation in (1, 0, -1, 2**32):
        with pytest.raises(ValueError, match="cannot follow"):
            writer.publish(Active(generation, True))


def test_an_ordinary_run_touches_the_first_pages_only() -> None:
    buffer = memoryview(bytearray(page.SIZE))
    writer = PageWriter(buffer)
    for generation in range(1, 3000):
        writer.publish(sized(generation, 200))
        assert writer._end <= page.PREFERRED
    writer.publish(sized(3000, 200_000))
    writer.publish(sized(3001, 10))
    assert writer._end <= page.PREFERRED


def test_a_reader_in_another_thread_sees_whole_publications_in_order() -> None:
    buffer = memoryview(mmap.mmap(-1, 64 * 1024))
    writer, reader = PageWriter(buffer), PageReader(buffer)
    writer.publish(sized(1, 10))
    done = threading.Event()
    seen: list[Active] = []

    def read() -> None:
        while not done.is_set():
            seen.append(reader.active())

    thread = threading.Thread(target=read)
    thread.start()
    for generation in range(2, 4000):
        writer.publish(sized(generation, generation * 31 % 5000))
    done.set()
    thread.join(timeout=30)
    assert not thread.is_alive()
    generations = [active.generation for active in seen]
    assert generations == sorted(generations)
    assert all(active.windows[0].tool.startswith(f"{active.generation}:") for active in seen)
