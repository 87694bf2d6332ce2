"""Sweeps: run, print the status, collect and plot."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from glassformer import __version__
from glassformer.cli.argument_parser import Parser
from glassformer.cli.output import NOT_CONVERGED, add_look, add_progress, picture, print_json, write_csv
from glassformer.core.files import replace_file, user_path

if TYPE_CHECKING:
    from glassformer.sweeps.run import Progress


def add(parser: Parser) -> None:
    """The action and its options."""
    parser.add_choice("ACTION", "action")
    run = parser.add_subcommand("run", help="compute the points that have no record in the store")
    run.add_argument("file", type=user_path, metavar="FILE", help="the sweep, in TOML: a verb on a grid of parameters")
    run.add_argument("--store", type=user_path, required=True, metavar="DIR", help="folder of the records")
    run.add_argument("--workers", type=int, default=1, help="number of local processes (default 1)")
    run.add_argument("--scheduler", metavar="ADDRESS", help="dask scheduler whose workers compute the points")
    text = "Python file of a link, loss or learner of the sweep that may be run; repeat the option for several files"
    run.add_argument("--link", type=user_path, action="append", default=[], metavar="FILE.py", help=text)
    run.add_argument("--retry", action="store_true", help="also compute points again that failed or did not converge")
    add_progress(run)
    run.set_defaults(act=_run)
    status = parser.add_subcommand("status", help="print the number of points with each status")
    status.set_defaults(act=_status)
    collect = parser.add_subcommand("collect", help="print all records as one labelled data set")
    collect.add_argument("--netcdf", type=user_path, metavar="FILE", help="write it as netCDF (version 3)")
    collect.add_argument("--csv", type=user_path, metavar="FILE", help="write it as a table, one line per point")
    collect.set_defaults(act=_collect)
    plot = parser.add_subcommand("plot", help="plot one quantity")
    text = "file of the plot; its ending gives the format (default DIR/sweep.png)"
    plot.add_argument("--plot", "--out", type=user_path, metavar="FILE", help=text)
    add_look(plot)
    plot.add_argument("--quantity", help="quantity to plot (default error)")
    plot.set_defaults(act=_plot)
    for one in (status, collect, plot):
        one.add_argument("store", type=user_path, metavar="DIR", help="folder of the records")
    for one in (run, status):
        one.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    return int(options.act(options))


def _run(options: argparse.Namespace) -> int:
    from glassformer.sweeps.sweep import Sweep

    sweep = Sweep.from_toml(options.file, options.link)
    found = sweep.run(options.store, options.workers, options.scheduler, options.retry)
    if found.hidden:
        _note(f"the store had another sweep ({found.hidden}): its results are kept, run it again to show them")
    return _print_progress(options, found)


def _status(options: argparse.Namespace) -> int:
    from glassformer.sweeps.run import progress
    from glassformer.sweeps.store import Store

    found = progress(Store.existing(options.store))
    if set(found.versions) - {__version__}:
        text = f"{__version__} is installed and computes them again when the sweep is run"
        _note(f"records are of glassformer {', '.join(found.versions)}: {text}")
    return _print_progress(options, found)


def _print_progress(options: argparse.Namespace, found: Progress) -> int:
    if options.json:
        print_json("sweep", {name: getattr(found, name) for name in ("total", "computed", "counts", "complete")})
    else:
        print(f"{found.total} points: {found}; {found.computed} computed now")
    return 0 if found.good else NOT_CONVERGED


def _note(text: str) -> None:
    print(f"glassformer: {text}", file=sys.stderr)


def _collect(options: argparse.Namespace) -> int:
    from glassformer.sweeps.collect import collect, to_frame
    from glassformer.sweeps.run import progress
    from glassformer.sweeps.store import Store

    found = collect(options.store)
    if options.netcdf:
        # Version 3 has no integers of 64 bits: large seeds are written as numbers of double precision.
        large = {name: axis for name, axis in found.coords.items() if axis.dtype.kind == "i" and axis.max() >= 2**31}
        written = found.assign_coords({name: axis.astype(float) for name, axis in large.items()})
        with replace_file(options.netcdf, "netcdf") as part:
            written.to_netcdf(part, engine="scipy")
    if options.csv:
        write_csv(options.csv, to_frame(found))
    print(found)
    state = progress(Store.existing(options.store))
    if state.good:
        return 0
    _note(f"not all of {state.total} points have a result that converged: {state}")
    return NOT_CONVERGED


def _plot(options: argparse.Namespace) -> int:
    from glassformer.plotting.sweep import plot
    from glassformer.sweeps.collect import collect

    found, options.plot = collect(options.store), options.plot or options.store / "sweep.png"
    plot(found, picture(options), options.quantity)
    print(f"written to {options.plot}")
    return 0
