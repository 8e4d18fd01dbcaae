// The table of passes: the rows fit together, the documentation lists them, dumps and further pipelines read them.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "tcc/ir/text.h"
#include "tcc/lower/lower.h"
#include "tcc/lower/nest.h"
#include "tcc/support/files.h"

using namespace tcc;

namespace {

const char* const kKernel = R"(kernel built {
  input A: f32[8, 6]
  output B: f32[8]
  temp T: f32[8]
  for i in 8 {
    for k in 6 {
      block sum(vi: spatial 8 = i, vk: reduce 6 = k) reduce(sum) {
        init {
          T[vi] = 0.0
        }
        T[vi] = T[vi] + A[vi, vk]
      }
    }
  }
  for j in 8 {
    block copy(vj: spatial 8 = j) {
      B[vj] = T[vj]
    }
  }
}
)";

ir::Kernel parsed(const char* text) {
  auto k = ir::parse(text);
  if (!k) FAIL(k.error().message);
  return *k;
}

std::vector<std::string> words(const std::string& row) {
  std::vector<std::string> out;
  for (size_t at = row.find('|'); at != std::string::npos && at + 1 < row.size();) {
    const size_t end = row.find('|', at + 1);
    if (end == std::string::npos) break;
    std::string cell = row.substr(at + 1, end - at - 1);
    std::erase_if(cell, [](char c) { return c == '`'; });
    const size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
    out.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    at = end;
  }
  return out;
}

// Name, needs and gives of the rows of the table below the heading "## <pipeline>".
std::vector<std::string> documented(const std::string& text, std::string_view pipeline) {
  std::vector<std::string> rows;
  size_t at = text.find(fmt::format("\n## {}\n", pipeline));
  REQUIRE(at != std::string::npos);
  const size_t end = text.find("\n## ", at + 1);
  for (at = text.find("\n| `", at); at < end; at = text.find("\n| `", at + 1)) {
    const std::vector<std::string> cells = words(text.substr(at + 1, text.find('\n', at + 1) - at - 1));
    REQUIRE(cells.size() == 4);
    CHECK(cells[3].size() >= 10);
    rows.push_back(cells[0] + " " + cells[1] + " " + cells[2]);
  }
  return rows;
}

}  // namespace

TEST_CASE("each pass needs a form that the passes before it give", "[lower]") {
  REQUIRE(lower::pipelines().size() >= 2);
  for (const lower::Pipeline* pipeline : lower::pipelines()) {
    INFO(pipeline->name);
    lower::Form form = lower::Form::kBlocks;
    for (const lower::Pass& pass : pipeline->passes) {
      INFO(pass.name);
      CHECK(pass.needs == form);
      CHECK(pass.gives >= form);
      form = pass.gives;
    }
    CHECK(form == lower::Form::kLowered);
    for (size_t i = 0; i < lower::common_passes().size(); ++i)
      CHECK(pipeline->passes[i].name == lower::common_passes()[i].name);
  }
}

TEST_CASE("docs/passes.md lists the passes of each pipeline in order", "[lower]") {
  auto text = read_file(std::string(TCC_SOURCE_DIR) + "/docs/passes.md");
  REQUIRE(text.has_value());
  for (const lower::Pipeline* pipeline : lower::pipelines()) {
    if (pipeline->name != "cpu" && pipeline->name != "cuda") continue;
    std::vector<std::string> rows;
    for (const lower::Pass& pass : pipeline->passes)
      rows.push_back(fmt::format("{} {} {}", pass.name, lower::form_name(pass.needs), lower::form_name(pass.gives)));
    CHECK(documented(*text, pipeline->name) == rows);
  }
}

TEST_CASE("an observer sees the kernel after every pass that runs", "[lower]") {
  const target::Target cpu = *target::find_target("x86-64-v3");
  std::vector<std::string> seen;
  std::vector<ir::Stage> stages;
  auto lowered = lower::lower(parsed(kKernel), cpu, ir::Stage::kLowered, std::make_shared<Arena>(),
                              [&](const lower::Pass& pass, const ir::Kernel& k) {
                                seen.emplace_back(pass.name);
                                stages.push_back(k.stage);
                              });
  REQUIRE(lowered.has_value());
  std::vector<std::string> all;
  for (const lower::Pass& pass : lower::pipeline_of(cpu).passes) all.emplace_back(pass.name);
  CHECK(seen == all);
  CHECK(stages.back() == ir::Stage::kLowered);
  CHECK(std::is_sorted(stages.begin(), stages.end()));
}

TEST_CASE("a pass that only tidies is skipped where nothing has changed", "[lower]") {
  const target::Target a100 = *target::find_target("a100");
  int folds = 0;
  auto nest = lower::lower(parsed(kKernel), a100, ir::Stage::kNest, std::make_shared<Arena>(),
                           [&](const lower::Pass& pass, const ir::Kernel&) { folds += pass.name == "fold"; });
  REQUIRE(nest.has_value());
  CHECK(folds == 1);
}

TEST_CASE("an unknown pass is an error with the nearest name", "[lower]") {
  const lower::Pipeline& cpu = lower::pipeline_of(*target::find_target("x86-64-v3"));
  CHECK(lower::find_pass(cpu, "split_tails") != nullptr);
  CHECK(lower::find_pass(cpu, "insert_barriers") == nullptr);
  const Error error = lower::unknown_pass(cpu, "split_tials").value();
  CHECK(error.cls == ErrorClass::kUsage);
  CHECK(error.message.find("unknown pass 'split_tials'") != std::string::npos);
  CHECK(error.hint.find("split_tails") != std::string::npos);
  CHECK(lower::unknown_pass(cpu, "xyzzyxyzzyxyzzy").value().hint.find("place_inits, inline_blocks") !=
        std::string::npos);
}

TEST_CASE("a further kind of target brings rows of its own", "[lower]") {
  using lower::Form;
  static const auto as_it_is = [](const ir::Kernel& k, const target::Target&, const ArenaPtr&) {
    return ir::Legal<ir::Kernel>(k);
  };
  static std::vector<lower::Pass> passes(lower::common_passes().begin(), lower::common_passes().end());
  passes.push_back({"no_limits", Form::kFolded, Form::kNest, as_it_is});
  passes.push_back({"as_it_is", Form::kNest, Form::kLowered, as_it_is});
  static const lower::Pipeline pipeline = {"plain", passes,
                                           [](const ir::Kernel&, const target::Target&) { return ir::Legal<void>(); }};
  target::Target plain;
  plain.name = "plain";
  plain.kind = static_cast<target::TargetKind>(77);
  lower::add_pipeline(plain.kind, &pipeline);
  auto lowered = lower::lower(parsed(kKernel), plain, ir::Stage::kLowered, std::make_shared<Arena>());
  REQUIRE(lowered.has_value());
  CHECK(lowered->stage == ir::Stage::kLowered);
  CHECK(ir::print(*lowered).find("block") == std::string::npos);
  CHECK(lower::check_limits(*lowered, plain).has_value());
}

TEST_CASE("what one test decides shares it, and loops end where nothing is left to do", "[lower]") {
  // Two tiles of 128 keys of which 69 are in the last: rows are read, and sums made.
  const ir::Kernel nest = parsed(R"(kernel nest {
  input x: f32[197, 8]
  output y: f32[197, 8]
  for tile in 2 parallel {
    for a in 16 {
      for b in 8 {
        for c in 8 vectorized {
          if tile*128 + a*8 + b < 197 {
            y[tile*128 + a*8 + b, c] = x[tile*128 + a*8 + b, c]
          }
        }
      }
    }
  }
}
)");
  auto arena = std::make_shared<Arena>();
  auto target = target::find_target("x86-64-v4");
  REQUIRE(target);
  const ir::Legal<ir::Kernel> lowered = lower::lower(nest, *target, ir::Stage::kLowered, arena);
  REQUIRE(lowered);
  const std::string text = ir::print(*lowered);
  INFO(text);
  // Sixteen whole groups; of the last tile nine, the last one of five rows.
  CHECK(text.find("in 16 ") != std::string::npos);
  CHECK(text.find("in 9 ") != std::string::npos);
  CHECK(text.find("in 5 ") != std::string::npos);
  CHECK(text.find("vectorized {\n          if") == std::string::npos);
}

TEST_CASE("the last tile of a map begins earlier where the schedule asks for that", "[lower]") {
  const auto lowered = [](const char* value, int tail) {
    const ir::Kernel nest = parsed(fmt::format(R"(kernel nest {{
  input x: f32[100]
  output y: f32[100]
  for a in 7 parallel @tail({}) {{
    for b in 16 vectorized {{
      if a*16 + b < 100 {{
        y[a*16 + b] = {}
      }}
    }}
  }}
}}
)",
                                               tail, value)
                                       .c_str());
    auto arena = std::make_shared<Arena>();
    const ir::Legal<ir::Kernel> k = lower::lower(nest, *target::find_target("x86-64-v4"), ir::Stage::kLowered, arena);
    REQUIRE(k);
    return ir::print(*k);
  };
  const std::string map = lowered("x[a*16 + b]", 3);
  CHECK(map.find("min(84, a*16)") != std::string::npos);
  CHECK(map.find("if ") == std::string::npos);
  // Elements that are read and written again may not be stored twice; without the annotation they are not.
  CHECK(lowered("y[a*16 + b] + x[a*16 + b]", 3).find("min(") == std::string::npos);
  CHECK(lowered("x[a*16 + b]", 1).find("min(") == std::string::npos);
}
