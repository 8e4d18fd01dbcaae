#!/usr/bin/env python3
"""Refuses names of instructions outside of the instruction table (src/ir/instr) and the emulators that read their text.

Other rooms find rows by family, behaviour, types and shapes (include/tcc/ir/instr.h), so that a new instruction is one
row and a test. A name is refused as a whole string, as the beginning of a format string and as the argument of
starts_with or ends_with.
"""
import pathlib
import re
import sys

ALLOWED = ("src/ir/instr/", "src/ir/stored_codes.cpp", "src/emulation/")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
PREFIX_TEST = re.compile(r'(?:starts|ends)_with\("([^"\n]*)"\)')


def instruction_names(root):
    names = set()
    for path in sorted((root / "src/ir/instr").glob("*.cpp")):
        for text in STRING.findall(path.read_text(encoding="utf-8")):
            if re.fullmatch(r"[a-z][a-z0-9]*(\.[a-z0-9_]+)+", text):
                names.add(text)
    return names


def findings(root):
    names = instruction_names(root)
    if not names:
        raise SystemExit("check_instructions: no instruction found in src/ir/instr")
    families = {name.partition(".")[0] for name in names}
    suffixes = {"." + name.rpartition(".")[2] for name in names}
    for path in sorted((root / "src").rglob("*")):
        file = path.relative_to(root).as_posix()
        if path.suffix not in (".cpp", ".h", ".c") or file.startswith(ALLOWED):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = line.partition("//")[0]
            for text in STRING.findall(code):
                head = text.partition("{")[0]
                begins = "{" in text and "." in head and any(name.startswith(head) for name in names)
                if text in names or begins:
                    yield file, number, text
            for text in PREFIX_TEST.findall(code):
                if text in families or text in suffixes:
                    yield file, number, text


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = list(findings(root))
    for file, number, text in found:
        print(f'{file}:{number}: "{text}" names an instruction: find its row by family, behaviour, types or shapes')
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
