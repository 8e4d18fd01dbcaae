// A Kernel: one host-callable unit. A cheap value: it points to immutable nodes in an arena that it keeps alive.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tcc/ir/layout.h"
#include "tcc/ir/stmt.h"
#include "tcc/support/arena.h"

namespace tcc::ir {

enum class Stage : uint8_t { kBuilt, kScheduled, kNest, kLowered };
std::string_view stage_name(Stage stage);

enum class Scope : uint8_t { kGlobal, kWorkspace, kConst, kShared, kClusterShared, kLocal, kAmxTile };
std::string_view scope_name(Scope scope);

enum class BufferRole : uint8_t {
  kInput,   // caller's, read only
  kWeight,  // caller's, read only, contents known ahead: its layout may be changed by a schedule
  kOutput,  // caller's, written
  kTemp,    // made by the kernel
};
std::string_view buffer_role_name(BufferRole role);

// The element stride of dimension `dim` is the smallest that is `offset` modulo `factor` and leaves room for the inner
// dimensions: against conflicts of banks and cache sets. Before Nest this is only a request, because `compact_buffers`
// may still shrink the buffer; Nest turns it into strides.
struct StridePadding {
  int32_t dim = -1;  // none
  int32_t factor = 1, offset = 0;
  bool operator==(const StridePadding&) const = default;
};

struct Buffer {
  Id id;
  Type type;
  Scope scope;
  BufferRole role;
  std::span<const Expr> shape;  // logical; element strides are row-major unless `layout` says otherwise
  const Layout* layout;         // nullptr: row-major; needs a constant shape
  int32_t alignment;            // bytes the first element is aligned to
  StridePadding padding = {};   // temporaries without a layout only
};

// Scalars known only at run time or at decision time, with what may be assumed of them: the value is in [low, high] and
// a multiple of `divisor`. These facts are all that `prove` may use.
enum class ScalarRole : uint8_t { kParameter, kDecision };
struct Scalar {
  Id id;
  ScalarRole role;
  int64_t low, high, divisor;
};
// The product of `factors` (decision scalars) equals `product`: what a perfect tile promises.
struct ProductFact {
  std::span<const Expr> factors;
  int64_t product;
};

// Name hints: a chain, newest first. `from` >= 0 derives the name: "<name of from>_<part>".
struct NameHint {
  const NameHint* previous;
  Id id;
  Id from;
  int32_t part;
  const char* text;  // when from < 0
};

struct Kernel {
  ArenaPtr arena;
  Stmt root = nullptr;
  std::span<const Buffer* const> buffers;  // parameters first, in the order of the call, then temporaries
  std::span<const Scalar> scalars;
  std::span<const ProductFact> products;
  const NameHint* names = nullptr;
  Id next_id = 0;
  Stage stage = Stage::kBuilt;
  bool tf32 = false;  // sums of products of f32 may round what they multiply to tf32 (10 bits of mantissa)

  const Buffer* buffer(Id id) const {
    for (const Buffer* b : buffers)
      if (b->id == id) return b;
    return nullptr;
  }
  const Scalar* scalar(Id id) const {
    for (const Scalar& s : scalars)
      if (s.id == id) return &s;
    return nullptr;
  }
};

// A copy in an arena of its own, for survivors of a search round.
Kernel compact(const Kernel& kernel);
// Structural hash that does not depend on ids, names or the arena: equal for kernels that differ in numbering only.
uint64_t hash_kernel(const Kernel& kernel);
// The name hint of an id, made from the chain; "v<id>" without a hint. Not unique: the printer makes names unique.
std::string name_hint(const Kernel& kernel, Id id);

}  // namespace tcc::ir
