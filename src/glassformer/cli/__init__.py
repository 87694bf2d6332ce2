"""The command line: one subcommand for each function, derived from the tables of commands, models and learners.

No slow import happens before a command runs, and of the tables only what the command names is imported, so that
``--help`` answers at once. Exit codes: 0 when everything converged, 3 when something did not (it is printed with its
status), 2 for bad usage (one line on standard error), 1 when a check of ``doctor`` failed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Sequence

__all__ = ["main", "parse_alpha"]

INTERRUPTED = 130
_NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Example:
        >>> main(["limits", "bsr", "--alpha", "0.3", "--rho", "inf"])
        bsr: alpha = n/(dL), beta = 1, channel = gaussian, noise = 0, rho = inf
        alpha  error  overlap  status     error_estimate
          0.3    0.7      0.3  converged         ...
        0
    """
    try:
        # Imported here and below, so that an interrupt during the imports ends the command like any other.
        from glassformer.core.interrupts import lasting_interrupts

        with lasting_interrupts():
            code = _main(arguments)
    except KeyboardInterrupt:
        if arguments is None:
            _end()
        print(_interrupted(arguments or ()), file=sys.stderr)
        return INTERRUPTED
    if arguments is None:
        # Nothing is left to interrupt.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _interrupted(words: Sequence[str]) -> str:
    """Return the last line of an interrupted command."""
    continued = ": finished points are kept, and the same command goes on" if [*words[:2]] == ["sweep", "run"] else ""
    return f"glassformer: interrupted{continued}"


def _end(*received: object) -> None:
    """End this process at once."""
    print(_interrupted(sys.argv[1:]), file=sys.stderr, flush=True)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    # Python would wait for threads that still compute or compile, and JAX may crash in them.
    os._exit(INTERRUPTED)


def _main(arguments: Sequence[str] | None) -> int:
    from glassformer.cli.output import BAD_USAGE, require_writable, short_warnings
    from glassformer.cli.parse import parse
    from glassformer.cli.parser import last_parser, on_command_line, parser_for
    from glassformer.core.cache import keep_compiled
    from glassformer.core.errors import GlassformerError, ParameterError
    from glassformer.core.interrupts import can_be_interrupted, end_when_interrupted
    from glassformer.core.progress import plain_progress

    if arguments is None:
        # Only in a process of its own: a Python program that calls ``main`` keeps its settings of JAX.
        keep_compiled()
    interruptible = arguments is None and can_be_interrupted()
    if interruptible:
        end_when_interrupted(INTERRUPTED)
        # An exception in the import of JAX, by the options of a model, would abort the process.
        before = signal.signal(signal.SIGINT, _end)
    words = _with_attached_numbers(sys.argv[1:] if arguments is None else arguments)
    parser = None
    try:
        parser = parser_for(words)
        options = parse(parser, words)
        if interruptible:
            signal.signal(signal.SIGINT, before)
        if not hasattr(options, "run"):
            parser.print_help()
            return BAD_USAGE
        require_writable(options)
        plain = getattr(options, "progress", "auto") == "plain"
        with short_warnings(), plain_progress(plain):
            try:
                return int(options.run(options))
            except SystemExit as error:
                # No command does that; its code would pass for the exit code of the command.
                print(f"glassformer: error: a function of yours calls sys.exit({error.code!r})", file=sys.stderr)
                return BAD_USAGE
    except BrokenPipeError:
        # The reader has closed the pipe. Python would write to it once more at exit.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except (GlassformerError, OSError) as error:
        if parser is not None and isinstance(error, ParameterError):
            error = on_command_line(error, last_parser(parser, words))
        print(f"glassformer: error: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_USAGE


def parse_alpha(text: str) -> list[float]:
    """Return sample ratios from a number, a comma list or ``start:stop:count``.

    Raises:
        ParameterError: the text is none of these.

    Example:
        >>> parse_alpha("0:1:3")
        [0.0, 0.5, 1.0]
    """
    from glassformer.core.parsing import parse_grid

    return parse_grid("alpha", text)


def _with_attached_numbers(arguments: Sequence[str]) -> list[str]:
    """Join options with values that begin with a minus and a digit, which argparse takes for options."""
    joined: list[str] = []
    for word in arguments:
        if _NEGATIVE.match(word) and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] = f"{joined[-1]}={word}"
        else:
            joined.append(word)
    return joined
