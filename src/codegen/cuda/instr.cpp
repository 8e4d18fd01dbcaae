// Instruction calls: a row is a function of the prelude.
#include "codegen/cuda/address.h"
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
    append(values, operand(s, row, i));
  }
  for (size_t n = 0; n < s.args.size(); ++n) {
    if (!is_int(s.args[n]) && is_immediate(row, n))
      return fail(fmt::format("argument {} of instruction {} must be a constant", n, row.name));
    if (constant || is_immediate(row, n))
      append(immediates, fmt::format("({}){}", argument_type(row), int_value(s.args[n])));
    else
      append(values, fmt::format("({}){}", argument_type(row), expr(s.args[n])));
  }
  if (row.behaviour == Behaviour::kWgmmaFence) pin_accumulators();
  const std::string guard = s.predicate != nullptr ? "if (" + expr(s.predicate) + ") " : "";
  line(fmt::format("{}{}{}({});", guard, row_function(row), immediates.empty() ? "" : "<" + immediates + ">", values));
  if (row.behaviour == Behaviour::kWgmmaWait) pin_accumulators();
}

std::string Emitter::operand(const InstrCall& s, const Instruction& row, size_t n) {
  const Buffer& b = buffer(s.operands[n].buffer);
  const OperandSpec& spec = row.operands[n];
  if (is_tensor_map(row, spec)) return tensor_map(s, row, n);
  if (has_pitch(row, spec))
    return fmt::format("{} + {}, {}", name(b.id), expr(flat_address(b_, b, s.operands[n].indices)),
                       row_pitch(b, row, spec));
  if (row.proxy != Proxy::kAsync || spec.scope == Scope::kLocal)
    return fmt::format("{} + {}", name(b.id), address(b, s.operands[n].indices));
  // The hardware permutes by itself: it is told where a row begins.
  Expr flat = flat_address(b_, b, s.operands[n].indices);
  return is_matrix(row, spec) ? matrix_tile(b, spec, flat) : fmt::format("{} + {}", name(b.id), expr(flat));
}

// Accumulators that are written asynchronously must not be moved by the compiler between a product and the wait for it.
void Emitter::pin_accumulators() {
  for (Id id : alive_accumulators_) line(fmt::format("tcc_pin({});", name(id)));
}

}  // namespace tcc::codegen::cuda
