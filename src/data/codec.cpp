#include "data/codec.h"

#include <algorithm>
#include <cmath>

namespace tcc::data {

using schedule::Input;
using schedule::Instruction;

void write_names(Writer& out) {
  out.number(schedule::op_table().size());
  for (const schedule::OpRow& row : schedule::op_table()) out.text(row.name);
}

OpNumbers read_names(Reader& in) {
  OpNumbers ops(in.count(kMaxNumbers));
  for (auto& op : ops) {
    const std::string name = in.text();
    for (const schedule::OpRow& row : schedule::op_table())
      if (row.name == name) op = row.op;
  }
  return ops;
}

void write_trace(Writer& out, const schedule::Trace& trace) {
  out.fixed(schedule::skeleton_hash(trace), 8);
  out.number(trace.instructions.size());
  for (const Instruction& in : trace.instructions) {
    out.number(static_cast<uint64_t>(in.op));
    out.number(in.inputs.size());
    for (const Input& i : in.inputs) {
      out.byte(static_cast<uint8_t>(i.kind));
      if (i.kind != Input::Kind::kInferred) out.integer(i.value);
    }
    out.number(in.attrs.size());
    for (int64_t a : in.attrs) out.integer(a);
    out.text(in.text);
    out.number(static_cast<uint64_t>(in.outputs));
    out.number(static_cast<uint64_t>(in.decision_length));
  }
  out.number(trace.decisions.size());
  for (int64_t d : trace.decisions) out.integer(d);
}

std::optional<schedule::Trace> read_trace(Reader& in, const OpNumbers& ops, std::string& why) {
  schedule::Trace trace;
  const uint64_t hash = in.fixed(8);
  const size_t instructions = in.count(kMaxInstructions);
  size_t decisions = 0;
  for (size_t k = 0; k < instructions && !in.failed(); ++k) {
    Instruction out;
    const uint64_t op = in.number();
    if (op >= ops.size() || !ops[op]) return why = "it has an operation that this version does not know", std::nullopt;
    out.op = *ops[op];
    for (size_t i = in.count(kMaxNumbers); i > 0; --i) {
      const uint8_t kind = in.byte();
      if (kind > static_cast<uint8_t>(Input::Kind::kInferred)) return why = "an input has no kind", std::nullopt;
      Input input{static_cast<Input::Kind>(kind), 0};
      if (input.kind != Input::Kind::kInferred) input.value = in.integer();
      out.inputs.push_back(input);
    }
    for (size_t i = in.count(kMaxNumbers); i > 0; --i) out.attrs.push_back(in.integer());
    out.text = in.text();
    const uint64_t outputs = in.number(), length = in.number();
    if (outputs > kMaxNumbers || length > kMaxNumbers) return why = "a step has too many results", std::nullopt;
    out.first_output = trace.variables;
    out.outputs = static_cast<int>(outputs);
    if (schedule::is_sampling(out.op)) out.decision = static_cast<int>(decisions);
    out.decision_length = static_cast<int>(length);
    if (in.failed()) break;
    if (auto ok = schedule::check_form(out, length, static_cast<size_t>(trace.variables)); !ok)
      return why = ok.error().text, std::nullopt;
    decisions += length;
    trace.variables += out.outputs;
    trace.instructions.push_back(std::move(out));
  }
  for (size_t i = in.count(kMaxNumbers); i > 0; --i) trace.decisions.push_back(in.integer());
  if (in.failed()) return why = "it ends within a schedule", std::nullopt;
  if (trace.decisions.size() != decisions) return why = "a schedule has another number of decisions", std::nullopt;
  if (schedule::skeleton_hash(trace) != hash)
    return why = "a schedule means something else in this version", std::nullopt;
  return trace;
}

namespace {

constexpr int64_t kMaxExtent = 1 << 20;  // of tiles that are written as one number

// The extent of a tile; 0: its decisions are written out.
int64_t extent_of(const Instruction& in, std::span<const int64_t> sketch) {
  if (in.op != schedule::Op::kSamplePerfectTile) return 0;
  int64_t extent = 1;
  for (int64_t f : sketch) {
    if (f < 1 || f > kMaxExtent || extent * f > kMaxExtent) return 0;
    extent *= f;
  }
  return extent;
}

std::vector<int64_t> divisors_of(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      low.push_back(d);
      if (d * d < n) high.push_back(n / d);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// 0: the factors do not divide the extent.
uint64_t rank_of(int64_t extent, std::span<const int64_t> factors) {
  uint64_t rank = 0, radix = 1;
  for (size_t i = factors.size(); i-- > 1;) {
    const std::vector<int64_t> divisors = divisors_of(extent);
    const auto at = std::find(divisors.begin(), divisors.end(), factors[i]);
    if (at == divisors.end() || radix > uint64_t{1} << 40) return 0;
    rank += radix * static_cast<uint64_t>(at - divisors.begin());
    radix *= divisors.size();
    extent /= factors[i];
  }
  return factors[0] == extent ? rank + 1 : 0;
}

bool factors_of(uint64_t rank, int64_t extent, std::span<int64_t> factors) {
  --rank;
  for (size_t i = factors.size(); i-- > 1;) {
    const std::vector<int64_t> divisors = divisors_of(extent);
    factors[i] = divisors[rank % divisors.size()];
    rank /= divisors.size();
    extent /= factors[i];
  }
  factors[0] = extent;
  return rank == 0;
}

}  // namespace

void write_decisions(Writer& out, const schedule::Trace& sketch, std::span<const int64_t> decisions) {
  for (const Instruction& in : sketch.instructions) {
    if (in.decision < 0) continue;
    const auto from = static_cast<size_t>(in.decision), n = static_cast<size_t>(in.decision_length);
    const std::span<const int64_t> mine = decisions.subspan(from, n);
    const int64_t extent = extent_of(in, std::span(sketch.decisions).subspan(from, n));
    const uint64_t rank = extent > 0 ? rank_of(extent, mine) : 0;
    if (extent > 0) out.number(rank);
    if (rank == 0)
      for (int64_t d : mine) out.integer(d);
  }
}

void read_decisions(Reader& in, const schedule::Trace& sketch, std::vector<int64_t>& decisions) {
  decisions.assign(sketch.decisions.size(), 0);
  for (const Instruction& step : sketch.instructions) {
    if (step.decision < 0 || in.failed()) continue;
    const auto from = static_cast<size_t>(step.decision), n = static_cast<size_t>(step.decision_length);
    const std::span<int64_t> mine = std::span(decisions).subspan(from, n);
    const int64_t extent = extent_of(step, std::span(sketch.decisions).subspan(from, n));
    const uint64_t rank = extent > 0 ? in.number() : 0;
    if (rank > 0) {
      if (!factors_of(rank, extent, mine)) return in.fail();
      continue;
    }
    for (int64_t& d : mine) d = in.integer();
  }
}

uint32_t pack_seconds(double seconds) {
  const double steps = std::round((std::log2(std::max(seconds, 1e-12)) + 40) * 262144);
  return static_cast<uint32_t>(std::clamp(steps, 0.0, static_cast<double>(kFirstFailure - 1)));
}

double unpack_seconds(uint32_t packed) {
  return std::exp2(static_cast<double>(packed) / 262144 - 40);
}

}  // namespace tcc::data
