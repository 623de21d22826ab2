"""Coverage reports that must not change unnoticed: dry runs on devices that are not there.

python tests/golden_coverage.py            what has changed
python tests/golden_coverage.py --write    takes the changes over into tests/golden/coverage
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "golden" / "coverage"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))

from litedelegate import Interpreter  # noqa: E402
from litedelegate.delegates.gpu.dry_delegate import DryDelegate  # noqa: E402
from litedelegate.kernels.device import PROFILES  # noqa: E402
from litedelegate.runtime.coverage import Coverage, CoveredNode  # noqa: E402

OWN = ROOT / "examples" / "models"
SHARED = ROOT.parent / "shared" / "models"
MODELS = {
    "digits_f32": OWN,
    "digits_int8": OWN,
    "face_attention_custom_ops": SHARED,
    "lyra_soundstream_encoder": SHARED,
    "movenet_lightning_int8": SHARED,
    "resnet8_int8": SHARED,
    "yamnet": SHARED,
}
DEVICES = ("pocl-cpu", "sm_90")


def text(name: str, device: str) -> str:
    """The report in short: partitions and their kernels, then all nodes, equal neighbours once."""
    delegate = DryDelegate(PROFILES[device].api, device)
    with Interpreter(MODELS[name] / f"{name}.tflite", delegates=[delegate]) as interpreter:
        return "\n".join(_lines(interpreter.delegate_coverage()))


def _lines(report: Coverage) -> Iterator[str]:
    yield str(report)
    for k, p in enumerate(report.partitions):
        device, transfer = p.cost.device or 0.0, p.cost.transfer or 0.0
        yield ""
        yield (
            f"partition {k} on {p.delegate}: {len(p.nodes)} nodes, {p.bytes_in:,} bytes in, "
            f"{p.bytes_out:,} out; estimated µs: {p.cost.host * 1e6:.0f} on numpy, "
            f"{device * 1e6:.0f} on the device, {transfer * 1e6:.0f} to move data"
        )
        for kernel, count in Counter(p.kernels).items():
            yield f"    {count} × {kernel}"
    yield ""
    for key, nodes in groupby(report.nodes, _placement):
        held = list(nodes)
        last = f" to {held[-1].index}" if len(held) > 1 else ""
        yield f"{held[0].subgraph}:{held[0].index}{last} {key}"
    yield ""


def _placement(node: CoveredNode) -> str:
    part = "" if node.partition is None else f", partition {node.partition}"
    reasons = "".join(f"; {r.delegate}: {r.code}: {r.text}" for r in node.refusals)
    op = f"{node.op} " if node.refusals else ""
    return f"{op}on {node.placed_on}{part}{reasons}"


def path(name: str, device: str) -> Path:
    return FOLDER / f"{name}-{device}.txt"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args(argv).write
    changed = 0
    for name, folder in MODELS.items():
        if not (folder / f"{name}.tflite").exists():
            print(f"{name} is not here")
            continue
        for device in DEVICES:
            file, now = path(name, device), text(name, device)
            old = file.read_text("utf-8") if file.exists() else ""
            if old == now:
                continue
            changed += 1
            lines = difflib.unified_diff(
                old.splitlines(), now.splitlines(), file.name, "now", lineterm=""
            )
            print("\n".join(lines))
            if write:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(now, "utf-8")
    print(f"{changed} reports {'written' if write else 'have changed'}")
    return int(changed > 0 and not write)


if __name__ == "__main__":
    sys.exit(main())
