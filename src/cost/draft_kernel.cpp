#include "tcc/cost/draft.h"

#include <string>

namespace tcc::cost {

std::optional<double> draft_kernel_seconds(const ir::Kernel& nest, const target::Target& target, int64_t threads,
                                           const DraftOptions& options) {
  analysis::ColumnBuilder builder;
  analysis::NestColumns columns;
  std::string why;
  if (!analysis::nest_columns(builder, nest, {}, columns, why)) return std::nullopt;
  const std::optional<double> seconds = builder.known(draft_seconds(builder, columns, target, threads, options));
  return seconds;
}

}  // namespace tcc::cost
