// The draft model on recorded programs: six tasks of the wide space, 2,000 programs each.
#include "tcc/driver/draft_pools.h"

#include <catch2/catch.hpp>

using namespace tcc;

TEST_CASE("the first drafts of recorded programs hold nearly the best one, and more than those of the rules") {
  const std::vector<cost::DraftOptions> models = {
      {cost::DraftKind::kTcc},
      {cost::DraftKind::kPaper},
      {cost::DraftKind::kReleased},
      {cost::DraftKind::kTcc, 1U << static_cast<uint32_t>(cost::DraftPenalty::kLatency)},
      {cost::DraftKind::kTcc, 1U << static_cast<uint32_t>(cost::DraftPenalty::kLoops)}};
  const size_t rules = models.size();
  const std::vector<int64_t> counts = {1, 10, 50, 128};
  std::vector<std::vector<double>> mean(rules + 1, std::vector<double>(counts.size(), 0));
  for (const char* pool : {"gemm", "conv1x1", "conv3x3", "depthwise", "attention", "layernorm"}) {
    INFO(pool);
    const Result<data::Pool> file =
        data::read_pool(fmt::format("{}/models/pools/cpu-2000-{}.pool.gz", TCC_SOURCE_DIR, pool));
    REQUIRE(file.has_value());
    const auto groups = driver::draft_pool(*file, models, true, 1000);
    REQUIRE(groups.has_value());
    REQUIRE(groups->size() == 1);
    const driver::DraftedGroup& group = groups->front();
    CHECK(group.without_columns * 20 < std::ssize(group.seconds));
    for (size_t m = 0; m <= rules; ++m)
      for (size_t k = 0; k < counts.size(); ++k) mean[m][k] += driver::best_of_drafts(group, m, counts[k]) / 6;
  }
  CHECK(mean[0][1] >= 0.90);
  CHECK(mean[0][2] >= 0.97);
  CHECK(mean[0][3] >= 0.99);
  for (size_t k = 0; k < counts.size(); ++k) {
    INFO("best of " << counts[k]);
    CHECK(mean[0][k] >= mean[rules][k]);
    CHECK(mean[1][k] > 0.4);
    CHECK(mean[2][k] > 0.4);
  }
  // Parts that the first ten drafts need.
  CHECK(mean[3][1] < mean[0][1]);
  CHECK(mean[4][1] < mean[0][1]);
}

TEST_CASE("draft models have names") {
  for (std::string_view name : cost::draft_names()) {
    const Result<cost::DraftKind> kind = cost::find_draft(name);
    REQUIRE(kind.has_value());
    CHECK(cost::draft_name(*kind) == name);
  }
  const Result<cost::DraftKind> unknown = cost::find_draft("papr");
  REQUIRE(!unknown.has_value());
  CHECK(unknown.error().message.find("papr") != std::string::npos);
  CHECK(unknown.error().hint.find("paper") != std::string::npos);
}
