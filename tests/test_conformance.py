"""One-op models with known outputs, where `../shared/conformance` is there."""

from __future__ import annotations

import pytest
from conformance import CASES, case_ids, case_ops, known_failures, run_case, unregistered

FOLDERS = sorted({c.rpartition("/")[0] for c in case_ids()}) if CASES.is_dir() else []
KNOWN = known_failures()

pytestmark = pytest.mark.skipif(not FOLDERS, reason=f"there is no {CASES}")


@pytest.mark.parametrize("folder", FOLDERS)
def test_cases(folder: str) -> None:
    """All cases of a folder that are not known failures pass; known failures fail."""
    wrong: list[str] = []
    missing: set[str] = set()
    ran = 0
    for case in case_ids([folder.rpartition("/")[2]]):
        if not case.startswith(folder + "/"):
            continue
        lacking = unregistered(case_ops(case))
        if lacking:
            missing.update(lacking)
            continue
        ran += 1
        result = run_case(case)
        if "maximum supported dimension for an ndarray is 32" in result.reason:
            continue  # numpy 2 has 64
        if result.ok and case in KNOWN:
            wrong.append(f"{case} passes, but tests/xfail/numpy.txt has it: {KNOWN[case]}")
        elif not result.ok and case not in KNOWN:
            wrong.append(f"{case}: {result.reason}")
    assert not wrong, "\n".join(wrong)
    if not ran:
        pytest.skip(f"no kernel for {', '.join(sorted(missing))}")


def test_known_failures_are_cases() -> None:
    assert set(KNOWN) <= set(case_ids())
