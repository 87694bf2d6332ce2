"""Completion of commands, options, names and files in a shell."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from glassformer.cli.argument_parser import Parser
from glassformer.cli.commands import COMMANDS
from glassformer.cli.learners import add_settings, listed_learners, use_of
from glassformer.cli.output import KINDS
from glassformer.cli.parser import last_parser, parser_for
from glassformer.core.files import user_path
from glassformer.models.registry import MODELS, model_type

SHELLS = ("bash", "zsh", "fish")


def add(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=SHELLS, help="shell of the script; the documentation says where to save it")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    parser = parser_for([*COMMANDS, *MODELS])
    owners = _add_settings(parser)
    names = _names()
    for words, action in _arguments(parser):
        complete: Any = action
        if action.type is user_path:
            complete.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
        elif action.choices is None:
            complete.choices = names.get((action.dest, *words[-2:]), names.get((action.dest, words[-1])))
            complete.choices = complete.choices or names.get((action.dest,))
    print(_SCRIPTS[options.shell](shtab.complete(parser, options.shell), owners))
    return 0


def _names() -> dict[tuple[str, ...], tuple[str, ...]]:
    """Names that can follow an option, by its destination, and the last words of its command if it depends on them."""
    from glassformer.papers.catalogue import FIGURES
    from glassformer.papers.citations import used

    learners: dict[tuple[str, ...], tuple[str, ...]] = {
        ("learner", name, model): tuple(listed_learners(model, command.settings))
        for name, command in COMMANDS.items()
        for model in MODELS
        if command.settings
    }
    return {
        **learners,
        ("kind",): tuple(KINDS),
        ("name",): tuple(FIGURES),
        ("used",): used(),
        **{("model_channel", model): model_type(model).channel_names for model in MODELS},
    }


def _arguments(parser: Parser) -> Iterator[tuple[list[str], argparse.Action]]:
    """All options and arguments, those of subcommands included, with the words of the command that they belong to."""
    for action in parser.arguments:
        yield parser.prog.split(), action
    for own in parser.subcommands.values():
        yield from _arguments(own)


# --- settings of the learner that was typed ---------------------------------------------------------------------------

# Learners that have an option, by command and model, and by the option. All options of trajectories with runs count.
_Owners = dict[tuple[str, str], dict[str, list[str]]]


def _add_settings(parser: Parser) -> _Owners:
    """Add the settings of all learners to the parser, and return the learners that have them."""
    from glassformer.learners.registry import names, settings_of

    found: _Owners = {}
    for command, model in ((name, model) for name, one in COMMANDS.items() for model in MODELS if one.settings):
        own = last_parser(parser, [command, model])
        owners = found.setdefault((command, model), {})
        for name in names():
            settings = settings_of(name, use_of(COMMANDS[command].settings, ["--d"]))
            add_settings(own, name, settings)
            for option in settings:
                if own.options[option.word].dest.startswith("learner_"):
                    owners.setdefault(option.word, []).append(name)
    return found


def _cases(owners: _Owners, pattern: str) -> str:
    """Return branches of a shell's ``case`` that set ``hidden`` for a command, a model and a learner."""
    from glassformer.learners.registry import names

    lines = []
    for (command, model), own in owners.items():
        place = pattern.format(command=command, model=model)
        for name in names():
            hidden = " ".join(word for word, learners in own.items() if name not in learners)
            lines.append(f'    "{place} {name}") hidden="{hidden}" ;;')
    return "\n".join(lines)


_BASH = r"""
# Options of learners other than the one that was typed are left out.
_glassformer() {{
  local learner={default} previous= word hidden= kept=()
  _shtab_glassformer "$@"
  for word in "${{COMP_WORDS[@]}}"; do
    # Bash may have split the word at the equals sign.
    [[ $word == "=" ]] && continue
    [[ $word == --learner=?* ]] && learner=${{word#*=}}
    [[ $previous == --learner && $word != -* ]] && learner=$word
    previous=$word
  done
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}} ${{learner%%:*}}" in
{cases}
  esac
  for word in "${{COMPREPLY[@]}}"; do
    [[ " $hidden " == *" $word "* ]] || kept+=("$word")
  done
  COMPREPLY=("${{kept[@]}}")
}}

complete -o bashdefault -F _glassformer glassformer
"""
_ZSH = r"""
# Options of learners other than the one that was typed are left out.
_glassformer_arguments() {{
  local learner={default} previous= word hidden=
  local -a kept
  for word in $words; do
    [[ $word == --learner=?* ]] && learner=${{word#*=}}
    [[ $previous == --learner && $word != -* ]] && learner=$word
    previous=$word
  done
  case "$1 ${{learner%%:*}}" in
{cases}
  esac
  for word in "${{(@P)2}}"; do
    [[ " $hidden " == *" ${{word%%\[*}} "* ]] || kept+=("$word")
  done
  _arguments -C -s $kept
}}
"""
_FISH = r"""
# Whether the learner that was typed is one of the arguments.
function _glassformer_learner
  set -l learner {default}
  set -l previous ''
  for word in (commandline -opc)
    if string match -q -- '--learner=?*' $word
      set learner (string replace -- '--learner=' '' $word)
    else if test "$previous" = --learner
      set learner $word
    end
    set previous $word
  end
  contains -- (string split -- : $learner)[1] $argv
end
"""


def _default() -> str:
    from glassformer.learners.registry import names

    return names()[0]


def _bash(script: str, owners: _Owners) -> str:
    return script + _BASH.format(default=_default(), cases=_cases(owners, "{command} {model}"))


def _zsh(script: str, owners: _Owners) -> str:
    for command, model in owners:
        place = f"{command}_{model}".replace("-", "_")
        array = f"_shtab_glassformer_{place}_options"
        script = script.replace(f"_arguments -C -s ${array} ", f"_glassformer_arguments '{command} {model}' {array} ")
    function = _ZSH.format(default=_default(), cases=_cases(owners, "{command} {model}"))
    # The first line tells zsh for which command the script is.
    first, _, rest = script.partition("\n")
    return f"{first}\n{function}{rest}"


def _fish(script: str, owners: _Owners) -> str:
    def with_learners(found: re.Match[str]) -> str:
        start, command, model, word = found.groups()
        own = owners.get((command, model), {}).get(f"--{word}")
        return found[0] if own is None else f"{start}; and _glassformer_learner {' '.join(own)}' -l {word} "

    pattern = r"^(complete -c glassformer -n '_shtab_glassformer_using (\S+) (\S+))' -l (\S+) "
    return _FISH.format(default=_default()) + re.sub(pattern, with_learners, script, flags=re.MULTILINE)


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
