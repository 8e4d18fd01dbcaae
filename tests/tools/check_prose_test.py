"""Plants one phrase at a time in a file of each kind and expects tools/check_prose to name the line, and nothing else."""

import contextlib
import importlib.machinery
import importlib.util
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPT = Path(__file__).resolve().parents[2] / "tools/check_prose"
loader = importlib.machinery.SourceFileLoader("check_prose", str(SCRIPT))
check_prose = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_prose", loader))
loader.exec_module(check_prose)

# One phrase of each rule, put together here so that this file itself stays silent.
PHRASES = [
    "the buffer is " + "no tile",
    "the buffer is " + "none",
    "it says what it " + "is and " + "what it was",
    "on so " + "many threads",
    "as small " + "as may be",
    "the value sta" + "nds in a register",
    "the address li" + "es in memory",
    "who" + "ever calls it",
    "a target that has " + "such",
    "the end there" + "of comes",
    "a wi" + "sh for a stride",
]
INNOCENT = [
    "it is no longer used here",
    "the loop has no parent",
    "there is no command of this name",
    "m stands for the rows of a product",
    "a stand-in for the device",
    "it understands what it reads",
    "targets such as these are rare",
    "write `is none of` in code only",
    "what comes in; what comes out",
]
KINDS = {
    "a.cpp": ("int a;  // {}\n", '\nconst char* s = "{}";\n', "/* b\n   {} */\n"),
    "a.py": ("# {}\n", 'x = "{}"\n', '"""Text.\n\n{}\n"""\n'),
    "a.sh": ("#!/bin/sh\n# {}\n",),
    "CMakeLists.txt": ("# {}\n",),
    "a.md": ("# Title\n\n{}.\n", "| a | b |\n| --- | --- |\n| {} | c |\n"),
}
NOT_PROSE = {
    "a.cpp": ('R"(a text that is {})";\n', '#include "{}"\n'),
    "a.md": ("```\n{}\n```\n", "`{}`\n"),
}


def check(name, text, *arguments):
    """Runs the script on one file; returns (exit status, its warnings)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = check_prose.main([*arguments, str(file)])
    return status, [line for line in output.getvalue().splitlines() if "warning:" in line]


class CheckProseTest(unittest.TestCase):
    def test_each_phrase_is_found_in_each_kind_of_file(self):
        for name, shapes in KINDS.items():
            for shape in shapes:
                for phrase in PHRASES:
                    text = shape.format(phrase)
                    line = text[: text.index(phrase)].count("\n") + 1
                    status, warnings = check(name, text, "--strict")
                    self.assertEqual((status, len(warnings)), (1, 1), (name, phrase, warnings))
                    self.assertIn(f"{name}:{line}: ", warnings[0])

    def test_plain_english_code_and_quotations_are_left_alone(self):
        for name, shapes in KINDS.items():
            for shape in shapes:
                for phrase in INNOCENT:
                    self.assertEqual(check(name, shape.format(phrase), "--strict"), (0, []), (name, phrase))
        for name, shapes in NOT_PROSE.items():
            for shape in shapes:
                for phrase in PHRASES:
                    self.assertEqual(check(name, shape.format(phrase), "--strict"), (0, []), (name, shape, phrase))

    def test_a_phrase_over_the_end_of_a_line_is_found(self):
        for text in ("// the buffer is\n// no" + " tile\n", 'f("the buffer is "\n  "no' + ' tile");\n'):
            warnings = check("a.cpp", text)[1]
            self.assertEqual(len(warnings), 1, text)
            self.assertIn("a.cpp:1: ", warnings[0])

    def test_long_lines_of_documents_outside_of_tables_and_fences(self):
        long = "word " * 27
        self.assertIn("a.md:1: ", check("a.md", long + "\n")[1][0])
        for text in (f"| {long} |\n", f"```\n{long}\n```\n", "short\n"):
            self.assertEqual(check("a.md", text)[1], [])

    def test_without_strict_warnings_do_not_fail(self):
        status, warnings = check("a.md", "This is " + "none.\n" + "It is " + "none.\n")
        self.assertEqual((status, len(warnings)), (0, 2))

    def test_a_file_that_does_not_exist_is_an_error(self):
        with self.assertRaises(SystemExit) as ended:
            check_prose.main(["/no/such"])
        self.assertIn("'/no/such' does not exist", str(ended.exception))


if __name__ == "__main__":
    unittest.main()
