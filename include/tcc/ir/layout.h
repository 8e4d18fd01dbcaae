// One layout algebra: mixed-radix split and permutation of dimensions, padding, xor of bit fields and, for distributed
// buffers, the map to warp, lane and register.
//
// A layout maps a logical index (i_0 .. i_{n-1}) to a place:
//   each digit d takes the value (i[d.dim] / d.divisor) % d.extent (extent 0: no modulo, the outermost digit of its
//   dim) and adds value * d.stride to the coordinate d.place; then every xor x is applied to the address, in order: a
//   ^= ((a >> x.from_shift) & x.mask) << x.to_shift.
// `size` counts elements of the physical space, padding included. A missing layout (nullptr) is row-major.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tcc/support/arena.h"
#include "tcc/support/result.h"

namespace tcc::ir {

enum class Place : uint8_t { kAddress, kWarp, kLane, kRegister };

struct Digit {
  int32_t dim;
  int64_t divisor;
  int64_t extent;
  Place place;
  int64_t stride;  // in elements of the coordinate
  bool operator==(const Digit&) const = default;
};
struct XorField {
  int32_t from_shift, to_shift;  // bit positions in element addresses
  int64_t mask;
  bool operator==(const XorField&) const = default;
};
struct Layout {
  std::span<const int64_t> shape;  // logical
  std::span<const Digit> digits;   // outermost first
  std::span<const XorField> xors;
  int64_t size;
};

struct PhysicalIndex {
  int64_t address = 0, warp = 0, lane = 0, reg = 0;
  bool operator==(const PhysicalIndex&) const = default;
};

// Where a logical index lives.
PhysicalIndex apply(const Layout& layout, std::span<const int64_t> index);
// Row-major with the stride of `dim` grown to the next number that is `offset` modulo `factor`.
const Layout* make_padded(Arena& arena, std::span<const int64_t> shape, int32_t dim, int64_t factor, int64_t offset);
// Blocked: dimension order `order` over the outer parts, then the inner tiles given as (dim, tile) in order; extents
// are padded up to whole tiles. NCHW16c is blocked({N,C,H,W}, order {0,1,2,3}, tiles {(1,16)}).
// Numbers in `order` from the rank on place tiles among the outer parts, the first tile being number `rank`; tiles that
// `order` does not name are innermost.
const Layout* make_blocked(Arena& arena, std::span<const int64_t> shape, std::span<const int32_t> order,
                           std::span<const std::pair<int32_t, int64_t>> tiles);
const Layout* with_xor(Arena& arena, const Layout& layout, XorField field);
const Layout* copy_layout(Arena& arena, const Layout& layout);
// second after first: `first` must be a pure address layout whose size is second's (1-D) shape.
std::optional<const Layout*> compose(Arena& arena, const Layout& first, const Layout& second);
// True when distinct logical indices get distinct places (checked on digits; exact).
bool is_injective(const Layout& layout);
// Logical index of an address for injective address layouts without padding holes; nullopt for holes.
std::optional<std::vector<int64_t>> invert(const Layout& layout, const PhysicalIndex& at);
// Largest power of two dividing every address reached by multiples of `step` in `dim`.
int64_t alignment(const Layout& layout, int32_t dim, int64_t step);

bool equal(const Layout& a, const Layout& b);
uint64_t hash_layout(const Layout& layout);
// Text, for example "layout[512,512]{1/32%0@addr*16384, 0/1%0@addr*32, 1/1%32@addr*1} xor(3->0&7) size 262144".
std::string print_layout(const Layout& layout);
Result<const Layout*> parse_layout(Arena& arena, std::string_view text);

}  // namespace tcc::ir
