#!/usr/bin/env python3
"""Runs the commands of a document, in their order, as a reader would.

    run_document.py FILE      exit code 0 if every command succeeds; 77: skipped because this machine cannot run it
    run_document.py --links   checks that every relative link of every document leads to a file and a heading
    run_document.py --self-test

A fenced block without a language, or with sh, is run by bash; one with python by Python. The blocks of a document share a
folder, a shell and the loopback network, which is not the machine's: daemons use their default ports. Blocks of other
languages are only shown. A block after a line `<!-- needs: SOMETHING -->` is not run: it needs what a test does not have,
such as a cluster or half an hour; one after `<!-- shows: SOMETHING -->` is output, not a command.

What a reader has, such as data of their own and a daemon, is made by comments that readers do not see. The lines between
`<!-- setup: sh` and `-->` are run where they are; those between `<!-- setup: python` and `-->` are run before each later
block of Python, so that every block has them.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("FULCRUM_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ROADMAP.md", "deploy/README.md", "clients/python/README.md",
             *sorted(f"docs/{path.name}" for path in (SOURCE / "docs").glob("*.md")))
# Needs of blocks that are not run. Each is a kind of machine, account or time that a test does not have.
# The extension module is there after ./dev package; then blocks that need it are run.
NEEDS = ("a build from source", "systemd", "docker", "kubernetes", "a display", "a terminal", "other packages", "long computation",
         "the extension module", "your data")
RUN = ("", "sh", "bash", "python")
# Documents whose commands a test of their own runs.
TESTED_ELSEWHERE = {"docs/http-api.md": "tests/browser/http_api_document_test.py"}
SET_UP_LOOPBACK = """import fcntl, socket, struct
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack("16sH14s", b"lo", 0x41, b""))
"""


def has_module():
    return any(pathlib.Path(os.environ.get("FULCRUM_CORE", "/nonexistent")).glob("_core*.so"))


def blocks(text):
    """Line, language, mark and content of every fenced block and of every set-up, whose mark is ("setup", "")."""
    lines, position = text.splitlines(), 0
    while position < len(lines):
        hidden = re.fullmatch(r"\s*<!-- setup: (\w+)\s*", lines[position])
        if hidden is not None:
            end = next(i for i in range(position + 1, len(lines)) if lines[i].strip() == "-->")
            yield position + 1, hidden[1], ("setup", ""), "\n".join(lines[position + 1:end])
            position = end + 1
            continue
        opened = re.fullmatch(r"(\s*)```(\w*)\s*", lines[position])
        if opened is None:
            position += 1
            continue
        end = next(i for i in range(position + 1, len(lines)) if lines[i].strip() == "```")
        before = next((line for line in reversed(lines[:position]) if line.strip()), "")
        mark = re.fullmatch(r"\s*<!-- (needs|shows): (.*?) -->\s*", before)
        indent = len(opened[1])
        yield position + 1, opened[2], mark and mark.groups(), "\n".join(line[indent:] for line in lines[position + 1:end])
        position = end + 1


def script_of(path, text):
    """A bash script of all blocks, and how many of them it runs."""
    parts, count, before_python = ["set -eEuo pipefail", "trap 'echo \"FAILED in the block of $place\" >&2' ERR"], 0, ""
    for line, language, mark, content in blocks(text):
        place = f"{path}:{line}"
        kind, what = mark or ("", "")
        if kind == "needs" and what not in NEEDS:
            raise SystemExit(f"{place}: '{what}' is not among the needs that run_document.py knows: {', '.join(NEEDS)}")
        if kind == "needs" and what == "the extension module" and has_module():
            kind = ""
        if kind == "setup" and language == "python":
            before_python += content + "\n"
        if kind in ("needs", "shows") or language not in RUN or (kind == "setup" and language == "python"):
            continue
        count += 0 if kind == "setup" else 1
        parts.append(f"place={shlex.quote(place)}; echo \"--- $place\"")
        parts.append(f"cat > block.py <<'BLOCK_OF_PYTHON'\n{before_python}{content}\nBLOCK_OF_PYTHON\n/usr/bin/python3 block.py"
                     if language == "python" else content)
    return "\n".join(parts) + "\n", count


def reader_folder(folder):
    """A checkout as the reader has it after ./dev build: links to what documents refer to."""
    for name in ("dev", "deploy", "experiments", "clients", "docs", "proto", "README.md"):
        (folder / name).symlink_to(SOURCE / name)
    program = pathlib.Path(os.environ["FULCRUM"])
    (folder / "build/release/bin").mkdir(parents=True)
    (folder / "build/release/bin/fulcrum").symlink_to(program)
    return f"{folder}/build/release/bin"


def python_path():
    """Where the package is: with its extension module if that was built."""
    return str(pathlib.Path(os.environ["FULCRUM_CORE"]).parent) if has_module() else os.environ.get("FULCRUM_PYTHON_PACKAGE", "")


def run_document(path):
    if path in TESTED_ELSEWHERE:
        print(f"{path} is run by {TESTED_ELSEWHERE[path]}")
        return 0
    script, count = script_of(path, (SOURCE / path).read_text(encoding="utf-8"))
    if count == 0:
        print(f"{path} has no commands to run")
        return 0
    isolate = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*isolate, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: this machine does not allow a network namespace")
        return 77
    with tempfile.TemporaryDirectory(prefix="fulcrum-docs-") as name:
        folder = pathlib.Path(name)
        places = reader_folder(folder)
        # What clients/python/README.md installs with pip is on Python's path.
        environment = {**os.environ, "PATH": f"{places}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": name,
                       "PYTHONPATH": python_path(), "PYTHONDONTWRITEBYTECODE": "1"}
        (folder / ".commands").write_text(script, encoding="utf-8")
        (folder / ".network.py").write_text(SET_UP_LOOPBACK, encoding="utf-8")
        shown = subprocess.run([*isolate, "bash", "-c", "/usr/bin/python3 .network.py && exec bash .commands"], cwd=name,
                               env=environment, stdin=subprocess.DEVNULL, check=False)
        log = folder / "serve.log"
        if shown.returncode != 0 and log.exists():
            print("End of serve.log:\n" + log.read_text()[-3000:])
    print(f"{count} blocks")
    return 1 if shown.returncode else 0


def anchors(text):
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^\s*```.*?^\s*```", "", text))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken_links():
    for name in DOCUMENTS:
        path = SOURCE / name
        if not path.exists():
            continue
        text = re.sub(r"(?ms)^\s*```.*?^\s*```", "", path.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", text):
            target = target[0] or target[1]
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if not there.exists():
                yield f"{name}: no file {target}"
            elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text(encoding="utf-8")):
                yield f"{name}: no heading {target}"


def self_test():
    text = "```\ntrue\n```\n<!-- needs: docker -->\n\n```\nfalse\n```\n```yaml\na: b\n```\n  ```sh\n  echo x\n  ```\n"
    found = list(blocks(text))
    assert [block[1] for block in found] == ["", "", "yaml", "sh"], found
    assert found[1][2] == ("needs", "docker") and found[3][3] == "echo x", found
    script, count = script_of("a.md", text)
    assert count == 2 and "false" not in script and "echo x" in script, script
    assert subprocess.run(["bash", "-c", script_of("a.md", "```\nfalse\n```\n")[0]], capture_output=True, check=False).returncode
    script, count = script_of("a.md", "<!-- setup: python\nx = 3\n-->\n<!-- setup: sh\nseen=1\n-->\n```python\nprint(x)\n```\n")
    assert count == 1 and "seen=1" in script and "x = 3\nprint(x)" in script, script
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tempfile.gettempdir())
    assert shown.stdout.splitlines()[-1] == "3", shown
    assert "the-api-v1" in anchors("# The API, v1\n")


def main():
    if sys.argv[1] == "--links":
        problems = list(broken_links())
        print("\n".join(problems))
        return 1 if problems else 0
    if sys.argv[1] == "--self-test":
        self_test()
        return 0
    return run_document(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
