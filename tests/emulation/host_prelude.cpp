#include "emulation/host_prelude.h"

#include <algorithm>

#include "codegen/cuda/emitter.h"
#include "codegen/cuda/prelude.h"
#include "tcc/support/check.h"

namespace tcc::testing {
namespace {

using namespace ir;
using namespace codegen::cuda;

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& p : parts) text += (text.empty() ? "" : ", ") + p;
  return text;
}

// The semantics over pointers of any kind, then over tiles in plain memory.
std::string compute_functions(const Instruction& row, int32_t number) {
  const Kernel& kernel = instruction_semantics(number);
  std::unordered_map<Id, std::string> scalars;
  for (size_t n = 0; n < kernel.scalars.size(); ++n) scalars[kernel.scalars[n].id] = fmt::format("a[{}]", n);
  static const target::Target target = target::find_target("h200").value();
  Emitter emitter(kernel, target, {});
  auto body = emitter.statement(kernel.root, scalars);
  TCC_CHECK(body.has_value(), "{}: {}", row.name, body ? "" : body.error().message);
  std::vector<std::string> kinds, parameters, tiles;
  for (size_t o = 0; o < row.operands.size(); ++o) {
    kinds.push_back(fmt::format("class P{}", o));
    parameters.push_back(fmt::format("P{} {}", o, emitter.name_of(kernel.buffers[o]->id)));
    tiles.push_back(fmt::format("({})tiles[{}]", operand_pointer(row.operands[o]), o));
  }
  std::string text = fmt::format("template <{}>\nstatic void tcc_compute_{}({}, const long long* a) {{\n{}}}\n",
                                 join(kinds), number, join(parameters), *body);
  if (row.participants != Participants::kThread)
    text += fmt::format(
        "static void tcc_tiles_{0}(void* const* tiles, const long long* a) {{ tcc_compute_{0}({1}, a); }}\n", number,
        join(tiles));
  return text;
}

// A row of one thread works on its operands where they are: now, or when the thread has waited for it.
std::string thread_compute(const Instruction& row, int32_t number, const std::string& operands) {
  const std::string call = fmt::format("tcc_compute_{}({}, ", number, operands);
  if (row.completion == Completion::kImmediate) return "  " + call + "a);\n";
  std::string fields, places;
  for (const OperandSpec& o : row.operands) {
    fields +=
        fmt::format("tcc_pointer<{}{}> {}; ", o.access == Access::kRead ? "const " : "", memory_type(o.type), o.name);
    places += (places.empty() ? "c." : ", c.") + std::string(o.name);
  }
  int64_t elements = 1;
  for (int32_t d = 0; d < row.operands[0].rank; ++d) elements *= row.operands[0].tile[d];
  return fmt::format(
      "  struct Closure {{ {}long long a[{}]; }} closure{{{}}};\n"
      "  std::memcpy(closure.a, a, sizeof closure.a);\n"
      "  tcc_host->defer(line, o, {}, [](const void* p) {{ const Closure& c = *(const Closure*)p; tcc_compute_{}({}, "
      "c.a); }}, &closure, sizeof closure);\n",
      fields, row.num_args + 1, operands, elements, number, places);
}

// The parameters of an operand. rank: of tensor maps.
std::string parameter_of(const Instruction& row, const OperandSpec& o, size_t rank) {
  if (is_tensor_map(row, o)) {
    std::string text = fmt::format("const tcc_tensor_map& {}", o.name);
    for (size_t d = 0; d < rank; ++d) text += fmt::format(", int {}{}", o.name, d);
    return text;
  }
  if (is_matrix(row, o)) return fmt::format("tcc_matrix {}", o.name);
  if (o.scope == Scope::kLocal) return fmt::format("{} {}", operand_pointer(o), o.name);
  return fmt::format("tcc_pointer<{}{}> {}{}", o.access == Access::kRead ? "const " : "", memory_type(o.type), o.name,
                     has_pitch(row, o) ? fmt::format(", int {}_pitch", o.name) : "");
}

// The box as a value beside the parameters.
std::string box_of(const OperandSpec& o, size_t rank) {
  std::string at;
  for (size_t d = 0; d < rank; ++d) at += fmt::format("{}{}{}", d == 0 ? "" : ", ", o.name, d);
  return fmt::format("  const TccBox box_{0} = {{{0}.number, {1}, {{{2}}}}};\n", o.name, rank, at);
}

std::string function(const Instruction& row, int32_t number, bool run_time, size_t rank) {
  std::vector<std::string> immediates, parameters, names, operands, arguments;
  std::string boxes;
  for (const OperandSpec& o : row.operands) {
    const bool map = is_tensor_map(row, o);
    parameters.push_back(parameter_of(row, o, rank));
    if (map) boxes += box_of(o, rank);
    names.emplace_back(o.name);
    operands.push_back(fmt::format("tcc_operand({}{}{})", map ? "box_" : "", o.name,
                                   has_pitch(row, o) ? fmt::format(", {}_pitch", o.name) : ""));
  }
  for (size_t n = 0; n < static_cast<size_t>(row.num_args); ++n) {
    const bool value = run_time && !is_immediate(row, n);
    (value ? parameters : immediates).push_back(fmt::format("{} {}{}", argument_type(row), value ? "v" : "I", n));
    arguments.push_back(fmt::format("{}{}", value ? "v" : "I", n));
  }
  parameters.push_back("TccLine line = __builtin_LINE()");
  std::string text = immediates.empty() ? "" : fmt::format("template <{}>\n", join(immediates));
  text += fmt::format("TCC_DEVICE void {}({}) {{\n", row_function(row), join(parameters));
  operands.emplace_back("TccOperand{}");
  arguments.emplace_back("0");
  text += boxes;
  text += fmt::format("  const TccOperand o[] = {{{}}};\n  const long long a[] = {{{}}};\n", join(operands),
                      join(arguments));
  const bool computes = row.behaviour == Behaviour::kCompute && rank == 0;
  if (computes && row.participants == Participants::kThread)
    text += thread_compute(row, number, join(names));
  else
    text += fmt::format("  tcc_host->row({}, line, o, a, {});\n", number,
                        computes ? fmt::format("tcc_tiles_{}", number) : "nullptr");
  return text + "}\n";
}

std::string make_prelude() {
  std::string text = "#define TCC_HOST_SOURCE\n#include \"emulation/host_device.h\"\n";
  const std::span<const Instruction> table = instruction_table();
  for (size_t i = 0; i < table.size(); ++i) {
    const Instruction& row = table[i];
    const auto number = static_cast<int32_t>(i);
    if (row.ptx.empty()) continue;
    const bool maps = std::any_of(row.operands.begin(), row.operands.end(),
                                  [&](const OperandSpec& o) { return is_tensor_map(row, o); });
    // What a bulk copy does is in its tensor map.
    if (row.behaviour == Behaviour::kCompute && !maps) text += compute_functions(row, number);
    bool any = false;
    for (size_t n = 0; n < static_cast<size_t>(row.num_args); ++n) any = any || !is_immediate(row, n);
    for (size_t rank = maps ? kMinMapRank : 0; rank <= (maps ? kMaxMapRank : 0); ++rank) {
      text += function(row, number, false, rank);
      if (any) text += function(row, number, true, rank);
    }
  }
  return text;
}

}  // namespace

const std::string& host_prelude() {
  static const std::string text = make_prelude();
  return text;
}

}  // namespace tcc::testing
