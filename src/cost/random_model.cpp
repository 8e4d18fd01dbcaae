#include "tcc/cost/cost_model.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::cost {
namespace {

// Scores are a function of the row's bits alone.
class RandomModel : public CostModel {
 public:
  explicit RandomModel(const features::Schema& schema) : schema_(schema) {}
  const features::Schema& schema() const override { return schema_; }
  void predict(const features::Batch& rows, std::span<float> scores) const override {
    TCC_CHECK(rows.size() == scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      const std::span<const float> row = rows[i];
      std::string_view bytes(reinterpret_cast<const char*>(row.data()), row.size_bytes());
      scores[i] = static_cast<float>(Rng(hash_bytes(bytes, 3)).uniform());
    }
  }

 private:
  const features::Schema& schema_;
};

}  // namespace

std::unique_ptr<CostModel> make_random_model(std::unique_ptr<CostModel> prior) {
  return std::make_unique<RandomModel>(prior->schema());
}

}  // namespace tcc::cost
