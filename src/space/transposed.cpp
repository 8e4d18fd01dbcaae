#include "space/transposed.h"

#include <algorithm>

namespace tcc::space {
namespace {

std::optional<size_t> unit_iterator(const NaiveNest& nest, const analysis::Operand& operand) {
  for (size_t i = 0; i < nest.extents.size(); ++i)
    if (nest.extents[i] > 1 && operand.stride[i] == 1) return i;
  return std::nullopt;
}

}  // namespace

std::optional<Transposed> find_transposed(const NaiveNest& nest, int64_t smallest, int64_t woven) {
  const std::optional<size_t> inner = unit_iterator(nest, nest.result);
  if (!inner || nest.is_reduction() || nest.extents[*inner] < smallest) return std::nullopt;
  std::optional<Transposed> found;
  for (const analysis::Operand& o : nest.operands) {
    const std::optional<size_t> outer = unit_iterator(nest, o);
    const bool across = outer && *outer != *inner && o.stride[*inner].value_or(0) > 1;
    if (!across || o.load->predicate != nullptr) continue;
    if (nest.extents[*outer] < (o.stride[*inner] == nest.extents[*outer] ? woven : smallest)) continue;
    if (!found) found = Transposed{*inner, *outer, {}};
    if (found->outer == *outer && std::count(found->operands.begin(), found->operands.end(), o.load->buffer) == 0)
      found->operands.push_back(o.load->buffer);
  }
  return found;
}

}  // namespace tcc::space
