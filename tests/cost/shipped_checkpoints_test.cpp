#include "tcc/cost/shipped_checkpoints.h"

#include <catch2/catch.hpp>

#include "tcc/cost/network_model.h"
#include "tcc/nn/checkpoint.h"

using namespace tcc;

// A change of the features or of an architecture needs checkpoints that are trained again.
TEST_CASE("each shipped checkpoint is of its network, of today's features, and says how it was made", "[cost]") {
  REQUIRE_FALSE(cost::shipped_checkpoints().empty());
  for (const cost::ShippedCheckpoint& shipped : cost::shipped_checkpoints()) {
    CAPTURE(shipped.target, shipped.network);
    const cost::NetworkKind* kind = cost::find_network(shipped.network);
    REQUIRE(kind != nullptr);
    const features::Table& trace = shipped.target == "cuda" ? features::kTraceGpu : features::kTraceCpu;
    CHECK(cost::find_shipped_checkpoint(shipped.network, trace) == &shipped);
    const Result<nn::Checkpoint> stored = nn::parse_checkpoint(shipped.bytes, "shipped");
    REQUIRE(stored.has_value());
    CHECK(stored->model.config().architecture == kind->architecture);
    CHECK(stored->card.features == cost::network_inputs(*kind, trace).features);
    CHECK(stored->card.text.find("trained on") != std::string::npos);
    CHECK_FALSE(stored->card.platform.empty());
  }
  CHECK(cost::find_shipped_checkpoint("forest", features::kTraceCpu) == nullptr);
}

TEST_CASE("a network begins with the checkpoint that ships", "[cost]") {
  for (const cost::ShippedCheckpoint& shipped : cost::shipped_checkpoints()) {
    if (shipped.target != "cpu") continue;
    const auto model = cost::make_model(
        {.name = std::string(shipped.network), .pretrained = std::string(cost::kShipped)}, cost::make_rule_model());
    REQUIRE(model.has_value());
    CHECK((*model)->trained());
    CHECK((*model)->checkpoint() != 0);
    const auto fresh = cost::make_model({.name = std::string(shipped.network)}, cost::make_rule_model());
    REQUIRE(fresh.has_value());
    CHECK_FALSE((*fresh)->trained());
  }
}
