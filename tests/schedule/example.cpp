#include "example.h"

#include <catch2/catch.hpp>

#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"

namespace tcc::testing {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

ir::Kernel parse_kernel(const std::string& text, const std::string& where) {
  auto k = ir::parse(text, where);
  if (!k) FAIL(k.error().message << "\n" << text);
  for (const std::string& finding : ir::verify(*k)) FAIL_CHECK(where << ": " << finding << "\n" << text);
  return *k;
}

std::vector<interp::TensorData> inputs_for(const ir::Kernel& k) {
  std::vector<interp::TensorData> out;
  for (const ir::Buffer* b : k.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
    out.push_back(interp::TensorData::make_random_integers(b->type, shape, 11 + out.size()));
  }
  return out;
}

void check_same_outputs(const ir::Kernel& before, const ir::Kernel& after) {
  if (!before.scalars.empty()) return;
  auto run = [](const ir::Kernel& k, std::vector<interp::TensorData>& data) {
    std::vector<interp::TensorData*> params;
    for (interp::TensorData& d : data) params.push_back(&d);
    interp::Options options;
    options.check_races = true;
    interp::Report report = interp::run(k, params, options);
    if (!report.ok()) FAIL_CHECK(report.text() << "\n" << ir::print(k));
  };
  std::vector<interp::TensorData> x = inputs_for(before), y = x;
  run(before, x);
  run(after, y);
  // Integers make sums exact; what goes through exp is rounded in another order by stream_reduction.
  bool rounded = ir::print(before).find("exp(") != std::string::npos;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<double> want = x[i].to_doubles(), got = y[i].to_doubles();
    if (!rounded) CHECK(got == want);
    for (size_t e = 0; rounded && e < want.size(); ++e) CHECK(got[e] == Approx(want[e]).epsilon(1e-5).margin(1e-5));
  }
}

}  // namespace

Result<std::vector<Example>> read_examples(const std::string& text, const std::string& file) {
  std::vector<Example> out;
  std::vector<std::string> lines = split_lines(text);
  std::string section, before, trace;
  bool has_trace = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("## ")) section = lines[i].substr(3);
    if (!lines[i].starts_with("```")) continue;
    std::string kind = lines[i].substr(3), content;
    size_t first = i + 1, end = first;
    while (end < lines.size() && lines[end] != "```") content += lines[end++] + "\n";
    if (end == lines.size()) return input_error("{}:{}: the fence is not closed", file, i + 1);
    i = end;
    if (kind == "before") {
      before = content;
    } else if (kind == "trace") {
      if (before.empty()) return input_error("{}:{}: a trace without a kernel before it", file, first);
      if (has_trace) return input_error("{}:{}: the trace before this one has no outcome", file, first);
      trace = content;
      has_trace = true;
    } else if (kind == "after" || kind == "reject") {
      if (!has_trace) return input_error("{}:{}: an outcome without a trace", file, first);
      out.push_back({section, before, trace, kind == "reject", content, first, end - first});
      has_trace = false;
    }
  }
  if (has_trace) return input_error("{}: the last trace has no outcome", file);
  return out;
}

void check_example(const Example& example, const std::string& file, bool exact) {
  std::string where = fmt::format("{}:{} ({})", file, example.first_line, example.section);
  INFO(where << "\n" << example.trace);
  ir::Kernel before = parse_kernel(example.before, where);
  auto rejected = [&](const std::string& reason, const std::string& text) {
    INFO(reason << "\n" << text);
    CHECK(example.rejected);
    std::vector<std::string> wanted = split_lines(example.expected);
    CHECK(wanted.size() == 2);
    if (wanted.size() == 2) {
      CHECK(wanted[0] == reason);
      CHECK(text.find(wanted[1]) != std::string::npos);
    }
  };
  auto trace = schedule::parse_trace(example.trace);
  if (!trace) return rejected(kUnreadable, trace.error().message);
  auto result = schedule::replay(*trace, trace->decisions, before, std::make_shared<Arena>());
  if (!result) return rejected(std::string(ir::reject_reason_name(result.error().reason)), result.error().text);
  std::string outcome = ir::print(*result);
  INFO(outcome);
  CHECK_FALSE(example.rejected);
  if (example.rejected) return;
  for (const std::string& finding : ir::verify(*result)) FAIL_CHECK(finding);
  check_same_outputs(before, *result);
  if (exact) CHECK(example.expected == outcome);
  CHECK_FALSE(example.expected.empty());
  if (!example.expected.empty())
    CHECK(ir::hash_kernel(parse_kernel(example.expected, where)) == ir::hash_kernel(*result));
}

std::string with_outcomes(const std::string& text, const std::vector<Example>& examples,
                          const std::vector<std::string>& outcomes) {
  std::vector<std::string> lines = split_lines(text);
  std::string out;
  size_t at = 0;
  for (size_t e = 0; e < examples.size(); ++e) {
    for (; at < examples[e].first_line; ++at) out += lines[at] + "\n";
    out += outcomes[e];
    at += examples[e].lines;
  }
  for (; at < lines.size(); ++at) out += lines[at] + "\n";
  return out;
}

}  // namespace tcc::testing
