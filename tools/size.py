"""Prints the package's size: lines of code without blank lines, comments and docstrings.

    python tools/size.py [--files] [--over N]

`--files` lists each file, `--over N` the files of more than N lines, docstrings and all.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from pathlib import Path

FOLDERS = ("runtime", "kernels", "delegates", "customops", "cli", "src/litedelegate")
DEVICE_TEXT = (".c", ".h", ".cl", ".cu")
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_WITH_DOC = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def python_lines(text: str) -> int:
    """Lines that hold code."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _WITH_DOC) and ast.get_docstring(node, clean=False) is not None:
            doc = node.body[0]
            code.difference_update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return len(code)


def device_lines(text: str) -> int:
    """Lines of C that are neither blank nor a whole-line comment."""
    lines = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith(("//", "/*", "*")) for line in lines)


def sizes(root: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """folder -> file -> (lines of code, lines of the file), without "@generated" files."""
    out: dict[str, dict[str, tuple[int, int]]] = {}
    for folder in FOLDERS:
        files = out.setdefault(folder, {})
        found = (root / folder).glob("*.py") if "/" in folder else (root / folder).rglob("*")
        for path in sorted(found):
            if path.suffix != ".py" and path.suffix not in DEVICE_TEXT:
                continue
            text = path.read_text(encoding="utf-8")
            if "@generated" in text[:400]:
                continue
            count = python_lines(text) if path.suffix == ".py" else device_lines(text)
            files[str(path.relative_to(root))] = count, text.count("\n")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", action="store_true", help="list each file")
    parser.add_argument("--over", type=int, default=400, metavar="N", help="default: 400")
    args = parser.parse_args()
    found = sizes(Path(__file__).resolve().parent.parent)
    print(f"{'lines of code':<32}{'files':>7}{'code':>8}")
    for folder, files in found.items():
        print(f"{folder + '/':<32}{len(files):>7}{sum(c for c, _ in files.values()):>8,}")
        if args.files:
            for name, (code, _) in files.items():
                print(f"  {name:<37}{code:>8,}")
    every = [pair for files in found.values() for pair in files.items()]
    print(f"{'total':<32}{len(every):>7}{sum(code for _, (code, _) in every):>8,}")
    for name, (_, whole) in every:
        if whole > args.over:
            print(f"over {args.over} lines: {name} ({whole})")


if __name__ == "__main__":
    main()
