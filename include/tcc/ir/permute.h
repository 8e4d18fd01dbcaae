// Moves data between its logical row-major form and the place a layout gives it: what measuring does with a candidate's
// weights and package with the chosen ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tcc/ir/layout.h"

namespace tcc::ir {

// `logical` holds the elements row-major over layout.shape; `physical` has layout.size elements and is zero where no
// element lives. Pure address layouts only.
void to_physical(const Layout& layout, std::span<const std::byte> logical, std::span<std::byte> physical,
                 int64_t elem_bytes);
// The reverse; holes are dropped.
void to_logical(const Layout& layout, std::span<const std::byte> physical, std::span<std::byte> logical,
                int64_t elem_bytes);

}  // namespace tcc::ir
