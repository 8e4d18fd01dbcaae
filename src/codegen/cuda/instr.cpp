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

struct AsmOperands {
  std::vector<std::string> outputs, inputs;  // "\"=f\"(x)"
};

bool is_word(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

}  // namespace

void Emitter::instr(const InstrCall& s) {
  const Instruction& row = instruction(s.instr);
  if (row.ptx.empty()) return fail(fmt::format("instruction {} has no CUDA form", row.name));
  if (!has_feature(target_.cuda.features, row.feature))
    return fail(fmt::format("instruction {} needs {}, which {} does not have", row.name, row.feature, target_.name));
  AsmOperands io;
  // For each row operand: how its text reads, with OUT<n> and IN<n> for the places that get their number at the end.
  std::vector<std::string> texts;
  for (size_t i = 0; i < s.operands.size(); ++i) {
    const OperandSpec& spec = row.operands[i];
    const Operand& operand = s.operands[i];
    const Buffer& target = buffer(operand.buffer);
    const std::string place = name(operand.buffer) + " + " + address(target, operand.indices);
    if (spec.scope != Scope::kLocal) {
      const bool shared = spec.scope == Scope::kShared || spec.scope == Scope::kClusterShared;
      io.inputs.push_back(shared ? fmt::format("\"r\"(tcc_shared_address({}))", place) : fmt::format("\"l\"({})", place));
      texts.push_back(fmt::format("IN<{}>", io.inputs.size() - 1));
      continue;
    }
    const int64_t bytes = type_bytes(spec.type);
    const int64_t words = std::max<int64_t>(registers_per_lane(spec) * bytes / 4, 1);
    // Fragments that are only read are .b32 whatever their type.
    const bool as_bits = bytes < 4 || (spec.type == Type::kF32 && !spec.layout.empty() && spec.access == Access::kRead);
    const char constraint = spec.type == Type::kF32 && !as_bits ? 'f' : 'r';
    std::string list;
    for (int64_t w = 0; w < words; ++w) {
      std::string value = as_bits ? fmt::format("*((unsigned*)({}) + {})", place, w) : fmt::format("*({} + {})", place, w);
      list += list.empty() ? "" : ", ";
      if (spec.access == Access::kRead) {
        io.inputs.push_back(fmt::format("\"{}\"({})", constraint, value));
        list += fmt::format("IN<{}>", io.inputs.size() - 1);
      } else {
        io.outputs.push_back(fmt::format("\"{}{}\"({})", spec.access == Access::kWrite ? '=' : '+', constraint, value));
        list += fmt::format("OUT<{}>", io.outputs.size() - 1);
      }
    }
    texts.push_back(words == 1 && spec.layout.empty() ? list : "{" + list + "}");
  }
  std::string body;
  for (size_t i = 0; i < row.ptx.size();) {
    const char c = row.ptx[i];
    size_t end = i + 1;
    while ((c == '$' || c == '%') && end < row.ptx.size() && is_word(row.ptx[end])) ++end;
    const std::string_view word = row.ptx.substr(i + 1, end - i - 1);
    if (c == '$') {
      const size_t n = static_cast<size_t>(word[0] - '0');
      TCC_CHECK(word.size() == 1 && n < s.args.size(), "{}: {}", row.name, row.ptx);
      Expr arg = s.args[n];
      if (row.behaviour == Behaviour::kShuffle && n != 1) {
        // The mode is part of the opcode; a width becomes the clamp and segment mask of the PTX manual, "shfl.sync".
        static constexpr const char* kModes[] = {"idx", "up", "down", "bfly"};
        TCC_CHECK(is_int(s.args[0]) && is_int(s.args[2]), "{} needs a constant mode and width", row.name);
        const int64_t mode = int_value(s.args[0]), width = int_value(s.args[2]);
        body += n == 0 ? kModes[mode] : std::to_string(((32 - width) << 8) | (mode == 1 ? 0 : 31));
      } else if (is_int(arg)) {
        body += std::to_string(int_value(arg));
      } else {
        io.inputs.push_back(fmt::format("\"r\"((int){})", expr(arg)));
        body += fmt::format("IN<{}>", io.inputs.size() - 1);
      }
    } else if (c == '%') {
      size_t k = 0;
      while (k < row.operands.size() && row.operands[k].name != word) ++k;
      TCC_CHECK(k < row.operands.size(), "{}: no operand '{}'", row.name, word);
      body += texts[k];
    } else {
      body += c;
    }
    i = end;
  }
  auto number = [&](const std::string& tag, size_t base) {
    for (size_t at = body.find(tag); at != std::string::npos; at = body.find(tag, at)) {
      const size_t end = body.find('>', at);
      const size_t n = std::stoul(body.substr(at + tag.size(), end - at - tag.size()));
      body.replace(at, end - at + 1, fmt::format("%{}", base + n));
    }
  };
  number("OUT<", 0);
  number("IN<", io.outputs.size());
  auto join = [](const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& p : parts) text += (text.empty() ? "" : ", ") + p;
    return text;
  };
  const std::string guard = s.predicate != nullptr ? "if (" + expr(s.predicate) + ") " : "";
  line(fmt::format("{}asm volatile(\"{}\" : {} : {} : \"memory\");", guard, body, join(io.outputs), join(io.inputs)));
}

}  // namespace tcc::codegen::cuda
