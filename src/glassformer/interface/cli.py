"""Command line: the library's functions, one subcommand each.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once. Exit codes: 0 when everything
converged, 3 when something did not (it is printed with its status), 2 for bad usage (one line on standard error).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from glassformer.models import MatrixModel, Model

BAD_USAGE, NOT_CONVERGED = 2, 3

_EPILOG = """\
SPEC is a number (0.3), a comma list (0.1,0.2,0.5) or start:stop:count with both ends included (0:1:101).
Limits of parameters are values: --rho 0, --rho inf, --beta inf.
Exit codes: 0 all converged, 3 something did not (printed with its status), 2 bad usage.
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_USAGE, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Example:
        >>> main(["limits", "bsr", "--alpha", "0.3", "--rho", "inf"])
        bsr: alpha = n/(dL), beta = 1, channel = gaussian, noise = 0, rho = inf
        alpha  error  overlap  status     error_estimate
          0.3    0.7      0.3  converged         ...
        0
    """
    words = _attached(sys.argv[1:] if arguments is None else arguments)
    # The options of learners come from their classes, which take a while to import: others need not wait for them.
    parser = _parser(learners="simulate" in words)
    options = parser.parse_args(words)
    if not hasattr(options, "run"):
        parser.print_help()
        return BAD_USAGE
    from glassformer.core.errors import GlassformerError

    try:
        return int(options.run(options))
    except (GlassformerError, OSError) as error:
        print(f"glassformer: error: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        print("glassformer: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def _attached(arguments: Sequence[str]) -> list[str]:
    """Each ``--alpha`` with its value as one word: a list that begins with a minus is a value, not an option."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] == "--alpha":
            joined[-1] = f"--alpha={word}"
        else:
            joined.append(word)
    return joined


def _parser(learners: bool = True) -> argparse.ArgumentParser:
    from glassformer import __version__

    parser = _Parser(
        prog="glassformer",
        description="Exact limits of learning from sequences of tokens, and the algorithms that reach them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"glassformer {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    _add_model_command(commands, "limits", "Bayes-optimal error and overlap against the sample ratio", _limits)
    _add_model_command(commands, "thresholds", "weak and perfect recovery, and the hard phase", _thresholds)
    _add_model_command(commands, "landscape", "free entropy against the overlap", _landscape, _landscape_options)
    _add_model_command(commands, "hysteresis", "fixed points followed up and down in the sample ratio", _hysteresis)
    text = "an algorithm on simulated data, next to theory"
    _add_model_command(commands, "simulate", text, _simulate, _simulate_options if learners else _no_options)
    _add_phase_diagram(commands)
    figure = commands.add_parser("figure", help="compute and draw a figure of the papers")
    figure.add_argument("name", nargs="?", help="see --list")
    figure.add_argument("--list", action="store_true", help="list the figures, with their numbers in the papers")
    figure.add_argument("--all", action="store_true", help="draw every figure")
    figure.add_argument("--quick", action="store_true", help="fewer points, instances and smaller sizes")
    figure.add_argument("--out", type=Path, default=Path("out"), help="folder for PNG, CSV and summary (default out)")
    figure.add_argument("--reference", type=Path, help="folder of published data to compare with")
    figure.add_argument("--data", type=Path, metavar="DIR", help="folder of the data set, for smi-3-right")
    figure.set_defaults(run=_figure)
    _add_sweep_commands(commands)
    cite = commands.add_parser("cite", help="BibTeX of the papers behind what was used")
    cite.add_argument("used", nargs="*", help="bsr, aim, attention, smi, nuclear-norm, text (default all)")
    cite.set_defaults(run=_cite)
    return parser


def _add_sweep_commands(commands: Any) -> None:
    text = "one computation on a grid of parameters, kept point by point"
    sweep = commands.add_parser("sweep", help=text, description=text)
    actions = sweep.add_subparsers(
        title="actions", metavar="ACTION", dest="action", required=True, parser_class=_Parser
    )
    run = actions.add_parser("run", help="compute the points that a store has no record of")
    run.add_argument("file", type=Path, metavar="FILE", help="the sweep, in TOML")
    run.add_argument("--store", type=Path, required=True, metavar="DIR", help="folder of the records, made if needed")
    run.add_argument("--workers", type=int, default=1, help="local processes (default 1)")
    run.add_argument("--scheduler", metavar="ADDRESS", help="dask scheduler whose workers compute")
    run.add_argument("--retry", action="store_true", help="also points that failed or did not converge")
    run.set_defaults(run=_sweep_run)
    status = actions.add_parser("status", help="how many points have which status")
    status.set_defaults(run=_sweep_status)
    collect = actions.add_parser("collect", help="all records as one labelled data set")
    collect.add_argument("--netcdf", type=Path, metavar="FILE", help="write it as netCDF (version 3)")
    collect.add_argument("--csv", type=Path, metavar="FILE", help="write it as a table, one line per point")
    collect.set_defaults(run=_sweep_collect)
    plot = actions.add_parser("plot", help="draw one quantity")
    plot.add_argument("--out", type=Path, metavar="FILE", help="the picture (default DIR/sweep.png)")
    plot.add_argument("--quantity", help="what to draw (default error)")
    plot.set_defaults(run=_sweep_plot)
    for parser in (status, collect, plot):
        parser.add_argument("store", type=Path, metavar="DIR", help="folder of the records")
    for parser in (run, status):
        parser.add_argument("--json", action="store_true", help="print JSON")


def _no_options(parser: argparse.ArgumentParser) -> None:
    del parser


def _landscape_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--points", type=int, default=400, help="overlaps on the curve (default 400)")
    parser.add_argument("--row", type=int, help="row whose overlap varies, counted from 1 (default the last)")


def _simulate_options(parser: argparse.ArgumentParser) -> None:
    from glassformer.learners.registry import learner_type, names, options

    text = ", ".join(f"{name} ({learner_type(name).title})" for name in names())
    parser.add_argument("--algorithm", default=names()[0], help=f"{text}; default {names()[0]}")
    parser.add_argument("--d", type=int, default=100, help="token dimension (default 100)")
    parser.add_argument("--instances", type=int, default=4, help="independent runs per point (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="first instance's seed (default 0)")
    parser.add_argument("--storage", default="float64", help="float64 (default), float32, sharded, generated")
    text = "folder that keeps finished runs and the state of unfinished ones; the same command continues from it"
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help=text)
    groups: dict[str, Any] = {}
    for option in options():
        title = ", ".join(option.texts)
        group = groups.setdefault(title, parser.add_argument_group(title))
        # Learners that share an option may mean something of their own by it.
        text = "; ".join(dict.fromkeys(option.texts.values()))
        group.add_argument(f"--{option.name.replace('_', '-')}", type=option.kind, help=text)


def _bsr_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--beta", type=float, default=1.0, help="L/d (default 1); inf allowed")
    parser.add_argument("--rho", type=float, help="width ratio r/d; 0 and inf allowed")
    parser.add_argument("--width", type=int, help="fixed width r, instead of --rho")
    parser.add_argument("--noise", type=float, default=0.0, help="label noise variance Delta (default 0)")
    parser.add_argument("--channel", default="gaussian", help="gaussian (default), sign or absolute")


def _aim_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rho", type=float, required=True, help="width ratio r/d; 0 and inf allowed")
    parser.add_argument("--tokens", type=int, default=2, help="tokens T per sample (default 2)")
    parser.add_argument("--noise", type=float, default=0.0, help="label noise variance Delta (default 0)")
    parser.add_argument("--channel", default="softmax", help="linear, softmax (default) or hardmax")
    parser.add_argument("--temperature", type=float, default=1.0, help="inverse temperature of softmax (default 1)")
    parser.add_argument("--layers", type=int, default=1, help="attention layers L (default 1)")
    parser.add_argument("--skip", help="skip strength c >= 0 (default 1), or a comma list of L - 1 of them")


def _attention_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--depth", type=int, default=2, help="attention layers P (default 2)")
    parser.add_argument("--tokens", type=int, default=2, help="tokens L per sequence (default 2)")
    parser.add_argument("--skip", default="1", help="skip strength c (default 1), or a comma list, one per layer")
    parser.add_argument("--activation", default="softmax", help="softmax (default) or linear")
    parser.add_argument("--untied", action="store_true", help="keys and queries have weights of their own")
    parser.add_argument("--heads", type=int, default=1, help="heads H on disjoint coordinates (default 1)")
    parser.add_argument("--output", default="attention", help="attention (default) or sequence")
    parser.add_argument("--limit", help="large-skip, or large-depth at the ratio depth/skip")
    _add_rows_options(parser)


def _smi_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--link", required=True, metavar="FILE.py:FUNCTION", help="function of Z, shape (P, L), in JAX")
    parser.add_argument("--indices", type=int, required=True, help="directions P of the weights")
    parser.add_argument("--tokens", type=int, default=1, help="tokens L per sequence (default 1)")
    parser.add_argument("--label-type", default="auto", help="auto (default), discrete or continuous")
    _add_rows_options(parser)


def _add_rows_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--noise", type=float, default=0.0, help="label noise variance Delta (default 0)")
    parser.add_argument("--side-information", type=float, default=0.0, help="strength lambda in [0, 1) (default 0)")
    text = "sampled data points per replica, a power of two (default 2048); errors fall about as their inverse"
    parser.add_argument("--data-points", type=int, default=2048, help=text)


# Model by name: what it is, its sample ratio, and its options.
_MODELS: dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]] = {
    "bsr": ("bilinear sequence regression", "n/(dL), or n/(r(L+d)) at rho 0", _bsr_options),
    "aim": ("attention-indexed model", "n/d^2, or n/(rd) at rho 0", _aim_options),
    "attention": ("deep attention network", "n/d", _attention_options),
    "smi": ("sequence multi-index model", "n/d", _smi_options),
}


def _add_model_command(
    commands: Any,
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int],
    own_options: Callable[[argparse.ArgumentParser], None] = _no_options,
) -> None:
    """A subcommand with one further level, the model, which has options of its own."""
    shared: dict[str, Any] = {"epilog": _EPILOG, "formatter_class": argparse.RawDescriptionHelpFormatter}
    command = commands.add_parser(name, help=text, description=text, **shared)
    models = command.add_subparsers(title="models", metavar="MODEL", dest="model", required=True, parser_class=_Parser)
    for model, (title, ratio, model_options) in _MODELS.items():
        parser = models.add_parser(model, help=title, description=f"{title}: {text}", **shared)
        if run is not _thresholds:
            parser.add_argument("--alpha", required=True, metavar="SPEC", help=f"sample ratio {ratio}")
        model_options(parser)
        own_options(parser)
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument("--csv", type=Path, metavar="FILE", help="write the result as CSV")
        parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the result (format by the file's ending)")
        parser.set_defaults(run=run)


def _add_phase_diagram(commands: Any) -> None:
    text = "thresholds against the skip strength"
    shared: dict[str, Any] = {"epilog": _EPILOG, "formatter_class": argparse.RawDescriptionHelpFormatter}
    command = commands.add_parser("phase-diagram", help=text, description=text, **shared)
    models = command.add_subparsers(title="models", metavar="MODEL", dest="model", required=True, parser_class=_Parser)
    parser = models.add_parser("attention", help="deep attention network", **shared)
    _attention_options(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the result as CSV")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the result (format by the file's ending)")
    parser.set_defaults(run=_phase_diagram)


def parse_alpha(text: str) -> list[float]:
    """Sample ratios from a number, a comma list or ``start:stop:count``.

    Raises:
        ParameterError: the text is none of these.

    Example:
        >>> parse_alpha("0:1:3")
        [0.0, 0.5, 1.0]
    """
    from glassformer.core.errors import ParameterError

    allowed = "a number, a comma list or start:stop:count with count >= 1"
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        first, last, count = text.split(":")
        start, stop, number = float(first), float(last), int(count)
    except ValueError:
        raise ParameterError("alpha", text, allowed) from None
    if number < 1 or not (math.isfinite(start) and math.isfinite(stop)):
        raise ParameterError("alpha", text, allowed)
    import numpy as np

    return [float(value) for value in np.linspace(start, stop, number)]


# Parameters of each model, as the options of the command line are called.
_PARAMETERS = {
    "bsr": ("beta", "rho", "noise", "channel", "width"),
    "aim": ("rho", "tokens", "channel", "noise", "temperature", "layers", "skip"),
    "attention": ("depth", "tokens", "skip", "activation", "heads", "output", "limit", "noise", "side_information"),
    "smi": ("link", "indices", "tokens", "noise", "label_type", "side_information"),
}


def _model(options: argparse.Namespace) -> Model | MatrixModel:
    from glassformer.models.registry import build

    given = {name: getattr(options, name) for name in _PARAMETERS[options.model]}
    if given.get("skip") is not None:
        given["skip"] = parse_numbers("skip", given["skip"])
    if options.model == "attention":
        given["tied"] = not options.untied
    if options.model in ("attention", "smi"):
        given["points"] = options.data_points
    return build(options.model, given)


def parse_numbers(name: str, text: str) -> list[float]:
    """The numbers of a comma list.

    Raises:
        ParameterError: one of them is no number.

    Example:
        >>> parse_numbers("skip", "1,0.5")
        [1.0, 0.5]
    """
    from glassformer.core.errors import ParameterError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(name, text, "a number or a comma list of numbers") from None


def _limits(options: argparse.Namespace) -> int:
    from glassformer.theory.limits import limits

    table = limits(_model(options), parse_alpha(options.alpha), throw=False)
    _write(options, table, lambda path: _plots().plot_limits(table, path))
    bistable = any(str(status) == "bistable" for status in table.status)
    algorithmic = ["algorithmic_error"] if bistable else []
    overlaps = ["row_error", "prediction_error"] if "row_error" in table.columns else ["overlap"]
    return _report(options, table, ["alpha", "error", *algorithmic, *overlaps, "status", "error_estimate"])


def _hysteresis(options: argparse.Namespace) -> int:
    from glassformer.theory.hysteresis import follow_branches

    table = follow_branches(_model(options), parse_alpha(options.alpha))
    _write(options, table, lambda path: _plots().plot_branches(table, path))
    return _report(options, table, ["alpha", "error_up", "error_down", "two_branches", "status", "error_estimate"])


def _thresholds(options: argparse.Namespace) -> int:
    from glassformer.theory.thresholds import thresholds

    found = thresholds(_model(options))
    _write(options, found, lambda path: _plots().plot_thresholds(found, path))
    if options.json:
        print(json.dumps(found.to_dict(), indent=2))
        return 0
    print(_heading(found.model, found.parameters))
    rows = [
        {"threshold": e.name, "alpha": "-" if math.isnan(e.alpha) else f"{e.alpha:.8g}", "note": e.note}
        for e in found.entries
    ]
    _print_rows(rows, ["threshold", "alpha", "note"])
    if found.hard_phase is not None:
        print(f"hard phase: {'yes' if found.hard_phase else 'no'}")
    return 0


def _phase_diagram(options: argparse.Namespace) -> int:
    from glassformer.theory.phase_diagram import phase_diagram

    values = parse_alpha(options.skip)
    options.skip = str(values[0])
    found = phase_diagram(_model(options), "skip", values)
    _write(options, found, lambda path: _plots().plot_phase_diagram(found, path))
    if options.json:
        print(json.dumps(found.to_dict(), indent=2))
        return 0
    document = found.to_dict()
    print(_heading(found.model, document["parameters"]))
    _print_rows(document["points"], ["skip", "threshold", "alpha", "error_estimate", "note"])
    return 0


def _landscape(options: argparse.Namespace) -> int:
    import pandas

    from glassformer.theory.free_entropy import landscape

    model = _model(options)
    row = None if options.row is None else options.row - 1
    curves = [landscape(model, alpha, options.points, row) for alpha in parse_alpha(options.alpha)]
    if options.csv:
        pandas.concat([curve.to_pandas() for curve in curves]).to_csv(options.csv, index=False)
    if options.plot:
        _plots().plot_landscapes(curves, options.plot)
    if options.json:
        print(json.dumps({"model": model.name, "landscapes": [curve.to_dict() for curve in curves]}, indent=2))
        return _exit_code([status for curve in curves for status in curve.status])
    print(_heading(model.name, model.parameters))
    for curve in curves:
        phase = "hard phase" if curve.hard_phase else "no hard phase"
        print(f"alpha = {curve.alpha:g}: free entropy is largest, or locally so, at overlap {curve.peaks}; {phase}")
    return _exit_code([status for curve in curves for status in curve.status])


def _learner(options: argparse.Namespace) -> Any:
    """The learner with the settings that its options give; options of others are refused."""
    from glassformer.core.errors import IncompatibleError
    from glassformer.learners.registry import learner, settings_of
    from glassformer.learners.registry import options as every

    own = settings_of(options.algorithm)
    given = {one.name: getattr(options, one.name) for one in every() if getattr(options, one.name) is not None}
    for name in given:
        if name not in own:
            raise IncompatibleError(f"--{name.replace('_', '-')} is no option of algorithm {options.algorithm}")
    return learner(options.algorithm, **{own[name]: value for name, value in given.items()})


def _simulate(options: argparse.Namespace) -> int:
    from glassformer.experiments.simulation import simulate

    result = simulate(
        _model(options),
        parse_alpha(options.alpha),
        d=options.d,
        instances=options.instances,
        seed=options.seed,
        algorithm=_learner(options),
        storage=options.storage,
        checkpoint=options.checkpoint,
    )
    _write(options, result, lambda path: _plots().plot_simulation(result, path))
    rows = ["row_error", "row_theory"] if "row_error" in result.columns else []
    theories = result.columns["theory"], result.columns["theory_bayes_optimal"]
    bayes = [] if (theories[0] == theories[1]).all() else ["theory_bayes_optimal"]
    return _report(options, result, ["alpha", "error", "standard_error", "theory", *bayes, *rows, "status"])


def _figure(options: argparse.Namespace) -> int:
    from glassformer.interface.figures.catalogue import FIGURES, draw, draw_all, source

    if options.list:
        for name, figure in FIGURES.items():
            print(f"{name:12s} {figure.title} [{source(name)}]")
        return 0
    if options.all:
        return 0 if draw_all(options.out, options.quick, options.reference, options.data) else NOT_CONVERGED
    if options.name is None:
        print("glassformer figure: error: give a NAME, --all, or --list to see them", file=sys.stderr)
        return BAD_USAGE
    return 0 if draw(options.name, options.out, options.quick, options.reference, options.data) else NOT_CONVERGED


def _sweep_run(options: argparse.Namespace) -> int:
    from glassformer.experiments.sweeps.plan import Sweep
    from glassformer.experiments.sweeps.run import run_sweep

    sweep = Sweep.from_toml(options.file)
    return _print_progress(options, run_sweep(sweep, options.store, options.workers, options.scheduler, options.retry))


def _sweep_status(options: argparse.Namespace) -> int:
    from glassformer.experiments.sweeps.run import progress
    from glassformer.experiments.sweeps.store import Store

    return _print_progress(options, progress(Store.existing(options.store)))


def _print_progress(options: argparse.Namespace, found: Any) -> int:
    if options.json:
        print(json.dumps({**vars(found), "complete": found.complete}, indent=2))
    else:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(found.counts.items()))
        print(f"{found.total} points: {counts}; {found.computed} computed now")
    return 0 if found.good else NOT_CONVERGED


def _sweep_collect(options: argparse.Namespace) -> int:
    from glassformer.core.errors import DataError
    from glassformer.experiments.sweeps.collect import collect, to_frame

    found = collect(options.store)
    try:
        if options.netcdf:
            found.to_netcdf(options.netcdf, engine="scipy")
        if options.csv:
            to_frame(found).to_csv(options.csv, index=False)
    except OSError as error:
        raise DataError("file", str(options.netcdf or options.csv), "a file that can be written", str(error)) from None
    print(found)
    return 0


def _sweep_plot(options: argparse.Namespace) -> int:
    from glassformer.experiments.sweeps.collect import collect, plot

    path = options.out or options.store / "sweep.png"
    plot(collect(options.store), path, options.quantity)
    print(f"written to {path}")
    return 0


def _cite(options: argparse.Namespace) -> int:
    from glassformer.core.citations import bibtex

    print(bibtex(options.used))
    return 0


def _plots() -> Any:
    from glassformer.interface.figures import plots

    return plots


def _write(options: argparse.Namespace, result: Any, plot: Callable[[Path], None]) -> None:
    if options.csv:
        result.to_pandas().to_csv(options.csv, index=False)
    if options.plot:
        plot(options.plot)


def _report(options: argparse.Namespace, table: Any, columns: list[str]) -> int:
    """Print a table and return the exit code its statuses call for."""
    if options.json:
        print(json.dumps(table.to_dict(), indent=2))
    else:
        print(_heading(table.model, table.parameters))
        _print_rows(table.rows(), columns)
        for note in table.notes:
            print(f"note: {note}")
    return _exit_code(table.status)


def _exit_code(statuses: Sequence[Any]) -> int:
    """What statuses call for; those that are not good are named with their remedies."""
    failed = {str(status): status.remedy for status in statuses if not status.ok}
    for name, remedy in failed.items():
        print(f"glassformer: {name}: {remedy}", file=sys.stderr)
    return NOT_CONVERGED if failed else 0


def _heading(model: str, parameters: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    return f"{model}: " + ", ".join(f"{name} = {text(parameters[name])}" for name in sorted(parameters))


def _print_rows(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """A plain table: numbers to the right, words to the left."""

    def text(value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, list):
            return " ".join(text(part) for part in value)
        if isinstance(value, float):
            return f"{value:.2g}" if 0 < abs(value) < 1e-4 else f"{value:.7g}"
        return str(value)

    cells = [[text(row[name]) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(columns)]
    words = [any(isinstance(row[name], str) for row in rows) for name in columns]
    for line in [columns, *cells]:
        padded = (
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words, strict=True)
        )
        print("  ".join(padded).rstrip())


if __name__ == "__main__":
    raise SystemExit(main())
