// Instruction calls: a row is a function of the prelude.
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/prelude.h"
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

}  // namespace

void Emitter::instr(const InstrCall& s) {
  const Instruction& row = instruction(s.instr);
  if (row.ptx.empty()) return fail(fmt::format("instruction {} has no CUDA form", row.name));
  if (!has_feature(target_.cuda.features, row.feature))
    return fail(fmt::format("instruction {} needs {}, which {} does not have", row.name, row.feature, target_.name));
  bool constant = true;
  for (Expr e : s.args) constant = constant && is_int(e);
  std::string immediates, values;
  auto append = [](std::string& list, const std::string& part) { list += (list.empty() ? "" : ", ") + part; };
  for (size_t i = 0; i < s.operands.size(); ++i) {
    const Buffer& target = buffer(s.operands[i].buffer);
    append(values, fmt::format("{} + {}", name(target.id), address(target, s.operands[i].indices)));
  }
  for (size_t n = 0; n < s.args.size(); ++n) {
    if (!is_int(s.args[n]) && is_immediate(row, n))
      return fail(fmt::format("argument {} of instruction {} must be a constant", n, row.name));
    if (constant || is_immediate(row, n))
      append(immediates, fmt::format("({}){}", argument_type(row), int_value(s.args[n])));
    else
      append(values, fmt::format("({}){}", argument_type(row), expr(s.args[n])));
  }
  const std::string guard = s.predicate != nullptr ? "if (" + expr(s.predicate) + ") " : "";
  line(fmt::format("{}{}{}({});", guard, row_function(row), immediates.empty() ? "" : "<" + immediates + ">", values));
}

}  // namespace tcc::codegen::cuda
