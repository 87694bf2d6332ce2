"""Free entropy against the overlap."""

from __future__ import annotations

import argparse

from glassformer.cli.commands import ModelOf
from glassformer.cli.expected_time import require_short_time
from glassformer.cli.output import exit_code, picture, print_json, write_csv
from glassformer.core.display import heading
from glassformer.core.errors import ParameterError
from glassformer.core.progress import track
from glassformer.core.resources import require_resources

# Memory in bytes and work in operations of one overlap of a landscape (measured: half a millisecond).
_BYTES, _WORK = 100, 5e5


def add(parser: argparse.ArgumentParser) -> None:
    """Number of overlaps, and the row that varies."""
    parser.add_argument("--overlaps", type=int, default=400, help="number of overlaps on the curve (default 400)")
    parser.add_argument("--row", type=int, help="row whose overlap varies, counted from 1 (default: the last)")


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print the maxima of the free entropy."""
    import pandas

    from glassformer.bayes_optimal.expected_time import expected_seconds
    from glassformer.bayes_optimal.free_entropy import MOST_PROFILE_POINTS
    from glassformer.verbs.landscape import landscape

    found = model()
    rows = found.prior.rows
    if options.row is not None and not 1 <= options.row <= rows:
        raise ParameterError("row", options.row, f"an integer from 1 to {rows}")
    row = None if options.row is None else options.row - 1
    alphas = options.alpha
    size = float(options.overlaps) * len(alphas)
    memory, work = _BYTES * size, _WORK * size
    if options.overlaps > len(alphas):
        require_resources("overlaps", options.overlaps, memory, "give fewer overlaps", work, "landscapes")
    else:
        require_resources("alpha", f"<{len(alphas)} values>", memory, "give fewer sample ratios", work, "landscapes")
    overlaps = min(options.overlaps, MOST_PROFILE_POINTS) * len(alphas)
    require_short_time(options, found, expected_seconds(found, "landscape", overlaps), values=len(alphas))
    # Landscapes with sampled averages show their own progress.
    ratios = alphas if found.channel.inference.sampled else track(alphas, f"{len(alphas)} landscapes")
    curves = [landscape(found, one, overlaps=options.overlaps, row=row) for one in ratios]
    if options.csv:
        write_csv(options.csv, pandas.concat([curve.to_pandas() for curve in curves]))
    if options.plot:
        from glassformer.plotting.plots import plot_landscapes

        plot_landscapes(curves, picture(options))
    statuses = [status for curve in curves for status in curve.status]
    if options.json:
        print_json("landscapes", {"model": found.name, "landscapes": [curve.to_dict() for curve in curves]})
        return exit_code(statuses, found.parameters)
    print(heading(found.name, found.parameters))
    for curve in curves:
        phase = "hard phase" if curve.hard_phase else "no hard phase"
        print(f"alpha = {curve.alpha:g}: free entropy has maxima at overlap {curve.peaks}; {phase}")
    return exit_code(statuses, found.parameters)
