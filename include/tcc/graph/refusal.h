// What tcc does not do: a closed list of reasons, so that every refusal can be counted and checked.
#pragma once

#include <optional>
#include <string_view>

#include "tcc/support/result.h"

namespace tcc::graph {

// X(enumerator, code, what it means)
#define TCC_GRAPH_REFUSALS(X)                                                                            \
  X(kOperator, "operator", "the operator is not supported in this version")                              \
  X(kElementType, "element-type", "the element type is not supported, or not by this operator")          \
  X(kNotATensor, "not-a-tensor", "sequences, maps, optionals and sparse tensors are not supported")      \
  X(kRunTimeShape, "run-time-shape", "shapes, axes and counts must be known when the model is compiled") \
  X(kTraining, "training", "operators in training mode are not supported")                               \
  X(kAttribute, "attribute", "the operator does not support this attribute value or mode")               \
  X(kExtraOutput, "extra-output", "this optional output of the operator is not supported")               \
  X(kNoElements, "no-elements", "kernels are made only for tensors with at least one element")           \
  X(kTooLarge, "too-large", "the tensor, rank or table is beyond the supported size")

enum class Refusal {
#define X(enumerator, code, meaning) enumerator,
  TCC_GRAPH_REFUSALS(X)
#undef X
};

std::string_view refusal_code(Refusal reason);
std::string_view refusal_meaning(Refusal reason);

// An input error that carries the reason, as its last note.
tl::unexpected<Error> refusal(Refusal reason, std::string message, std::string hint = {},
                              std::vector<std::string> notes = {});
template <class... Args>
tl::unexpected<Error> refuse(Refusal reason, fmt::format_string<Args...> format, Args&&... args) {
  return refusal(reason, fmt::format(format, std::forward<Args>(args)...));
}
// The reason that an error carries; nothing for other errors.
std::optional<Refusal> refusal_of(const Error& error);

}  // namespace tcc::graph
