"""JSON Schema of what ``--json`` prints."""

from __future__ import annotations

import argparse

from glassformer.cli.output import KINDS, schema_name


def add(parser: argparse.ArgumentParser) -> None:
    """Of which kind."""
    parser.add_argument("kind", nargs="?", help=f"{', '.join(KINDS)}; without one the names of all are listed")


def run(options: argparse.Namespace) -> int:
    """Print the schema, or the names of all."""
    import json

    if options.kind is None:
        print("\n".join(schema_name(kind) for kind in KINDS))
        return 0
    from glassformer.cli.documents import json_schema

    print(json.dumps(json_schema(options.kind), indent=2))
    return 0
