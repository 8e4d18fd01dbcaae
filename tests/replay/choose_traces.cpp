// Makes new files for tests/replay/traces; run by hand: test_replay "[.choose]". Draws programs of every design space
// of tasks of every kind, and keeps as few as have all the properties that any of the drawn ones has: module and
// target, primitive, instruction, element type, kind of loop, annotation. Existing files stay; their properties count
// as covered.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "sample_tasks.h"
#include "space/int_product.h"
#include "stored.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "traces/byte_product.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

constexpr size_t kLongestText = 600'000;  // bytes of generated code: longer ones take seconds

struct Subject {
  task::Task task;
  std::vector<std::string> targets;
  bool tf32 = false;
};

const std::vector<std::string> kPlain = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "t4", "a100"};
const std::vector<std::string> kHalf = {"x86-64-v3", "x86-64-v4", "v100", "t4", "a100", "h100"};
const std::vector<std::string> kBrain = {"x86-64-v3", "x86-64-v4 +avx512_bf16",
                                         "x86-64-v4 +avx512_bf16 +amx_tile +amx_bf16 +amx_int8", "a100", "h200"};
const std::vector<std::string> kBytes = {"x86-64-v3 +avx_vnni", "x86-64-v4 +avx512_vnni",
                                         "x86-64-v4 +avx512_vnni +amx_tile +amx_bf16 +amx_int8", "t4", "a100"};

std::vector<Subject> subjects() {
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  std::vector<Subject> out;
  auto add = [&](task::Task t, const std::vector<std::string>& targets, bool tf32 = false) {
    out.push_back({std::move(t), targets, tf32});
  };
  auto integers = [](std::string_view type, int64_t m, int64_t n, int64_t k) {
    task::Task t;
    t.workload = fmt::format("gemm {}x{}x{} {} by i8, constant", m, n, k, type);
    t.kernel = int_product(type, m, n, k);
    return t;
  };
  add(task::make_gemm({.m = 128, .n = 192, .k = 64, .bias = true, .relu = true, .constant_weights = true}), kPlain);
  add(task::make_gemm({.m = 17, .n = 36, .k = 29, .trans_b = true}), kPlain);
  add(task::make_gemm({.m = 64, .n = 64, .k = 64}), {"a100"}, true);
  add(task::make_gemm({.m = 1, .n = 256, .k = 128, .constant_weights = true}), kPlain);
  add(task::make_gemm({.m = 64, .n = 1, .k = 100}), kPlain);
  add(task::make_gemm({.m = 16, .n = 24, .k = 512, .bias = true}), kPlain);
  add(task::make_gemm({.m = 64, .n = 96, .k = 64, .bias = true, .relu = true, .dtype = half}), kHalf);
  add(task::make_gemm({.m = 33, .n = 27, .k = 41, .trans_a = true, .dtype = half}), kHalf);
  add(task::make_gemm({.m = 256, .n = 128, .k = 512, .bias = true, .dtype = half}), {"h100", "h200 sm_count=2"});
  add(task::make_gemm({.m = 130, .n = 96, .k = 144, .trans_b = true, .dtype = brain}), {"h200", "h200 sm_count=2"});
  add(task::make_gemm({.m = 64, .n = 64, .k = 96, .bias = true, .constant_weights = true, .dtype = brain}), kBrain);
  add(task::make_gemm({.m = 33, .n = 40, .k = 16, .trans_b = true, .dtype = brain}), kBrain);
  add(make_byte_product(32, 16, 96, true), kBytes);
  add(integers("u8", 32, 48, 64), kBytes);
  add(integers("i8", 17, 35, 100), kBytes);
  add(make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{3, 20, 34}, {3, 34, 18}}), kPlain);
  add(make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{2, 70, 136}, {2, 136, 72}}, half), {"h200", "a100"});
  add(task::make_conv({.channels = 16,
                       .filters = 32,
                       .size = {14, 14},
                       .kernel = {3, 3},
                       .pads = {1, 1},
                       .bias = true,
                       .relu = true}),
      kPlain);
  add(task::make_conv({.channels = 3, .filters = 16, .size = {19}, .kernel = {4}, .strides = {2}}), kPlain);
  add(task::make_conv({.channels = 16, .filters = 24, .size = {7, 7}, .kernel = {1, 1}, .residual = true}), kPlain);
  add(task::make_conv({.channels = 16, .filters = 16, .size = {9, 9}, .kernel = {1, 1}, .strides = {2, 2}}), kPlain);
  add(task::make_conv({.channels = 16,
                       .filters = 32,
                       .size = {7, 9},
                       .kernel = {3, 3},
                       .pads = {1, 1},
                       .bias = true,
                       .relu = true,
                       .residual = true,
                       .block_in = 8,
                       .block_out = 8}),
      {"x86-64-v3"});
  add(task::make_conv(
          {.channels = 3, .filters = 32, .size = {11, 13}, .kernel = {5, 5}, .pads = {2, 2}, .block_out = 16}),
      {"x86-64-v4"});
  add(task::make_conv({.channels = 16, .filters = 16, .group = 16, .size = {8, 12}, .kernel = {3, 3}, .pads = {1, 1}}),
      kPlain);
  add(task::make_conv({.channels = 2, .filters = 3, .size = {4, 5, 6}, .kernel = {3, 3, 3}, .pads = {1, 1, 1}}),
      kPlain);
  add(task::make_conv({.batch = 2,
                       .channels = 5,
                       .filters = 18,
                       .size = {7, 6},
                       .kernel = {3, 3},
                       .pads = {1, 1},
                       .bias = true,
                       .dtype = half}),
      kHalf);
  add(make_transposed_conv(), kPlain);
  add(task::make_pool({.channels = 8, .size = {9, 9}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1}}), kPlain);
  add(task::make_pool({.average = true, .channels = 5, .size = {7, 7}, .kernel = {7, 7}}), kPlain);
  add(task::make_softmax({32, 100}, 1), kPlain);
  add(task::make_softmax({2, 12, 5}, 1), kPlain);
  add(task::make_reduction({5, 240}, {1}, graph::Op::kReduceSum), kPlain);
  add(task::make_reduction({64, 48}, {0}, graph::Op::kReduceMax), kPlain);
  add(task::make_reduction({4000}, {0}, graph::Op::kReduceSum), kPlain);
  add(make_operator(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5}, {{16, 96}, {96}, {96}}), kPlain);
  add(make_operator(graph::Op::kTranspose, graph::TransposeAttrs{{1, 0}}, {{40, 56}}), kPlain);
  add(task::make_attention({.heads = 2, .queries = 32, .keys = 48, .depth = 16, .mask = true}), kPlain);
  add(task::make_attention({.heads = 2, .queries = 64, .keys = 64, .depth = 32, .dtype = half}), kHalf);
  add(task::make_attention({.heads = 1, .queries = 33, .keys = 70, .depth = 64, .mask = true, .dtype = brain}), kBrain);
  add(task::make_elementwise({3, 5, 70}), kPlain);
  return out;
}

struct State {
  schedule::Schedule schedule;
  std::set<std::string> modules;  // that made some of its instructions
};

std::vector<State> design_spaces(const Subject& subject, const target::Target& target, Rng& rng) {
  space::SpaceOptions options;
  options.gpu.allow_tf32 = subject.tf32;
  std::vector<State> states = {{schedule::Schedule(subject.task.kernel, std::make_shared<Arena>(), &rng), {}}};
  for (const auto& module : space::modules_for(target).modules) {
    std::vector<State> next;
    for (const State& state : states) {
      space::Ways ways = module.apply(state.schedule, target, options);
      for (schedule::Schedule& s : ways.states) {
        std::set<std::string> modules = state.modules;
        if (s.trace().instructions.size() > state.schedule.trace().instructions.size())
          modules.insert(fmt::format("{} on {}", module.name, target.name));
        next.push_back({std::move(s), std::move(modules)});
      }
    }
    states = std::move(next);
  }
  return states;
}

void add_properties(const ir::Kernel& k, bool lowered, std::set<std::string>& out) {
  for (const ir::Buffer* b : k.buffers)
    if (!lowered) out.insert(fmt::format("type {}", ir::type_name(b->type)));
  ir::visit(k.root, [&](ir::Stmt s) {
    if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s))
      out.insert(fmt::format("instruction {}", ir::instruction(call->instr).name));
    if (const ir::Loop* l = ir::as<ir::Loop>(s); l != nullptr && !lowered) {
      out.insert(fmt::format("loop {} {}", ir::loop_kind_name(l->loop_kind), ir::axis_name(l->axis)));
      for (const ir::Annotation& a : l->annotations)
        out.insert(fmt::format("annotation {}", ir::annotation_name(a.key)));
    }
    return true;
  });
}

struct Candidate {
  StoredTrace stored;
  std::set<std::string> properties;
  size_t length = 0;
};

void draw_candidates(const Subject& subject, const std::string& target_text, std::vector<Candidate>& out) {
  auto target = stored_target(target_text);
  REQUIRE(target.has_value());
  Rng rng(7);
  std::set<uint64_t> seen;
  for (const State& state : design_spaces(subject, *target, rng)) {
    if (!state.schedule.ok() || !seen.insert(schedule::skeleton_hash(state.schedule.trace())).second) continue;
    schedule::Trace trace = state.schedule.trace();
    int made = 0;
    for (int draw = 0; draw < 60 && made < 2; ++draw) {
      if (draw > 0 && !schedule::sample(trace, trace.decisions, subject.task.kernel, std::make_shared<Arena>(), rng))
        continue;
      // The kernel as it is read from the file: ids may differ from those of the task.
      const std::string kernel_text = ir::print(subject.task.kernel);
      auto kernel = ir::parse(kernel_text);
      REQUIRE(kernel.has_value());
      auto code = generate_code(*kernel, trace, *target);
      if (!code || code->text.size() > kLongestText) continue;
      ++made;
      Candidate c;
      c.properties = state.modules;
      add_properties(code->nest, false, c.properties);
      add_properties(code->lowered, true, c.properties);
      for (const schedule::Instruction& in : trace.instructions)
        c.properties.insert(
            fmt::format("primitive {} for {}", schedule::op_name(in.op), target->is_cpu() ? "cpu" : "gpu"));
      c.stored = {subject.task.workload,
                  target_text,
                  kernel_text,
                  schedule::trace_to_json(trace),
                  fmt::format("{:016x}", hash_bytes(code->text)),
                  hashes_of(trace, *kernel, code->nest),
                  {}};
      c.length = code->text.size();
      out.push_back(std::move(c));
    }
  }
}

std::string file_name(const StoredTrace& stored, int number) {
  std::string name = fmt::format("{:03}_{}_{}", number, stored.workload.substr(0, 24), stored.target.substr(0, 9));
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name + ".json";
}

}  // namespace

TEST_CASE("choose traces to store", "[.choose]") {
  const std::string folder = std::string(TCC_SOURCE_DIR) + "/tests/replay/traces";
  std::set<std::string> covered;
  int number = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    auto stored = read_stored(entry.path().string());
    if (!stored) FAIL(stored.error().message);
    covered.insert(stored->covers.begin(), stored->covers.end());
    number = std::max(number, std::stoi(entry.path().stem().string().substr(0, 3)));
  }
  std::vector<Candidate> candidates;
  for (const Subject& subject : subjects())
    for (const std::string& target : subject.targets) draw_candidates(subject, target, candidates);
  std::set<std::string> all;
  for (const Candidate& c : candidates) all.insert(c.properties.begin(), c.properties.end());
  int chosen = 0;
  while (true) {
    auto fresh = [&](const Candidate& c) {
      return std::count_if(c.properties.begin(), c.properties.end(),
                           [&](const std::string& p) { return covered.count(p) == 0; });
    };
    auto best = std::max_element(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
      return std::pair(fresh(a), -static_cast<int64_t>(a.length)) <
             std::pair(fresh(b), -static_cast<int64_t>(b.length));
    });
    if (best == candidates.end() || fresh(*best) == 0) break;
    best->stored.covers.assign(best->properties.begin(), best->properties.end());
    covered.insert(best->properties.begin(), best->properties.end());
    REQUIRE(write_file(folder + "/" + file_name(best->stored, ++number), print_stored(best->stored)).has_value());
    ++chosen;
  }
  WARN(fmt::format("{} candidates with {} properties: {} files made", candidates.size(), all.size(), chosen));
}
