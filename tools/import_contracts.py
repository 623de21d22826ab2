"""Two kinds of import-linter contract: a list of allowed libraries, and independent families."""

from __future__ import annotations

import sys

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class _Listing(Contract):
    """A contract whose breaches are lines of text."""

    def breaches(self, graph: ImportGraph) -> list[str]:
        raise NotImplementedError

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = self.breaches(graph)
        return ContractCheck(kept=not found, metadata={"breaches": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["breaches"]:
            output.print_error(line)


class OnlyContract(_Listing):
    """Which libraries a package may import beside the standard library.

    `allowed`: lines "package: library library …". The longest package that holds a module counts.
    """

    type_name = "only"
    allowed = fields.ListField(subfield=fields.StringField())

    def breaches(self, graph: ImportGraph) -> list[str]:
        rules = {}
        for line in self.allowed:  # type: ignore[attr-defined]
            package, _, libraries = line.partition(":")
            rules[package.strip()] = set(libraries.split())
        root = next(iter(rules)).partition(".")[0]
        found = []
        for module in sorted(graph.modules):
            holders = [p for p in rules if module == p or module.startswith(p + ".")]
            if not holders:
                continue
            libraries = rules[max(holders, key=len)]
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                top = imported.partition(".")[0]
                if top != root and top not in libraries and top not in sys.stdlib_module_names:
                    found.append(f"{module} imports {top}")
        return found


class FamiliesContract(_Listing):
    """Modules of `package` import of one another only `shared` and private (`_name`) ones."""

    type_name = "families"
    package = fields.StringField()
    shared = fields.ListField(subfield=fields.StringField())

    def breaches(self, graph: ImportGraph) -> list[str]:
        prefix = f"{self.package}."
        found = []
        for module in sorted(m for m in graph.modules if m.startswith(prefix)):
            family = module.removeprefix(prefix).partition(".")[0]
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                if not imported.startswith(prefix):
                    continue
                other = imported.removeprefix(prefix).partition(".")[0]
                common = other.startswith("_") or other in self.shared  # type: ignore[operator]
                if other != family and not common:
                    found.append(f"{module} imports {imported}")
        return found
