"""Every path, command and option that the documents name exists."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "benchmarks/README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Names that stand for a name the reader chooses, and files that runs of tcc make.
PLACEHOLDERS = re.compile(r"NAME|<\w+>|\bDIR\b|\bFILE\b|\bSUITE\b")
MADE = ("benchmarks/results/soak.json", "build/")


def code_spans(text):
    """The texts in backquotes and in fenced blocks of commands."""
    fences = re.findall(r"^```(?:console.*)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", prose), "\n".join(fences).splitlines()


def exists(path):
    """`src/rt/` or `a/b.{h,cpp}` or `src/space/gpu_*.cpp`; public headers may be named without include/tcc/."""
    for pattern in (path, "include/tcc/" + path, "src/" + path):
        pattern = pattern.rstrip("/")
        if "{" in pattern:
            head, choices, tail = re.match(r"(.*)\{(.*)\}(.*)", pattern).groups()
            if all(list(ROOT.glob(head + choice + tail)) for choice in choices.split(",")):
                return True
        elif list(ROOT.glob(pattern)):
            return True
    return False


class DocsTest(unittest.TestCase):
    def test_paths_exist(self):
        folders = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build"}
        rooms = {path.name for path in (ROOT / "src").iterdir()}
        missing = []
        for document in DOCUMENTS:
            spans, _ = code_spans(document.read_text())
            for span in spans:
                path = re.split("[ ;]", span)[0]
                first = path.split("/")[0]
                if "/" not in path or PLACEHOLDERS.search(path) or path.startswith(MADE):
                    continue
                is_path = first in folders or (first in rooms and re.search(r"\.(h|c|cpp)$", path))
                if is_path and not exists(path):
                    missing.append(f"{document.relative_to(ROOT)}: {path}")
        self.assertEqual(missing, [])

    def test_commands_exist(self):
        table = (ROOT / "src/cli/table.cpp").read_text()
        commands = set(re.findall(r"^  ROW\((\w+)\)", table, re.MULTILINE))
        self.assertGreater(len(commands), 10)
        for document in DOCUMENTS:
            spans, lines = code_spans(document.read_text())
            for text in [*spans, *lines]:
                for word in re.findall(r"(?:^|[$;|&] |tools/)tcc (\w+)", text):
                    if word != "COMMAND":
                        self.assertIn(word, commands, f"{document.name}: `{text}`")

    def test_every_document_is_in_the_index(self):
        index = (ROOT / "docs/README.md").read_text()
        for document in DOCUMENTS:
            name = str(document.relative_to(ROOT))
            if name != "docs/README.md":
                self.assertIn(f"`{name}`", index)

    def test_readme_lists_every_command(self):
        readme = (ROOT / "README.md").read_text()
        table = (ROOT / "src/cli/table.cpp").read_text()
        for command in re.findall(r"^  ROW\((\w+)\)", table, re.MULTILINE):
            self.assertIn(f"tcc {command}", readme)


if __name__ == "__main__":
    unittest.main()
