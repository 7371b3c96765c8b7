"""`domkl completion SHELL`: a script that lets a shell complete commands, options and their values."""

from __future__ import annotations

import argparse
from typing import Any

from ..base import checks
from . import declare

SHELLS = ("bash", "zsh", "fish")
HOW = {
    "bash": 'eval "$(domkl completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(domkl completion zsh)"       # in ~/.zshrc, after compinit',
    "fish": "domkl completion fish | source       # in ~/.config/fish/config.fish",
}
BASH = """# {how}
_domkl() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" path="" word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $word" in
{steps}
        esac
    done
    case "$path $prev" in
{values}
        *) case "$path" in
{options}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ "$cur" == -* || -z "$COMPREPLY" ]] && [[ "$cur" == -* ]] || COMPREPLY+=($(compgen -f -- "$cur"))
}}
{register}
"""


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "print a script that lets bash, zsh or fish complete commands and options"
    add = declare(commands, "completion", text, run, json=None)
    add("shell", metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    from . import parser

    print(script(checks.one_of("SHELL", args.shell, SHELLS), parser()), end="")


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script of a shell for all that a parser knows."""
    found = _commands(parser)
    return _fish(found) if shell == "fish" else _bash(shell, found)


def _commands(parser: argparse.ArgumentParser, path: str = "") -> dict[str, argparse.ArgumentParser]:
    """Every command by its words, "" for the top."""
    found = {path: parser}
    for name, command in _inner(parser).items():
        found |= _commands(command, f"{path} {name}".strip())
    return found


def _inner(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _words(parser: argparse.ArgumentParser) -> list[str]:
    options = [text for action in parser._actions for text in action.option_strings if text.startswith("--")]
    return [*_inner(parser), *options]


def _values(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """The values of each option that has only some."""
    return {
        text: [str(choice) for choice in action.choices]
        for action in parser._actions
        if action.choices is not None and action.option_strings
        for text in action.option_strings
    }


def _bash(shell: str, found: dict[str, argparse.ArgumentParser]) -> str:
    indent = " " * 8
    steps = [f'{indent}"{_head(path)} {path.split()[-1]}") path="{path}" ;;' for path in found if path]
    values = [
        f'{indent}"{path} {option}") words="{" ".join(choices)}" ;;'
        for path, parser in found.items()
        for option, choices in _values(parser).items()
    ]
    options = [
        f'{indent}    "{path}") words="{" ".join(_words(parser))}" ;;' for path, parser in found.items()
    ]
    register = "complete -o filenames -F _domkl domkl"
    if shell == "zsh":  # zsh runs bash's functions
        register = f"autoload -U +X bashcompinit && bashcompinit\n{register}"
    parts = {"steps": steps, "values": values, "options": options, "register": [register]}
    return BASH.format(how=HOW[shell], **{name: "\n".join(lines) for name, lines in parts.items()})


def _head(path: str) -> str:
    return " ".join(path.split()[:-1])


def _fish(found: dict[str, argparse.ArgumentParser]) -> str:
    lines = [f"# {HOW['fish']}"]
    for path, parser in found.items():
        inner = _inner(parser)
        seen = " ".join(inner)
        here = f"__fish_seen_subcommand_from {path.split()[-1]}" if path else "__fish_use_subcommand"
        for name in inner:
            there = here if not path else f"{here}; and not __fish_seen_subcommand_from {seen}"
            lines.append(f"complete -c domkl -n '{there}' -f -a {name}")
        for action in parser._actions:
            for text in action.option_strings:
                if text.startswith("--"):
                    choices = f" -x -a '{' '.join(map(str, action.choices))}'" if action.choices else ""
                    lines.append(f"complete -c domkl -n '{here}' -l {text[2:]}{choices}")
    return "\n".join(lines) + "\n"
