// Instruction calls: a row's PTX text becomes one asm statement. In the text `$n` is the n-th argument and `%NAME` an
// operand: a 32-bit address for shared memory, a 64-bit one for global memory, the list of its .b32 registers for a
// `local` operand (elements smaller than 4 bytes share registers in order).
#include <algorithm>

#include "codegen/cuda/emitter.h"
#include "tcc/support/check.h"

namespace tcc::codegen::cuda {

using namespace ir;

namespace {

bool has_feature(const target::CudaFeatures& features, std::string_view name) {
  if (name.empty()) return true;
#define TCC_FEATURE(field) \
  if (name == #field) return features.field;
  TCC_CUDA_FEATURES(TCC_FEATURE)
#undef TCC_FEATURE
  return false;
}

// Elements that one lane holds.
int64_t registers_per_lane(const OperandSpec& spec) {
  if (spec.layout.empty()) {
    int64_t n = 1;
    for (int32_t i = 0; i < spec.rank; ++i) n *= spec.tile[i];
    return n;
  }
  Arena arena;
  auto layout = parse_layout(arena, spec.layout);
  TCC_CHECK(layout.has_value(), "operand layout '{}'", spec.layout);
  int64_t n = 1;
  for (const Digit& d : (*layout)->digits)
    if (d.place == Place::kRegister) n *= d.extent;
  return n;
}

bool is_word(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

void replace_tags(std::string& body, const std::string& tag, size_t base) {
  for (size_t at = body.find(tag); at != std::string::npos; at = body.find(tag, at)) {
    const size_t end = body.find('>', at);
    const size_t n = std::stoul(body.substr(at + tag.size(), end - at - tag.size()));
    body.replace(at, end - at + 1, fmt::format("%{}", base + n));
  }
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& p : parts) text += (text.empty() ? "" : ", ") + p;
  return text;
}

}  // namespace

void Emitter::instr(const InstrCall& s) {
  const Instruction& row = instruction(s.instr);
  if (row.ptx.empty()) return fail(fmt::format("instruction {} has no CUDA form", row.name));
  if (!has_feature(target_.cuda.features, row.feature))
    return fail(fmt::format("instruction {} needs {}, which {} does not have", row.name, row.feature, target_.name));
  AsmStatement a;
  for (size_t i = 0; i < s.operands.size(); ++i) a.operands.push_back(asm_operand(row.operands[i], s.operands[i], a));
  for (size_t i = 0; i < row.ptx.size();) {
    const char c = row.ptx[i];
    size_t end = i + 1;
    while ((c == '$' || c == '%') && end < row.ptx.size() && is_word(row.ptx[end])) ++end;
    const std::string_view word = row.ptx.substr(i + 1, end - i - 1);
    if (c == '$') {
      const size_t n = static_cast<size_t>(word.at(0) - '0');
      TCC_CHECK(word.size() == 1 && n < s.args.size(), "{}: {}", row.name, row.ptx);
      a.body += asm_argument(row, s, n, a);
    } else if (c == '%') {
      size_t k = 0;
      while (k < row.operands.size() && row.operands[k].name != word) ++k;
      TCC_CHECK(k < row.operands.size(), "{}: no operand '{}'", row.name, word);
      a.body += a.operands[k];
    } else {
      a.body += c;
    }
    i = end;
  }
  // Outputs are numbered first.
  replace_tags(a.body, "OUT<", 0);
  replace_tags(a.body, "IN<", a.outputs.size());
  const std::string guard = s.predicate != nullptr ? "if (" + expr(s.predicate) + ") " : "";
  line(fmt::format("{}asm volatile(\"{}\" : {} : {} : \"memory\");", guard, a.body, join(a.outputs), join(a.inputs)));
}

// How an operand reads in the text. OUT<n> and IN<n> stand for places that get their number when all are known.
std::string Emitter::asm_operand(const OperandSpec& spec, const Operand& operand, AsmStatement& a) {
  const Buffer& target = buffer(operand.buffer);
  const std::string place = name(operand.buffer) + " + " + address(target, operand.indices);
  if (spec.scope != Scope::kLocal) {
    const bool shared = spec.scope == Scope::kShared || spec.scope == Scope::kClusterShared;
    a.inputs.push_back(shared ? fmt::format("\"r\"(tcc_shared_address({}))", place) : fmt::format("\"l\"({})", place));
    return fmt::format("IN<{}>", a.inputs.size() - 1);
  }
  const int64_t bytes = type_bytes(spec.type);
  const int64_t words = std::max<int64_t>(registers_per_lane(spec) * bytes / 4, 1);
  // Fragments that are only read are .b32 whatever their type.
  const bool as_bits = bytes < 4 || (spec.type == Type::kF32 && !spec.layout.empty() && spec.access == Access::kRead);
  const char constraint = spec.type == Type::kF32 && !as_bits ? 'f' : 'r';
  std::string list;
  for (int64_t w = 0; w < words; ++w) {
    const std::string value = fmt::format("*({}({}) + {})", as_bits ? "(unsigned*)" : "", place, w);
    list += list.empty() ? "" : ", ";
    if (spec.access == Access::kRead) {
      a.inputs.push_back(fmt::format("\"{}\"({})", constraint, value));
      list += fmt::format("IN<{}>", a.inputs.size() - 1);
    } else {
      a.outputs.push_back(fmt::format("\"{}{}\"({})", spec.access == Access::kWrite ? '=' : '+', constraint, value));
      list += fmt::format("OUT<{}>", a.outputs.size() - 1);
    }
  }
  return words == 1 && spec.layout.empty() ? list : "{" + list + "}";
}

std::string Emitter::asm_argument(const Instruction& row, const InstrCall& s, size_t n, AsmStatement& a) {
  if (row.behaviour == Behaviour::kShuffle && n != 1) {
    // The mode is part of the opcode; a width becomes the clamp and segment mask of the PTX manual, "shfl.sync".
    static constexpr const char* kModes[] = {"idx", "up", "down", "bfly"};
    TCC_CHECK(is_int(s.args[0]) && is_int(s.args[2]), "{} needs a constant mode and width", row.name);
    const int64_t mode = int_value(s.args[0]), width = int_value(s.args[2]);
    return n == 0 ? kModes[mode] : std::to_string(((32 - width) << 8) | (mode == 1 ? 0 : 31));
  }
  // PTX counts whole warps.
  if (row.behaviour == Behaviour::kBarSync && n == 1 && is_int(s.args[n]))
    return std::to_string((int_value(s.args[n]) + 31) / 32 * 32);
  if (is_int(s.args[n])) return std::to_string(int_value(s.args[n]));
  a.inputs.push_back(fmt::format("\"r\"((int){})", expr(s.args[n])));
  return fmt::format("IN<{}>", a.inputs.size() - 1);
}

}  // namespace tcc::codegen::cuda
