#include "rewrite.h"

namespace tcc::graph {

int64_t assign_layouts(Graph&, const LayoutModel&) {
  return 0;
}

}  // namespace tcc::graph
