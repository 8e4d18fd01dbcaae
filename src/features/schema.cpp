#include "tcc/features/schema.h"

#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::features {

uint64_t schema_hash(const Schema& schema) {
  uint64_t hash = combine_hash(hash_bytes(schema.name), static_cast<uint64_t>(schema.version));
  for (std::string_view column : schema.columns) hash = combine_hash(hash, hash_bytes(column));
  return hash;
}

Row extract(const Schema& schema, const ir::Kernel& nest, const target::Target& target, int64_t threads) {
  Row row{&schema, std::vector<float>(schema.columns.size(), 0.f)};
  schema.extract(nest, target, threads, row.values);
  return row;
}

void Rows::add(std::span<const float> values) {
  TCC_CHECK(schema_ != nullptr && values.size() == width());
  values_.insert(values_.end(), values.begin(), values.end());
}

void Rows::add(const Row& row) {
  if (schema_ == nullptr) schema_ = row.schema;
  TCC_CHECK(row.schema == schema_, "a row of schema '{}' among rows of '{}'", row.empty() ? "" : row.schema->name,
            schema_->name);
  add(row.values);
}

}  // namespace tcc::features
