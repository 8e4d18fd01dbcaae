"""Plants one name of an instruction at a time in a small project and expects tools/check_instructions.py to find it."""

import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPT = Path(__file__).resolve().parents[2] / "tools/check_instructions.py"
spec = importlib.util.spec_from_file_location("check_instructions", SCRIPT)
check_instructions = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_instructions)

TABLE = 'row("ldmatrix.x4.f16", kTile), row("mma.m16n8k16.f32.f16.bt", kProduct, "mma.sync.aligned %D, %A;")\n'


class Names(unittest.TestCase):
    def found(self, line, file="src/lower/pass.cpp"):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in (("src/ir/instr/mma.cpp", TABLE), (file, line + "\n")):
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text, encoding="utf-8")
            return [text for _, _, text in check_instructions.findings(Path(folder))]

    def test_names_are_found(self):
        self.assertEqual(self.found('call("ldmatrix.x4.f16");'), ["ldmatrix.x4.f16"])
        self.assertEqual(self.found('fmt::format("ldmatrix.x{}.f16", n)'), ["ldmatrix.x{}.f16"])
        self.assertEqual(self.found('name.starts_with("mma")'), ["mma"])
        self.assertEqual(self.found('name.ends_with(".bt")'), [".bt"])

    def test_other_texts_are_not(self):
        for line in ('// "ldmatrix.x4.f16"', 'word == "mma"', 'fmt::format("{}.f16", n)', 'name.starts_with("amx")'):
            self.assertEqual(self.found(line), [], line)

    def test_the_table_and_the_emulators_may(self):
        for file in ("src/ir/instr/other.cpp", "src/emulation/ptx.cpp", "src/ir/stored_codes.cpp"):
            self.assertEqual(self.found('call("ldmatrix.x4.f16");', file), [], file)


if __name__ == "__main__":
    unittest.main()
