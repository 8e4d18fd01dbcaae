#include "tcc/features/sample.h"

#include "features/workspace.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::features {

Workspace::Workspace() : impl_(std::make_unique<Impl>()) {}
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

uint64_t table_hash(const Table& table) {
  uint64_t hash = combine_hash(hash_bytes(table.name), static_cast<uint64_t>(table.version));
  hash = combine_hash(hash, static_cast<uint64_t>(table.max_rows) * 2 + (table.padded ? 1 : 0));
  for (std::string_view column : table.columns) hash = combine_hash(hash, hash_bytes(column));
  return hash;
}

std::span<const Table* const> tables() {
  static constexpr const Table* kTables[] = {&kStatements,  &kStatementsTenSet, &kDataflow,    &kDataflowPruner,
                                             &kTraceCpu,    &kTraceGpu,         &kTraceTlpCpu, &kTraceTlpGpu,
                                             &kTraceTclCpu, &kTraceTclGpu,      &kHardware};
  return kTables;
}

const Table* find_table(std::string_view name) {
  for (const Table* table : tables())
    if (table->name == name) return table;
  return nullptr;
}

void extract(const Needs& needs, const Program& program, Workspace& workspace, Sample& out) {
  workspace.impl().read = false;
  out.row.schema = needs.schema;
  out.row.values.assign(needs.schema->columns.size(), 0.f);
  needs.schema->extract(program.nest, program.target, program.threads, out.row.values);
  out.tables.resize(needs.tables.size());
  for (size_t k = 0; k < needs.tables.size(); ++k) {
    out.tables[k].clear();
    needs.tables[k]->extract(program, workspace, out.tables[k]);
  }
}

std::vector<float> extract(const Table& table, const Program& program) {
  Workspace workspace;
  std::vector<float> out;
  table.extract(program, workspace, out);
  return out;
}

Batch::Batch(const Rows& rows) : schema_(rows.schema()) {
  views_.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) views_.push_back({rows[i].data(), nullptr});
}

void Batch::add(const Sample& sample) {
  TCC_CHECK(!sample.empty(), "a sample without a row");
  add(*sample.row.schema, sample.row.values);
  views_.back().sample = &sample;
}

void Batch::add(const Schema& schema, std::span<const float> row) {
  if (schema_ == nullptr) schema_ = &schema;
  TCC_CHECK(schema_ == &schema, "a row of schema '{}' among rows of '{}'", schema.name, schema_->name);
  TCC_CHECK(row.size() == width(), "a row of {} values for {} columns", row.size(), width());
  views_.push_back({row.data(), nullptr});
}

}  // namespace tcc::features
