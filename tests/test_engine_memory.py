"""The arena plan and scratch memory, for any set of lifetimes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from litedelegate.runtime.memory import ALIGNMENT, SMALL, Block, Workspace, align, aligned, plan

SIZES = st.one_of(
    st.just(0),
    st.integers(1, SMALL),
    st.integers(SMALL + 1, 40 * SMALL),
    st.sampled_from([ALIGNMENT, SMALL, SMALL + 1, 64 * SMALL]),
)


@st.composite
def blocks(draw: st.DrawFn) -> list[Block]:
    made = []
    for _ in range(draw(st.integers(0, 40))):
        first = draw(st.integers(0, 30))
        made.append(Block(draw(SIZES), first, first + draw(st.integers(0, 12))))
    return made


def overlap(a: Block, b: Block) -> bool:
    in_time = a.first <= b.last and b.first <= a.last
    in_memory = a.offset < b.offset + b.size and b.offset < a.offset + a.size
    return in_time and in_memory and a.size > 0 and b.size > 0


@given(blocks())
@settings(max_examples=300, deadline=None)
def test_no_two_blocks_that_are_alive_together_overlap(made: list[Block]) -> None:
    size = plan(made)
    for i, a in enumerate(made):
        assert a.offset >= 0 and a.offset + a.size <= size
        assert a.offset % ALIGNMENT == 0
        for b in made[:i]:
            assert not overlap(a, b)
    assert size % ALIGNMENT == 0


@given(blocks())
@settings(max_examples=200, deadline=None)
def test_the_arena_lies_between_what_is_needed_at_once_and_the_sum(made: list[Block]) -> None:
    size = plan(made)
    steps = {b.first for b in made}
    at_once = max((sum(b.size for b in made if b.first <= s <= b.last) for s in steps), default=0)
    assert at_once <= size <= sum(align(b.size) for b in made)


def test_a_chain_takes_two_buffers() -> None:
    chain = [Block(100_000, i, i + 1) for i in range(50)]
    assert plan(chain) == 2 * align(100_000)


def test_small_blocks_are_reused_too() -> None:
    chain = [Block(100, i, i + 1) for i in range(5000)]
    assert plan(chain) <= 3 * align(100)


def test_planning_six_thousand_blocks_is_quick() -> None:
    """A chain of short lives: it returns at once, and a few buffers serve them all."""
    made = [Block(64 * (1 + i % 7), i, i + 2) for i in range(6092)]
    assert plan(made) <= sum(align(64 * (1 + i)) for i in range(7)) * 3


def test_aligned_memory() -> None:
    for n in (1, 63, 64, 4097):
        memory = aligned(n)
        assert memory.nbytes == n
        assert memory.ctypes.data % ALIGNMENT == 0


def test_scratch_is_shared_by_nodes_and_apart_within_one() -> None:
    workspace = Workspace()
    workspace.begin()
    a, b = workspace.take(100), workspace.take(100)
    assert not np.shares_memory(a, b)
    workspace.begin()
    again = workspace.take(100)
    assert workspace.nbytes >= 256
    workspace.begin()
    assert np.shares_memory(again, workspace.take(50))


def test_scratch_that_was_handed_out_survives_growth() -> None:
    workspace = Workspace()
    workspace.begin()
    small = workspace.take(64)
    small[:] = 7
    workspace.begin()
    workspace.take(1 << 20)[:] = 9
    assert (small == 7).all()
