"""The law of the singular values of an estimate."""

from __future__ import annotations

import argparse

from glassformer.cli.commands import ModelOf
from glassformer.cli.learners import learner_of
from glassformer.cli.output import exit_code, picture, print_json, write_csv
from glassformer.core.display import heading
from glassformer.core.progress import track


def add(parser: argparse.ArgumentParser) -> None:
    """The step; ``--spectrum`` is the law of the teacher."""
    parser.add_argument("--step", type=int, help="number of steps of gd, whose law changes in time")


def run(options: argparse.Namespace, model: ModelOf) -> int:
    """Print atom and bulks of the law at each sample ratio."""
    import pandas

    from glassformer.verbs.spectrum import spectrum

    found, learner = model(), learner_of(options.learner, options)
    ratios = track(options.alpha, f"{len(options.alpha)} spectra")
    laws = [spectrum(found, one, learner, step=options.step, throw=False) for one in ratios]
    if options.csv:
        write_csv(options.csv, pandas.concat([law.to_pandas() for law in laws]))
    if options.plot:
        from glassformer.plotting.plots import plot_spectra

        plot_spectra(laws, picture(options))
    statuses = [law.status[0] for law in laws]
    if options.json:
        print_json("spectra", {"model": found.name, "spectra": [law.to_dict() for law in laws]})
        return exit_code(statuses, laws[0].parameters)
    print(heading(found.name, laws[0].parameters))
    for law in laws:
        bulks = ", ".join(f"{low:.4g} to {high:.4g}" for low, high in law.edges) or "none"
        print(f"alpha = {law.alpha:g}: {100 * law.atom:.3g} % of the values are zero; the others lie in {bulks}")
        for outlier in law.outliers:
            print(
                f"  outliers at {outlier.value:.4g}, {100 * outlier.share:.3g} % of the values: directions of the "
                f"teacher's {outlier.teacher:.4g} with overlap {outlier.overlap:.3g}"
            )
    for note in dict.fromkeys(note for law in laws for note in law.notes):
        print(note)
    return exit_code(statuses, laws[0].parameters)
