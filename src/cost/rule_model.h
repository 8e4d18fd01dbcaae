// The hand-written estimate behind make_rule_model, shared with the tree model. Private to the room.
#pragma once

#include <span>

namespace tcc::cost {

// Minus log2 of the estimated cycles of one row of features::extract.
float rule_score(std::span<const float> row);

}  // namespace tcc::cost
