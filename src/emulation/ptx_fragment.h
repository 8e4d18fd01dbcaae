// Fragments of matrix instructions: which register of which lane holds which element.
#pragma once

#include <vector>

#include "emulation/ptx_machine.h"
#include "emulation/ptx_select.h"
#include "tcc/ir/type.h"

namespace tcc::emulation {

// Where an operand's elements are, row-major over its tile.
struct Fragment {
  int64_t rows = 0, columns = 0;
  ir::Type type = ir::Type::kF32;
  int registers = 0;  // 32 bits each
  struct At {
    uint8_t lane, reg, part;
  };
  std::vector<At> at;
};
// Elements in order of the tile; `tf32` cuts the mantissa to ten bits as the hardware does.
void gather(const Warp& w, const Fragment& f, const int32_t* places, bool tf32, std::vector<double>& out);
// Rounded to the fragment's type.
void scatter(Warp& w, const Fragment& f, const int32_t* places, const std::vector<double>& values);
// c[m, n] += a[m, k] * b[k, n], all row-major.
void add_product(const std::vector<double>& a, const std::vector<double>& b, std::vector<double>& c, int64_t m,
                 int64_t n, int64_t k);

// The places of a vector operand's `count` registers of 32 bits go to KernelCode::extra.
void take_registers(Selector& x, size_t n, int count, bool result);

}  // namespace tcc::emulation
