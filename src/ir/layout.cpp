// The layout algebra.
#include "tcc/ir/layout.h"

#include "tcc/ir/names.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>

#include "ir/layout_parser.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::ir {
namespace {

int64_t apply_xor(const XorField& x, int64_t address) {
  return address ^ (((address >> x.from_shift) & x.mask) << x.to_shift);
}
// Shifting by from - to bits in one direction only is invertible: substitute until nothing changes.
int64_t undo_xor(const XorField& x, int64_t address) {
  int64_t source = address;
  for (int i = 0; i < 64; ++i) {
    int64_t next = address ^ (((source >> x.from_shift) & x.mask) << x.to_shift);
    if (next == source) break;
    source = next;
  }
  return source;
}

int64_t& coordinate(PhysicalIndex& at, Place place) {
  switch (place) {
    case Place::kAddress:
      return at.address;
    case Place::kWarp:
      return at.warp;
    case Place::kLane:
      return at.lane;
    case Place::kRegister:
      return at.reg;
  }
  return at.address;
}

// How many values a digit takes over the logical shape.
int64_t digit_count(const Layout& layout, const Digit& d) {
  int64_t extent = layout.shape[static_cast<size_t>(d.dim)];
  int64_t values = (extent + d.divisor - 1) / d.divisor;
  return d.extent == 0 ? values : std::min(values, d.extent);
}

// Digits of each dimension by rising divisor form a mixed radix that covers the dimension.
bool is_mixed_radix(const Layout& layout) {
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    std::vector<Digit> own;
    for (const Digit& d : layout.digits)
      if (d.dim == static_cast<int32_t>(dim)) own.push_back(d);
    std::sort(own.begin(), own.end(), [](const Digit& a, const Digit& b) { return a.divisor < b.divisor; });
    int64_t covered = 1;
    for (const Digit& d : own) {
      if (d.divisor != covered) return false;
      covered = d.extent == 0 ? layout.shape[dim] : covered * d.extent;
      covered = std::max(covered, int64_t{1});
    }
    if (covered < layout.shape[dim]) return false;
  }
  return true;
}

struct Range {
  int64_t stride, count;
};
// True when some nonzero vector of differences |d_k| < count_k gives sum d_k * stride_k == residual.
bool differences_reach(std::span<const Range> ranges, std::span<const int64_t> reach_after, size_t k, int64_t residual,
                       bool nonzero) {
  if (k == ranges.size()) return residual == 0 && nonzero;
  int64_t stride = ranges[k].stride, most = ranges[k].count - 1, slack = reach_after[k];
  if (stride == 0) return most > 0 || differences_reach(ranges, reach_after, k + 1, residual, nonzero);
  int64_t centre = -residual / stride, spread = slack / stride + 1;
  for (int64_t d = std::max(-most, centre - spread); d <= std::min(most, centre + spread); ++d) {
    int64_t rest = residual + d * stride;
    if (std::abs(rest) <= slack && differences_reach(ranges, reach_after, k + 1, rest, nonzero || d != 0)) return true;
  }
  return false;
}

bool place_is_injective(const Layout& layout, Place place) {
  std::vector<Range> ranges;
  for (const Digit& d : layout.digits)
    if (d.place == place && digit_count(layout, d) > 1) ranges.push_back({d.stride, digit_count(layout, d)});
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.stride > b.stride; });
  std::vector<int64_t> reach(ranges.size() + 1, 0);
  for (size_t i = ranges.size(); i > 1; --i)
    reach[i - 2] = reach[i - 1] + ranges[i - 1].stride * (ranges[i - 1].count - 1);
  return !differences_reach(ranges, reach, 0, 0, false);
}

bool next_index(std::span<const int64_t> shape, std::vector<int64_t>& index) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return true;
    index[d] = 0;
  }
  return false;
}

// Finds digit values that add up to the wanted coordinates; the first that decodes to a logical index wins.
class Inverter {
 public:
  Inverter(const Layout& layout, const PhysicalIndex& at) : layout_(layout), at_(at) {
    digits_.assign(layout.digits.begin(), layout.digits.end());
    std::sort(digits_.begin(), digits_.end(), [](const Digit& a, const Digit& b) {
      return a.place != b.place ? a.place < b.place : a.stride > b.stride;
    });
    values_.resize(digits_.size());
    rest_ = at;
    for (size_t i = layout.xors.size(); i-- > 0;) rest_.address = undo_xor(layout.xors[i], rest_.address);
  }
  std::optional<std::vector<int64_t>> run() { return search(0); }

 private:
  std::optional<std::vector<int64_t>> search(size_t k) {
    if (k == digits_.size()) return decode();
    const Digit& d = digits_[k];
    int64_t& rest = coordinate(rest_, d.place);
    int64_t count = digit_count(layout_, d), reach = 0;
    for (size_t i = k + 1; i < digits_.size() && digits_[i].place == d.place; ++i)
      reach += digits_[i].stride * (digit_count(layout_, digits_[i]) - 1);
    int64_t high = d.stride == 0 ? count - 1 : std::min(count - 1, rest / d.stride);
    int64_t low = d.stride == 0 || rest <= reach ? 0 : (rest - reach + d.stride - 1) / d.stride;
    for (int64_t v = high; v >= low; --v) {
      values_[k] = v;
      rest -= v * d.stride;
      auto found = search(k + 1);
      rest += v * d.stride;
      if (found) return found;
    }
    return std::nullopt;
  }
  std::optional<std::vector<int64_t>> decode() const {
    std::vector<int64_t> index(layout_.shape.size(), 0);
    for (size_t k = 0; k < digits_.size(); ++k)
      index[static_cast<size_t>(digits_[k].dim)] += values_[k] * digits_[k].divisor;
    for (size_t d = 0; d < index.size(); ++d)
      if (index[d] >= layout_.shape[d]) return std::nullopt;
    if (ir::apply(layout_, index) != at_) return std::nullopt;
    return index;
  }

  const Layout& layout_;
  PhysicalIndex at_, rest_;
  std::vector<Digit> digits_;
  std::vector<int64_t> values_;
};

// The part of a digit whose weight in the address is in [begin, end); end 0 cuts nothing off. Place and stride are
// unset.
std::optional<Digit> slice_digit(const Layout& layout, const Digit& d, int64_t begin, int64_t end) {
  bool unlimited = d.extent == 0 || d.divisor * d.extent >= layout.shape[static_cast<size_t>(d.dim)];
  if (begin % d.stride != 0) return std::nullopt;
  int64_t cut = begin / d.stride, extent = 0;
  if (!unlimited && d.extent % cut != 0) return std::nullopt;
  if (end == 0) {
    extent = unlimited ? 0 : d.extent / cut;
  } else {
    if (end % begin != 0) return std::nullopt;
    extent = end / begin;
    if (!unlimited && (d.extent / cut) % extent != 0) return std::nullopt;
  }
  return Digit{d.dim, d.divisor * cut, extent, d.place, d.stride};
}

}  // namespace

std::string layout_problem(const Layout& layout) {
  int64_t last = 0, places[4] = {0, 0, 0, 0};
  for (const Digit& d : layout.digits) {
    int64_t product = 0, count = digit_count(layout, d) - 1;
    int64_t& place = places[static_cast<int>(d.place)];
    if (__builtin_mul_overflow(count, d.stride, &product) || __builtin_add_overflow(place, product, &place))
      return "a stride is too large";
  }
  last = places[0];
  for (const XorField& x : layout.xors) {
    if (x.from_shift == x.to_shift) return "an xor must move bits";
    int top = x.to_shift + std::bit_width(static_cast<uint64_t>(x.mask));
    if (layout.size % (int64_t{1} << top) != 0)
      return fmt::format("size must be a multiple of {} for the xor", int64_t{1} << top);
  }
  bool distributed = places[1] + places[2] + places[3] > 0;
  if (!distributed && last >= layout.size) return fmt::format("address {} is outside size {}", last, layout.size);
  return "";
}

PhysicalIndex apply(const Layout& layout, std::span<const int64_t> index) {
  TCC_CHECK(index.size() == layout.shape.size());
  PhysicalIndex at;
  for (const Digit& d : layout.digits) {
    int64_t value = index[static_cast<size_t>(d.dim)] / d.divisor;
    if (d.extent != 0) value %= d.extent;
    coordinate(at, d.place) += value * d.stride;
  }
  for (const XorField& x : layout.xors) at.address = apply_xor(x, at.address);
  return at;
}

const Layout* make_padded(Arena& arena, std::span<const int64_t> shape, int32_t dim, int64_t factor, int64_t offset) {
  TCC_CHECK(dim >= 0 && static_cast<size_t>(dim) < shape.size() && factor > 0 && offset >= 0);
  std::vector<Digit> digits(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (static_cast<int32_t>(d) == dim) stride += ((offset - stride) % factor + factor) % factor;
    digits[d] = {static_cast<int32_t>(d), 1, 0, Place::kAddress, stride};
    stride *= shape[d];
  }
  return arena.make<Layout>(arena.copy(shape), arena.copy(digits), std::span<const XorField>{}, stride);
}

const Layout* make_blocked(Arena& arena, std::span<const int64_t> shape, std::span<const int32_t> order,
                           std::span<const std::pair<int32_t, int64_t>> tiles) {
  const size_t rank = shape.size();
  TCC_CHECK(order.size() >= rank);
  std::vector<int64_t> inner(rank, 1);     // product of the tiles of a dimension met so far, innermost first
  std::vector<Digit> parts(tiles.size());  // of the tiles
  for (size_t i = tiles.size(); i-- > 0;) {
    auto [dim, tile] = tiles[i];
    TCC_CHECK(tile > 0 && dim >= 0 && static_cast<size_t>(dim) < rank);
    int64_t& below = inner[static_cast<size_t>(dim)];
    parts[i] = {dim, below, tile, Place::kAddress, 0};
    below *= tile;
  }
  std::vector<size_t> placed(order.begin(), order.end());
  for (size_t i = 0; i < tiles.size(); ++i)
    if (std::find(order.begin(), order.end(), static_cast<int32_t>(rank + i)) == order.end())
      placed.push_back(rank + i);
  TCC_CHECK(placed.size() == rank + tiles.size());
  std::vector<Digit> digits;  // innermost first until the end
  int64_t stride = 1;
  for (size_t i = placed.size(); i-- > 0;) {
    const size_t d = placed[i];
    digits.push_back(d < rank ? Digit{static_cast<int32_t>(d), inner[d], 0, Place::kAddress, 0} : parts[d - rank]);
    digits.back().stride = stride;
    stride *= d < rank ? (shape[d] + inner[d] - 1) / inner[d] : parts[d - rank].extent;
  }
  std::reverse(digits.begin(), digits.end());
  return arena.make<Layout>(arena.copy(shape), arena.copy(digits), std::span<const XorField>{}, stride);
}

const Layout* with_xor(Arena& arena, const Layout& layout, XorField field) {
  std::vector<XorField> xors(layout.xors.begin(), layout.xors.end());
  xors.push_back(field);
  const Layout* made =
      arena.make<Layout>(arena.copy(layout.shape), arena.copy(layout.digits), arena.copy(xors), layout.size);
  std::string problem = layout_problem(*made);
  TCC_CHECK(problem.empty(), "{}", problem);
  return made;
}

const Layout* copy_layout(Arena& arena, const Layout& layout) {
  return arena.make<Layout>(arena.copy(layout.shape), arena.copy(layout.digits), arena.copy(layout.xors), layout.size);
}

std::optional<const Layout*> compose(Arena& arena, const Layout& first, const Layout& second) {
  if (second.shape.size() != 1 || second.shape[0] != first.size) return std::nullopt;
  std::vector<Digit> sorted(first.digits.begin(), first.digits.end());
  std::sort(sorted.begin(), sorted.end(), [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  int64_t filled = 1;  // sums of the smaller digits stay below the stride of the next: slices do not carry
  for (const Digit& d : sorted) {
    int64_t count = digit_count(first, d);
    if (d.place != Place::kAddress) return std::nullopt;
    if (count == 1) continue;
    if (d.stride < filled) return std::nullopt;
    filled = d.stride * count;
  }
  if (!first.xors.empty()) {
    bool identity = second.digits.size() == 1 && second.digits[0] == Digit{0, 1, 0, Place::kAddress, 1};
    if (!identity) return std::nullopt;
  }
  std::vector<Digit> digits;
  for (const Digit& outer : second.digits) {
    // Take the digits of `first` that have weight in [low, high) of its address, cut where they straddle an end.
    int64_t low = outer.divisor, high = outer.extent == 0 ? std::max(filled, low) : outer.divisor * outer.extent;
    for (size_t i = sorted.size(); i-- > 0;) {
      const Digit& d = sorted[i];
      int64_t count = digit_count(first, d), from = d.stride, to = d.stride * count;
      if (count == 1 || to <= low) continue;
      if (from >= high) {
        if (from % high != 0) return std::nullopt;
        continue;
      }
      auto slice = slice_digit(first, d, std::max(from, low), to <= high ? 0 : high);
      if (!slice || std::max(from, low) % low != 0) return std::nullopt;
      slice->place = outer.place;
      slice->stride = outer.stride * (std::max(from, low) / low);
      digits.push_back(*slice);
    }
  }
  std::vector<XorField> xors(first.xors.begin(), first.xors.end());
  xors.insert(xors.end(), second.xors.begin(), second.xors.end());
  return arena.make<Layout>(arena.copy(first.shape), arena.copy(digits), arena.copy(xors), second.size);
}

bool is_injective(const Layout& layout) {
  for (const XorField& x : layout.xors)
    if (x.from_shift == x.to_shift && x.mask != 0) return false;  // clears bits; other fields are bijections
  constexpr Place kAll[] = {Place::kAddress, Place::kWarp, Place::kLane, Place::kRegister};
  bool digits_ok = is_mixed_radix(layout) && std::all_of(std::begin(kAll), std::end(kAll),
                                                         [&](Place p) { return place_is_injective(layout, p); });
  if (digits_ok) return true;
  // Overlapping or redundant digits may still separate the indices that exist: count places while that is affordable.
  int64_t count = 1;
  for (int64_t e : layout.shape)
    if (__builtin_mul_overflow(count, e, &count) || count > (int64_t{1} << 20)) return false;
  std::set<std::array<int64_t, 4>> seen;
  std::vector<int64_t> index(layout.shape.size(), 0);
  do {
    PhysicalIndex at = ir::apply(layout, index);
    if (!seen.insert({at.address, at.warp, at.lane, at.reg}).second) return false;
  } while (next_index(layout.shape, index));
  return true;
}

std::optional<std::vector<int64_t>> invert(const Layout& layout, const PhysicalIndex& at) {
  return Inverter(layout, at).run();
}

int64_t alignment(const Layout& layout, int32_t dim, int64_t step) {
  TCC_CHECK(step > 0);
  int64_t divisor = 0;
  for (const Digit& d : layout.digits) {
    if (d.place != Place::kAddress || digit_count(layout, d) == 1) continue;
    int64_t unit = 1;  // the digit's values are multiples of this
    if (d.dim == dim && step % d.divisor == 0) {
      unit = step / d.divisor;
      if (d.extent != 0) unit = std::gcd(unit, d.extent);
      bool zero_only = (d.extent != 0 && unit == d.extent) || step >= layout.shape[static_cast<size_t>(dim)];
      if (zero_only) continue;
    } else if (d.dim == dim && step >= layout.shape[static_cast<size_t>(dim)]) {
      continue;
    }
    divisor = std::gcd(divisor, unit * d.stride);
  }
  int bits = divisor == 0 ? 62 : std::countr_zero(static_cast<uint64_t>(divisor));
  for (const XorField& x : layout.xors) {
    int top_source = x.from_shift + std::bit_width(static_cast<uint64_t>(x.mask));
    if (top_source > bits) bits = std::min(bits, x.to_shift + std::countr_zero(static_cast<uint64_t>(x.mask)));
  }
  return int64_t{1} << bits;
}

bool equal(const Layout& a, const Layout& b) {
  auto same_xor = [](const XorField& x, const XorField& y) { return x == y; };
  return std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end()) &&
         std::equal(a.digits.begin(), a.digits.end(), b.digits.begin(), b.digits.end()) &&
         std::equal(a.xors.begin(), a.xors.end(), b.xors.begin(), b.xors.end(), same_xor) && a.size == b.size;
}

uint64_t hash_layout(const Layout& layout) {
  uint64_t h = mix_hash(0x6c61796f7574);
  auto add = [&h](int64_t v) { h = combine_hash(h, static_cast<uint64_t>(v)); };
  add(static_cast<int64_t>(layout.shape.size()));
  for (int64_t e : layout.shape) add(e);
  add(static_cast<int64_t>(layout.digits.size()));
  for (const Digit& d : layout.digits) {
    add(d.dim);
    add(d.divisor);
    add(d.extent);
    add(static_cast<int64_t>(stored_code(d.place)));
    add(d.stride);
  }
  for (const XorField& x : layout.xors) {
    add(x.from_shift);
    add(x.to_shift);
    add(x.mask);
  }
  add(layout.size);
  return h;
}

}  // namespace tcc::ir
