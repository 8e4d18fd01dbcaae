"""Plants one violation at a time in a small project and expects tools/check_includes.py to report exactly that."""

import contextlib
import importlib.util
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPT = Path(__file__).resolve().parents[2] / "tools/check_includes.py"
spec = importlib.util.spec_from_file_location("check_includes", SCRIPT)
check_includes = importlib.util.module_from_spec(spec)
sys.modules["check_includes"] = check_includes
spec.loader.exec_module(check_includes)

TABLE = """\
# tcc_room(<name> LEVEL <n> ROOMS <room>...)
function(tcc_room name)
endfunction()
tcc_room(support LEVEL 0 ROOMS LIBS Threads::Threads ${CMAKE_DL_LIBS})
tcc_room(ir LEVEL 2 ROOMS support)
tcc_room(graph LEVEL 2 ROOMS support)
tcc_room(codegen LEVEL 5 ROOMS
         support ir LIBS LLVM)
tcc_room(cost LEVEL 6 ROOMS support)
"""
CLEAN = {
    "cmake/modules.cmake": TABLE,
    "include/tcc/support/result.h": "#include <vector>\n",
    "include/tcc/ir/node.h": '#include "tcc/support/result.h"\n',
    "src/ir/detail.h": "#pragma once\n",
    "src/ir/node.cpp": '#include "tcc/ir/node.h"\n#include "ir/detail.h"\n#include "detail.h"\n',
    "include/tcc/graph/graph.h": '#include "tcc/support/result.h"\n',
    "src/codegen/emit.cpp": '#include <llvm/IR/IRBuilder.h>\n#include "tcc/ir/node.h"\n#include "tcc/support/result.h"\n',
}


class CheckIncludesTest(unittest.TestCase):
    def check(self, changes=(), prune=False):
        """Runs the script on the clean project with `changes`; returns (exit status, its output, table afterwards)."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {**CLEAN, **dict(changes)}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                status = check_includes.main(["--root", folder] + (["--prune"] if prune else []))
            return status, output.getvalue(), (root / "cmake/modules.cmake").read_text()

    def expect_one_error(self, changes, *substrings):
        status, output, _ = self.check(changes)
        errors = [line for line in output.splitlines() if line.startswith("error:")]
        self.assertEqual((status, len(errors)), (1, 1), output)
        for substring in substrings:
            self.assertIn(substring, errors[0])

    def test_clean_project_passes_even_where_a_listed_room_has_no_sources(self):
        status, output, _ = self.check()
        self.assertEqual(status, 0, output)
        self.assertIn("4 rooms, 0 errors, 0 warnings", output)

    def test_unlisted_room(self):
        source = CLEAN["src/codegen/emit.cpp"] + '#include "tcc/graph/graph.h"\n'
        self.expect_one_error(
            {"src/codegen/emit.cpp": source},
            "src/codegen/emit.cpp:4: codegen includes graph",
            "tcc_room(codegen LEVEL 5 ROOMS support ir graph LIBS LLVM)",
        )

    def test_own_level_and_higher_level(self):
        for room in ("graph", "codegen"):
            source = CLEAN["src/ir/node.cpp"] + f'#include "tcc/{room}/graph.h"\n'
            self.expect_one_error({"src/ir/node.cpp": source}, f"ir (level 2) includes {room}", "lower levels only")
        table = TABLE.replace("ir LEVEL 2 ROOMS support", "ir LEVEL 2 ROOMS support graph")
        source = CLEAN["src/ir/node.cpp"] + '#include "tcc/graph/graph.h"\n'
        self.expect_one_error(
            {"cmake/modules.cmake": table, "src/ir/node.cpp": source}, "ir (level 2) lists graph (level 2)"
        )

    def test_unused_room_is_reported_and_pruned(self):
        source = CLEAN["src/codegen/emit.cpp"].replace('#include "tcc/ir/node.h"\n', "")
        self.expect_one_error({"src/codegen/emit.cpp": source}, "codegen lists ir but includes nothing of it")
        status, output, table = self.check({"src/codegen/emit.cpp": source}, prune=True)
        self.assertEqual(status, 0, output)
        self.assertEqual(table, TABLE.replace("support ir LIBS LLVM", "support LIBS LLVM"))

    def test_unknown_room_and_file_outside_a_room(self):
        source = CLEAN["src/ir/node.cpp"] + '#include "tcc/nowhere/x.h"\n'
        self.expect_one_error({"src/ir/node.cpp": source}, "'nowhere' is not a room")
        self.expect_one_error({"src/stray/a.cpp": "int a;\n"}, "src/stray/a.cpp: belongs to no room")
        table = TABLE.replace("graph LEVEL 2 ROOMS support", "graph LEVEL 2 ROOMS support ghost")
        _, output, _ = self.check({"cmake/modules.cmake": table})
        self.assertIn("graph lists 'ghost', which is not a room", output)

    def test_private_header_of_another_room(self):
        for text in ("ir/detail.h", "../ir/detail.h"):
            source = CLEAN["src/codegen/emit.cpp"] + f'#include "{text}"\n'
            self.expect_one_error({"src/codegen/emit.cpp": source}, "src/codegen/emit.cpp:4", "private header of ir")

    def test_public_header_includes_a_private_one(self):
        header = CLEAN["include/tcc/ir/node.h"] + '#include "ir/detail.h"\n'
        self.expect_one_error({"include/tcc/ir/node.h": header}, "include/tcc/ir/node.h:2", "public header")

    def test_third_party_header_in_the_wrong_room(self):
        for header, owner in (
            ("llvm/IR/Module.h", "codegen"),
            ("lld/Common/Driver.h", "package"),
            ("Eigen/Dense", "cost"),
            ("boost/math/distributions/students_t.hpp", "driver"),
            ("sqlite3.h", "record"),
            ("google/protobuf/message.h", "onnx"),
            ("nvrtc.h", "codegen"),
            ("cuda.h", "runtime"),
            ("CLI/CLI.hpp", "cli"),
        ):
            source = CLEAN["src/ir/node.cpp"] + f"#include <{header}>\n"
            self.expect_one_error({"src/ir/node.cpp": source}, f"src/ir/node.cpp:4: {header}", owner, "alone")

    def test_third_party_header_in_a_public_header(self):
        headers = {"include/tcc/codegen/emit.h": "#include <llvm/IR/Module.h>\n"}
        self.expect_one_error(headers, "include/tcc/codegen/emit.h:1", "stays private to codegen")
        headers = {"include/tcc/graph/json.h": "#include <nlohmann/json.hpp>\n"}
        self.expect_one_error(headers, "include/tcc/graph/json.h:1", "stays private to graph")
        status, output, _ = self.check({"include/tcc/graph/json.h": "#include <nlohmann/json_fwd.hpp>\n"})
        self.assertEqual(status, 0, output)

    def test_text_that_only_looks_like_an_include(self):
        source = CLEAN["src/ir/node.cpp"] + (
            '// #include "tcc/graph/graph.h"\n'
            '/*\n#include "tcc/graph/graph.h"\n*/\n'
            'const char* a = "// not a comment"; const char* b = R"cuda(\n#include <nvrtc.h>\n)cuda";\n'
        )
        status, output, _ = self.check({"src/ir/node.cpp": source})
        self.assertEqual(status, 0, output)
        # The text between is skipped, what follows is not.
        self.expect_one_error({"src/ir/node.cpp": source + "#include <nvrtc.h>\n"}, "src/ir/node.cpp:11: nvrtc.h")

    def test_sizes(self):
        body = "int a;\n"
        self.expect_one_error({"src/ir/long.cpp": body * 1001}, "src/ir/long.cpp: 1001 lines")
        status, output, _ = self.check(
            {
                "src/ir/rows_table.cpp": body * 1001,
                "src/ir/half.cpp": body * 601,
                "include/tcc/ir/wide.h": body * 301,
            }
        )
        self.assertEqual(status, 0, output)
        self.assertIn("warning: src/ir/half.cpp: 601 lines", output)
        self.assertIn("warning: include/tcc/ir/wide.h: 301 lines", output)
        self.assertIn("2 warnings", output)

    def test_questions_about_the_kind_of_a_target(self):
        question = "bool f(const Target& t) { return t.is_cpu(); }  // is_cuda() in a comment does not count\n"
        self.expect_one_error({"src/ir/kind.cpp": question}, "src/ir/kind.cpp:1", "backend::Backend")
        self.expect_one_error({"benchmarks/kind.cpp": question}, "benchmarks/kind.cpp:1", "backend::Backend")
        for other in ('kind_name(t.kind) == "cpu"', "t.kind != target::TargetKind::kCuda", "TargetKind::kCpu == t.kind"):
            self.expect_one_error({"src/ir/kind.cpp": f"bool f(const Target& t) {{ return {other}; }}\n"}, "src/ir/kind.cpp:1")
        status, output, _ = self.check({"src/target/target.cpp": question, "cmake/modules.cmake": TABLE + "tcc_room(target LEVEL 1 ROOMS)\n"})
        self.assertEqual(status, 0, output)

    def test_function_that_hides_one_of_a_header(self):
        header = {
            "src/ir/detail.h": "#pragma once\nbool is_whole(int n);\n",
            "cmake/precompiled.cmake": "set(TCC_UNITY_TARGETS\n  tcc_graph tcc_ir test_ir)\n",
        }
        hidden = "namespace {\n\nbool is_whole(long n) {\n  return n > 0;\n}\n\n}  // namespace\n"
        self.expect_one_error({**header, "src/ir/other.cpp": hidden}, "src/ir/other.cpp:3", "'is_whole'", "src/ir/detail.h")
        for fine in (hidden.replace("is_whole", "is_long"), "bool is_whole(int n) {\n  return n > 0;\n}\n"):
            status, output, _ = self.check({**header, "src/ir/other.cpp": fine})
            self.assertEqual(status, 0, output)

    def test_broken_table(self):
        status, output, _ = self.check({"cmake/modules.cmake": "# nothing\n"})
        self.assertEqual(status, 1)
        self.assertIn("no tcc_room(", output)
        status, output, _ = self.check({"cmake/modules.cmake": TABLE + "tcc_room(ir LEVEL 2 ROOMS support)\n"})
        self.assertIn("room 'ir' is listed twice", output)


if __name__ == "__main__":
    unittest.main()
