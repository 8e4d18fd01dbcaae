#!/usr/bin/env python3
"""Compares the #include lines of the sources with the room table in cmake/modules.cmake, and checks file sizes.

Rules, each an error:
  - a room includes only rooms of the table, of a lower level, listed in its ROOMS; every listed room is really included;
  - src/<room>/ is private: only the room itself and its tests include it, and a public header never does;
  - third-party headers stay in the one room that wraps them (THIRD_PARTY) and, unless allowed, out of public headers;
  - only the places of KIND_QUESTIONS ask a target of which kind it is: the others ask its backend (backend_of);
  - in rooms whose sources are compiled as one (TCC_UNITY_TARGETS), no function of an anonymous namespace has the name of
    one that a header of the room declares: it would hide that one in the other sources, silently;
  - no file is longer than 1,000 lines (tables exempt). Warnings: 600 lines, 300 for a public header and for the three
    files that tell the whole story.

Usage: tools/check_includes.py [--root DIR] [--prune]
  --prune removes listed rooms that nothing includes from cmake/modules.cmake. Adding a room is a decision: do it by hand.
Exit status: 0 clean (warnings allowed), 1 errors, 2 usage.
"""

import argparse
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

# Longest matching prefix decides which rooms may include a third-party header.
THIRD_PARTY = {
    "nats/": {"fleet"},
    "llvm/": {"codegen"},
    "llvm-c/": {"codegen"},
    # lld's entry point takes LLVM's array and stream types: package names them to call it, and nothing more of LLVM.
    "llvm/ADT/": {"codegen", "package"},
    "llvm/Support/raw_ostream.h": {"codegen", "package"},
    "lld/": {"package"},
    "Eigen/": {"cost"},
    "boost/": {"driver"},
    "sqlite3.h": {"record"},
    "google/protobuf/": {"onnx"},
    "CLI/": {"cli"},
    "nvrtc.h": {"codegen"},
    "cuda.h": {"runtime"},
    "cuda_runtime": {"runtime"},
    "cupti": {"runtime"},
}
# Third-party headers that public headers may not show even where the room may use them.
NEVER_PUBLIC = tuple(THIRD_PARTY) + ("nlohmann/json.hpp", "spdlog/")
SOURCE_SUFFIXES = {".h", ".hpp", ".cpp", ".cc", ".c", ".cu", ".inc", ".def"}
LINES_HARD, LINES_SOFT, LINES_PUBLIC_HEADER, LINES_STORY = 1000, 600, 300, 300
STORY_FILES = ("src/driver/compile.cpp", "src/lower/lower.cpp", "src/search/search.cpp")

# How many lines of each file may call is_cpu() or is_cuda(), define it, or compare kinds: 10 in all at most. What differs
# between kinds of targets belongs into include/tcc/backend/backend.h.
KIND_QUESTIONS = {
    "include/tcc/target/target.h": 2,
    "src/target/target.cpp": 3,
    "src/target/target_json.cpp": 3,
    "src/target/host_identity.cpp": 1,
    "src/lower/register_file.h": 1,
}
KIND_QUESTION = re.compile(
    r"\bis_(?:cpu|cuda)\(\)|\bkind_name\([^()]*\)\s*[!=]=|[!=]=\s*(?:\w+::)*TargetKind::k|TargetKind::k\w+\s*[!=]="
)

TABLE_CALL = re.compile(r"^tcc_room\(\s*(\w+)\s+LEVEL\s+(\d+)\s+ROOMS\b([^)]*?)(\bLIBS\b[^)]*)?\)", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.MULTILINE)
# Comments and raw strings may hold text that looks like an include (generated code does); plain strings are matched only
# so that a // inside one does not start a comment.
SKIPPED_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s"]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL
)


@dataclass
class Room:
    name: str
    level: int
    allowed: list
    libs: str  # "LIBS ..." as written, or nothing


@dataclass
class Include:
    file: str  # path relative to the root
    line: int
    text: str  # the text between the quotes


def parse_table(text):
    """The tcc_room() calls of modules.cmake, by name; raises ValueError for an empty table or a room listed twice."""
    rooms = {}
    text = re.sub(r"#[^\n]*", "", text)
    for name, level, allowed, libs in TABLE_CALL.findall(text):
        if name in rooms:
            raise ValueError(f"room '{name}' is listed twice in the table")
        rooms[name] = Room(name, int(level), allowed.split(), " ".join(libs.split()))
    if not rooms:
        raise ValueError("no tcc_room(<name> LEVEL <n> ROOMS ...) call found")
    return rooms


def blank(match):
    text = match.group(0)
    return text if text.startswith(('"', "'")) else re.sub(r"[^\n]", " ", text)


def read_includes(root, path):
    text = SKIPPED_TEXT.sub(blank, path.read_text(encoding="utf-8", errors="replace"))
    file = path.relative_to(root).as_posix()
    return [Include(file, text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in INCLUDE.finditer(text)]


def source_files(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                yield path


def resolve(root, rooms, include):
    """(room, is_private) that a project include leads to; None for standard, third-party and generated headers."""
    first, _, rest = include.text.partition("/")
    if first == "tcc" and "/" in rest:
        return rest.partition("/")[0], False
    beside = (root / include.file).parent / include.text
    for base, is_private in ((root / "src", True), (root / "include/tcc", False)):
        # A path relative to the including file, such as "../ir/node.h".
        if beside.exists() and base.resolve() in beside.resolve().parents:
            return beside.resolve().relative_to(base.resolve()).parts[0], is_private
    if rest and (first in rooms or (root / "src" / first).is_dir()):
        return first, True
    return None


def third_party_rooms(text):
    prefixes = [p for p in THIRD_PARTY if text.startswith(p)]
    return THIRD_PARTY[max(prefixes, key=len)] if prefixes else None


ANONYMOUS = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^[A-Za-z_][\w:<>,&* \[\]]*[ &*>]([a-z_]\w*)\(", re.MULTILINE)


def function_names(text):
    """Functions that are declared or defined at the beginning of a line."""
    return {m.group(1): text.count("\n", 0, m.start()) for m in FUNCTION.finditer(text)}


class Checker:
    def __init__(self, root):
        self.root = root
        self.table_path = root / "cmake/modules.cmake"
        self.rooms = parse_table(self.table_path.read_text(encoding="utf-8"))
        self.errors, self.warnings = [], []
        self.used = defaultdict(dict)  # room -> other room -> first Include
        self.with_sources = set()

    def error(self, text):
        self.errors.append(text)

    def check_levels(self):
        for room in self.rooms.values():
            for other in room.allowed:
                if other not in self.rooms:
                    self.error(f"cmake/modules.cmake: {room.name} lists '{other}', which is not a room of the table")
                elif self.rooms[other].level >= room.level:
                    self.error(
                        f"cmake/modules.cmake: {room.name} (level {room.level}) lists {other} (level "
                        f"{self.rooms[other].level}); a room depends on lower levels only"
                    )

    def check_sources(self):
        for base, is_public in (("include/tcc", True), ("src", False)):
            for path in source_files(self.root, base):
                parts = path.relative_to(self.root / base).parts
                file = path.relative_to(self.root).as_posix()
                if len(parts) < 2 or parts[0] not in self.rooms:
                    self.error(f"{file}: belongs to no room; move it, or add tcc_room({parts[0]} LEVEL n ROOMS ...)")
                    continue
                self.with_sources.add(parts[0])
                for include in read_includes(self.root, path):
                    self.check_include(parts[0], is_public, include)

    def check_include(self, room, is_public, include):
        where = f"{include.file}:{include.line}: {include.text}"
        target = resolve(self.root, self.rooms, include)
        if target is None:
            self.check_third_party(room, is_public, include, where)
            return
        other, is_private = target
        if other not in self.rooms:
            self.error(f"{where}: '{other}' is not a room of cmake/modules.cmake")
            return
        if is_private and other != room:
            self.error(f"{where}: private header of {other}; include tcc/{other}/..., or make that header public")
        if is_private and is_public:
            self.error(f"{where}: a public header includes a private one")
        if other != room:
            self.used[room].setdefault(other, include)

    def check_third_party(self, room, is_public, include, where):
        allowed = third_party_rooms(include.text)
        if allowed is not None and room not in allowed:
            self.error(f"{where}: belongs to {' or '.join(sorted(allowed))} alone; {room} asks that room for what it needs")
        elif is_public and include.text.startswith(NEVER_PUBLIC):
            self.error(f"{where}: stays private to {room}; move it from the public header to src/{room}/")
        elif include.text.endswith(".pb.h") and room != "onnx":
            self.error(f"{where}: protobuf is private to onnx")

    def check_table_is_exact(self):
        for name in sorted(self.with_sources, key=lambda n: (self.rooms[n].level, n)):
            room, used = self.rooms[name], self.used[name]
            missing = [o for o in used if o not in room.allowed]
            for other in missing:
                first = used[other]
                if self.rooms[other].level >= room.level:
                    self.error(
                        f"{first.file}:{first.line}: {name} (level {room.level}) includes {other} (level "
                        f"{self.rooms[other].level}); a room depends on lower levels only: move the code"
                    )
                else:
                    self.error(
                        f"{first.file}:{first.line}: {name} includes {other}, which the table does not list. "
                        f"If that is meant: {self.table_line(name)}"
                    )
            unused = [o for o in room.allowed if o not in used]
            if unused:
                self.error(
                    f"cmake/modules.cmake: {name} lists {', '.join(unused)} but includes nothing of it. "
                    f"Write: {self.table_line(name)} or run tools/check_includes.py --prune"
                )

    def table_line(self, name):
        room = self.rooms[name]
        kept = [o for o in room.allowed if o in self.used[name]]
        legal = [o for o in self.used[name] if o not in kept and self.rooms[o].level < room.level]
        words = [f"tcc_room({name} LEVEL {room.level} ROOMS", *kept, *legal, room.libs]
        return " ".join(word for word in words if word) + ")"

    def check_kind_questions(self):
        for path in source_files(self.root, "include", "src", "tools", "benchmarks"):
            file = path.relative_to(self.root).as_posix()
            text = SKIPPED_TEXT.sub(blank, path.read_text(encoding="utf-8", errors="replace"))
            found = sorted({text.count("\n", 0, m.start()) + 1 for m in KIND_QUESTION.finditer(text)})
            allowed = KIND_QUESTIONS.get(file, 0)
            if len(found) > allowed:
                self.error(
                    f"{file}:{found[allowed]}: asks a target of which kind it is; expected a field of backend::Backend "
                    f"({allowed} such questions are allowed here, {len(found)} found)"
                )

    def check_hidden_functions(self):
        listed = self.root / "cmake/precompiled.cmake"
        unity = re.search(r"set\(TCC_UNITY_TARGETS\s([^)]*)\)", listed.read_text(encoding="utf-8") if listed.exists() else "")
        targets = unity.group(1).split() if unity else []
        folders = [(f"include/tcc/{t[4:]}", f"src/{t[4:]}") for t in targets if t.startswith("tcc_")]
        folders += [("benchmarks", "benchmarks")] if "tcc-bench" in targets else []
        for headers, sources in folders:
            declared = {}
            for path in source_files(self.root, *{headers, sources}):
                if path.suffix == ".h":
                    file = path.relative_to(self.root).as_posix()
                    for name in function_names(path.read_text(encoding="utf-8", errors="replace")):
                        declared.setdefault(name, file)
            for path in source_files(self.root, sources):
                if path.suffix != ".cpp":
                    continue
                text = path.read_text(encoding="utf-8", errors="replace")  # a comment ends an anonymous namespace
                for part in ANONYMOUS.finditer(text):
                    first = text.count("\n", 0, part.start(1)) + 1
                    for name, line in function_names(part.group(1)).items():
                        if name in declared:
                            self.error(
                                f"{path.relative_to(self.root).as_posix()}:{first + line}: '{name}' of an anonymous namespace "
                                f"has the name of a function of {declared[name]}; expected a name of its own"
                            )

    def check_sizes(self):
        for path in source_files(self.root, "include", "src", "tests", "tools", "benchmarks"):
            file = path.relative_to(self.root).as_posix()
            is_table = path.suffix in (".inc", ".def") or path.stem.endswith("_table")
            with path.open("rb") as lines:
                count = sum(1 for _ in lines)
            if count > LINES_HARD and not is_table:
                self.error(f"{file}: {count} lines; more than {LINES_HARD} are not allowed: split it")
            elif count > LINES_SOFT and not is_table:
                self.warnings.append(f"{file}: {count} lines; is there a second thing in it? (soft limit {LINES_SOFT})")
            elif file.startswith("include/") and count > LINES_PUBLIC_HEADER and not is_table:
                self.warnings.append(f"{file}: {count} lines in a public header (soft limit {LINES_PUBLIC_HEADER})")
            if file in STORY_FILES and count > LINES_STORY:
                self.warnings.append(f"{file}: {count} lines; this file tells the whole story in {LINES_STORY}")

    def run(self):
        self.check_levels()
        self.check_sources()
        self.check_table_is_exact()
        self.check_kind_questions()
        self.check_hidden_functions()
        self.check_sizes()

    def prune(self):
        """Rewrites the table without the listed rooms that nothing includes; returns the names of the changed rooms."""
        text, changed = self.table_path.read_text(encoding="utf-8"), []
        for name in self.with_sources:
            unused = [o for o in self.rooms[name].allowed if o not in self.used[name]]
            if not unused:
                continue
            call = re.search(rf"^tcc_room\(\s*{name}\s[^)]*\)", text, re.MULTILINE)
            head, rooms, tail = re.match(r"(.*?\bROOMS\b)(.*?)(\s*\bLIBS\b.*|\s*\))$", call.group(0), re.DOTALL).groups()
            for other in unused:
                rooms = re.sub(rf"\s+{other}(?=\s|$)", "", rooms, count=1)
            text = text[: call.start()] + head + rooms + tail + text[call.end() :]
            changed.append(f"{name} (-{', -'.join(unused)})")
        self.table_path.write_text(text, encoding="utf-8")
        return sorted(changed)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--prune", action="store_true", help="remove listed rooms that nothing includes from the table")
    options = parser.parse_args(arguments)
    try:
        checker = Checker(options.root.resolve())
    except (OSError, ValueError) as problem:
        print(f"check_includes: cmake/modules.cmake: {problem}", file=sys.stderr)
        return 1
    checker.run()
    if options.prune:
        changed = checker.prune()
        print("check_includes: pruned " + ("; ".join(changed) if changed else "nothing"))
        checker = Checker(options.root.resolve())
        checker.run()
    for text in checker.warnings:
        print(f"warning: {text}")
    for text in checker.errors:
        print(f"error: {text}")
    print(f"check_includes: {len(checker.with_sources)} rooms, {len(checker.errors)} errors, {len(checker.warnings)} warnings")
    return 1 if checker.errors else 0


if __name__ == "__main__":
    sys.exit(main())
