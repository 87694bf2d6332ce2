"""Whether the installation is sound."""

from __future__ import annotations

import argparse

from glassformer.cli.output import FAILED, print_json


def add(parser: argparse.ArgumentParser) -> None:
    """As JSON or as text."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print what there is and how the checks went."""
    from glassformer.cli.self_test import check_all, machine, versions

    checks = check_all()
    good = all(check.ok for check in checks)
    document = {"versions": versions(), "machine": machine()}
    if options.json:
        print_json("doctor", {**document, "checks": [check._asdict() for check in checks], "ok": good})
    else:
        for entries in document.values():
            print("\n".join(f"{name:24s}{_text(value)}" for name, value in entries.items()), end="\n\n")
        for check in checks:
            print(f"{check.name:24s}{'good' if check.ok else 'FAILED'}  {check.seconds:5.1f} s  {check.found}")
    return 0 if good else FAILED


def _text(value: object) -> str:
    if value is None:
        return "not installed"
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
