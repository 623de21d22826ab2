"""docs/operators.md is fresh, and every operator has a test and the versions that it needs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from peer_versions import PEER_VERSIONS
from type_sweep import all_cases

from litedelegate.kernels.builtins import BUILTINS, CUSTOMS, find_builtin, find_custom
from litedelegate.runtime import schema

# Ops that need a runtime around them: no case can hold them, these tests do.
TESTED_ELSEWHERE = {
    "CALL": "test_control.py::test_a_call_runs_its_subgraph",
    "CALL_ONCE": "test_control.py::test_a_variable_outlives_an_invoke_and_is_initialised_once",
    "IF": "test_control.py::test_if_takes_one_branch",
    "WHILE": "test_control.py::test_a_loop_runs_as_often_as_its_condition_says",
    "STABLEHLO_CASE": "test_control.py::test_a_case_beyond_the_branches_is_the_last",
    "STABLEHLO_COMPOSITE": "test_control.py::test_a_call_runs_its_subgraph",
    "STABLEHLO_WHILE": "test_control.py::test_a_loop_runs_as_often_as_its_condition_says",
    "STABLEHLO_REDUCE": "test_bodies.py::test_reduce",
    "STABLEHLO_REDUCE_WINDOW": "test_bodies.py::test_reduce_window",
    "STABLEHLO_SCATTER": "test_bodies.py::test_scatter_meets_one_row_many_times",
    "STABLEHLO_SORT": "test_bodies.py::test_sort_is_stable",
    "HASHTABLE": "test_control.py::test_a_table_finds_its_keys",
    "HASHTABLE_FIND": "test_control.py::test_a_table_finds_its_keys",
    "HASHTABLE_IMPORT": "test_control.py::test_a_table_finds_its_keys",
    "HASHTABLE_SIZE": "test_control.py::test_a_table_finds_its_keys",
    "VAR_HANDLE": "test_control.py::test_a_variable_is_known_by_container_and_name",
    "READ_VARIABLE": "test_control.py::test_a_variable_is_known_by_container_and_name",
    "ASSIGN_VARIABLE": "test_control.py::test_a_variable_is_known_by_container_and_name",
    "RaggedRange": "test_text.py::test_ragged_range",
    "RaggedTensorToTensor": "test_text.py::test_ragged_to_dense",
    "SignalDelay": "test_signal.py::test_delay",
    "SignalFilterBankSpectralSubtraction": "test_signal.py::test_spectral_subtraction",
    "SignalFramer": "test_signal.py::test_framer",
    "SignalOverlapAdd": "test_signal.py::test_overlap_add",
    "SignalStacker": "test_signal.py::test_stacker",
    "TFSentencepieceDetokenizeOp": "test_text.py::test_detokenize",
    "TFSentencepieceTokenizeOp": "test_text.py::test_codes_of_begin_and_end",
    "TFText>FastSentencepieceDetokenize": "test_text.py::test_detokenize",
    "TFText>FastSentencepieceTokenize": "test_text.py::test_codes_of_begin_and_end",
    "TFText>NgramsStringJoin": "test_text.py::test_ngrams",
    "TFText>WhitespaceTokenizeWithOffsetsV2": "test_text.py::test_whitespace_with_offsets",
    "tftext:Ngrams": "test_text.py::test_ngrams",
    "tftext:WhitespaceTokenizer": "test_text.py::test_whitespace_tokenizer",
    "MULTINOMIAL": "test_random.py::test_multinomial",
    "RANDOM_STANDARD_NORMAL": "test_random.py::test_normal",
    "RANDOM_UNIFORM": "test_random.py::test_uniform_goes_on_where_it_stopped",
}


@pytest.fixture(scope="module")
def tool(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("operators", root / "tools" / "operators.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_page_is_fresh(tool: ModuleType) -> None:
    fresh = tool.PAGE.read_text(encoding="utf-8") == tool.page()
    assert fresh, "run python tools/operators.py"


def test_the_page_has_every_op_once(root: Path) -> None:
    text = (root / "docs" / "operators.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w.:>]+) \|", text, re.MULTILINE)
    assert sorted(r for r in rows if r != "op") == sorted([*schema.BUILTINS, *CUSTOMS])


def test_what_partitions_take_without_a_form_is_told(tool: ModuleType) -> None:
    for op in ("READ_VARIABLE", "ASSIGN_VARIABLE", "CALL", "STABLEHLO_COMPOSITE"):
        assert "| yes | yes | yes |" in tool.row(op, "any", [])
    for op in ("VAR_HANDLE", "CALL_ONCE", "IF", "WHILE"):
        assert "| yes | not yet | not yet |" in tool.row(op, "any", [])


def test_only_what_cannot_run_has_no_kernel(tool: ModuleType) -> None:
    assert set(schema.BUILTINS) - set(BUILTINS) == set(tool.NO_KERNEL)


@pytest.mark.parametrize("op", [*BUILTINS, *CUSTOMS])
def test_every_op_has_a_test(op: str, root: Path) -> None:
    if op not in TESTED_ELSEWHERE:
        assert op in all_cases(), f"no case with expected values in tests/cases for {op}"
        return
    file, _, name = TESTED_ELSEWHERE[op].partition("::")
    text = (root / "tests" / file).read_text(encoding="utf-8")
    assert f"\ndef {name}(" in text and f'"{op}"' in text


@pytest.mark.parametrize("op", PEER_VERSIONS)
def test_versions_of_the_peer_are_taken(op: str) -> None:
    found = find_builtin(op)
    assert found is not None
    low, high = found.versions
    assert low <= PEER_VERSIONS[op][0] and PEER_VERSIONS[op][1] <= high


def test_a_registration_has_the_name_it_is_found_by() -> None:
    for find, names in ((find_builtin, BUILTINS), (find_custom, CUSTOMS)):
        for name in names:
            found = find(name)
            assert found is not None and found.name == name
            assert found.custom is (find is find_custom)
