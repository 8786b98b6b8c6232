#!/usr/bin/env python3
"""Writes the manual pages and the bash completion of the program from its --help texts.

    command_manual.py PROGRAM FOLDER VERSION     FOLDER/man/man1/fulcrum*.1.gz, FOLDER/bash-completion/completions/fulcrum
"""
import dataclasses
import gzip
import pathlib
import re
import subprocess
import sys

# Headings of CLI11 for what is not a command.
ARGUMENTS = ("Options", "Positionals")


@dataclasses.dataclass
class Command:
    """A command with its help, taken apart."""
    words: list
    summary: str
    usage: str
    groups: list  # (heading, [(name, description)])
    notes: str    # what follows the groups
    commands: list

    def options(self):
        entries = [name for heading, entries in self.groups for name, _ in entries]
        return sorted({word for name in entries for word in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", name)})


def parse_help(text):
    """Summary, usage, groups and notes of a help text."""
    summary, usage, rest = text.strip().partition("Usage:")
    first, _, rest = rest.partition("\n")
    groups, lines = [], rest.split("\n")
    position = 0
    while position < len(lines):
        line = lines[position]
        if not line.strip():
            position += 1
            continue
        heading = re.fullmatch(r"([A-Z][\w ,-]*):\s*", line)
        entries, position_after = parse_entries(lines, position + 1) if heading else ([], position)
        # The text after the last group may have headings too, but its lines are not aligned as the groups are.
        if not entries:
            break
        groups.append((heading[1], entries))
        position = position_after
    return " ".join(summary.split()), (usage + first).strip(), groups, "\n".join(lines[position:]).strip("\n")


def parse_entries(lines, position):
    """The entries of a group: a name at column 2, its description at a fixed column, possibly on the next lines."""
    entries = []
    while position < len(lines) and lines[position].startswith("  "):
        line = lines[position]
        found = re.match(r"  (?=\S)(\S(?:.*?\S)??)(?:\s{2,}(\S.*))?$", line)
        if found:
            entries.append([found[1], found[2] or ""])
        elif entries:
            entries[-1][1] = f"{entries[-1][1]} {line.strip()}".strip()
        position += 1
    return [tuple(entry) for entry in entries], position


def read_command(program, words):
    """The command and all below it, or None if there is no such command."""
    shown = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=False)
    if shown.returncode != 0:
        return None
    summary, usage, groups, notes = parse_help(shown.stdout)
    if not usage.startswith(f"Usage: {' '.join(['fulcrum', *words])}"):
        return None
    commands = []
    for heading, entries in groups:
        if heading in ARGUMENTS or "SUBCOMMAND" not in usage.upper():
            continue
        found = [read_command(program, [*words, name]) for name, _ in entries if re.fullmatch(r"[a-z][a-z-]*", name)]
        commands += [command for command in found if command]
    return Command(words, summary, usage.removeprefix("Usage: "), groups, notes, commands)


def roff(text):
    return re.sub(r"(?m)^([.'])", r"\\&\1", text.replace("\\", r"\e").replace("-", r"\-"))


def page_body(command, level):
    """The groups and notes of a command, as sections or as subsections."""
    parts = []
    for heading, entries in command.groups:
        if level == "SS" and heading == "Options" and [name for name, _ in entries] == ["-h,--help"]:
            continue
        parts.append(f".{level} {heading.upper() if level == 'SH' else roff(heading)}")
        parts += [f".TP\n.B {roff(name)}\n{roff(description) or '.br'}" for name, description in entries]
    if command.notes:
        parts.append(f".{level} {'NOTES' if level == 'SH' else 'Notes'}\n.nf\n{roff(command.notes)}\n.fi")
    return parts


def manual_page(command, version):
    name = "-".join(["fulcrum", *command.words])
    parts = [f'.TH {name.upper()} 1 "" "fulcrum {version}" "User Commands"',
             f".SH NAME\n{roff(name)} \\- {roff(command.summary.rstrip('.'))}",
             f".SH SYNOPSIS\n.B {roff(command.usage)}", *page_body(command, "SH")]
    if command.words:
        for below in command.commands:
            parts += [f".SH {roff(' '.join(['fulcrum', *below.words])).upper()}\n{roff(below.summary)}\n.PP\n.B "
                      f"{roff(below.usage)}", *page_body(below, "SS")]
        parts.append(".SH SEE ALSO\n.BR fulcrum (1)")
    else:
        others = ",\n".join(f".BR fulcrum\\-{roff(below.words[0])} (1)" for below in command.commands)
        parts.append(f".SH SEE ALSO\n{others}")
    return "\n".join(parts) + "\n"


def all_below(command):
    yield command
    for below in command.commands:
        yield from all_below(below)


def completion(program):
    """A function that knows the commands and the options of each; everything else is a file name."""
    cases = []
    for command in all_below(program):
        words = " ".join(command.words)
        names = [below.words[-1] for below in command.commands]
        cases.append(f"    '{words}') commands='{' '.join(names)}' options='{' '.join(command.options())}' ;;")
    paths = " ".join(f"'{' '.join(command.words)}'" for command in all_below(program) if command.words)
    return f"""# bash completion of fulcrum. Written by command_manual.py from the help texts.
_fulcrum() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} path='' word known commands='' options=''
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    for known in {paths}; do
      [[ $known != "${{path:+$path }}$word" ]] || {{ path=$known; break; }}
    done
  done
  case $path in
{chr(10).join(cases)}
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F _fulcrum fulcrum
"""


def main():
    program, folder, version = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    root = read_command(program, [])
    if root is None or len(root.commands) < 5:
        sys.exit(f"command_manual.py: cannot read the commands of '{program} --help'")
    pages = folder / "man" / "man1"
    pages.mkdir(parents=True, exist_ok=True)
    for command in [root, *root.commands]:
        name = "-".join(["fulcrum", *command.words])
        # Without a time in the file, equal contents give equal packages.
        (pages / f"{name}.1.gz").write_bytes(gzip.compress(manual_page(command, version).encode(), mtime=0))
    place = folder / "bash-completion" / "completions"
    place.mkdir(parents=True, exist_ok=True)
    (place / "fulcrum").write_text(completion(root), encoding="utf-8")


if __name__ == "__main__":
    main()
