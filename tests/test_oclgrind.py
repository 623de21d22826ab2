"""Device kernels under Oclgrind: some of the case tables; `make oclgrind` does all."""

from __future__ import annotations

import pytest
from oclgrind_check import Found, check, missing
from oclgrind_jobs import SHAPES, Choice, Job, cut_case, of_family, structure, texts_of
from test_device import KEYS, claim

reason = missing()
needs_oclgrind = pytest.mark.skipif(reason is not None, reason=reason or "")


@needs_oclgrind
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_found(shape: str) -> None:
    chosen = [of_family(shape, family) for family in ("softmax", "comparison", "space")]
    found = check(shape, Choice([job for each in chosen for job in each.jobs]))
    assert len(found.choice.jobs) > 30 and found.clean, (found.findings, found.errors)


@pytest.fixture(scope="module")
def planted() -> Found:
    bugs = ("beyond", "race", "endless", "unwritten", "unknown")
    return check("gpu", Choice([Job(f"planted-{bug}") for bug in bugs]), seconds=5)


@needs_oclgrind
@pytest.mark.parametrize(
    "text, job",
    [
        ("Invalid write of size 4 at global memory address … at `KERNEL void beyond", "beyond"),
        ("Read-write data race at global memory address … at `KERNEL void race", "race"),
        ("Controlflow depends on uninitialized value at `KERNEL void unwritten", "unwritten"),
    ],
)
def test_bugs_are_found(planted: Found, text: str, job: str) -> None:
    (found,) = [x for x in planted.findings if x.startswith(text)]
    assert planted.first[found] == f"planted-{job}"


@needs_oclgrind
def test_what_does_not_end_or_build_is_an_error(planted: Found) -> None:
    """And what comes after it is run all the same."""
    assert set(planted.errors) == {"planted-endless", "planted-unknown"}
    assert "no end after 5 s" in planted.errors["planted-endless"]
    assert "undeclared" in planted.errors["planted-unknown"]
    assert not planted.clean


@pytest.mark.parametrize("shape", SHAPES)
def test_every_structure_of_kernels_is_run(shape: str) -> None:
    """Cases that are cut to a part keep theirs."""
    choice = of_family(shape, "conv")
    assert any(job.cut for job in choice.jobs)
    run: set[str] = set()
    for job in choice.jobs:
        capability = SHAPES[shape][job.variant]
        claimed = claim(job.name, capability)
        if job.cut:
            claimed = cut_case(job.name, claimed, job.cut, capability)
        run.update(structure(t) for t in texts_of(claimed, capability))
    for capability in SHAPES[shape]:
        for key in KEYS:
            claimed = claim(key, capability)
            if key.startswith("conv-") and claimed.lowered is not None:
                assert run.issuperset(structure(t) for t in texts_of(claimed, capability)), key
