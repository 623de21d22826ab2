"""BLAS has one thread while a model runs, whichever thread runs it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

from litedelegate.runtime.blas import one_thread


def _threads() -> list[int]:
    found: list[dict[str, Any]] = threadpool_info()
    return [library["num_threads"] for library in found if library["user_api"] == "blas"]


def _inside_and_after() -> tuple[list[int], list[int]]:
    with one_thread, one_thread:
        inside = _threads()
    return inside, _threads()


def test_any_thread_sets_and_restores() -> None:
    with threadpool_limits(2, "blas"):
        before = _threads()
        assert _inside_and_after() == ([1] * len(before), before)
        for _ in range(2):
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(_inside_and_after).result() == ([1] * len(before), before)
            assert _inside_and_after() == ([1] * len(before), before)


def test_the_last_to_leave_restores() -> None:
    with threadpool_limits(2, "blas"), ThreadPoolExecutor(1) as pool:
        before = _threads()
        pool.submit(one_thread.__enter__).result()
        with one_thread:
            pool.submit(one_thread.__exit__).result()
            assert _threads() == [1] * len(before)
        assert _threads() == before
