#include "tcc/nn/continual.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "nn/synthetic.h"

using namespace tcc;
using namespace tcc::nn;

namespace {

const Config kTiny{
    .architecture = Architecture::kMamba, .statement_width = 3, .sequence_width = 6, .dataflow_width = 3};

ContinualOptions quick() {
  ContinualOptions o;
  o.active.epochs = o.distill.epochs = 20;
  o.active.batch = o.distill.batch = 64;
  o.active.rate = o.distill.rate = 2e-3;
  o.distill.schedule = {};
  return o;
}

}  // namespace

TEST_CASE("consolidation is a parabola around the old parameters") {
  Consolidation c;
  std::vector<float> grads{1, 2, 3};
  CHECK(c.penalty(std::vector<float>{1, 2, 3}, grads) == 0);
  CHECK(grads == std::vector<float>{1, 2, 3});
  c.lambda = 10;
  c.extend(std::vector<float>{9, 9, 9}, std::vector<float>{1, 0, 1});
  c.extend(std::vector<float>{0, 1, 2}, std::vector<float>{1, 3, 1});
  CHECK(c.fisher == std::vector<float>{2, 3, 2});
  // 10 / 2 * (2 * 1 + 3 * 0 + 2 * 4)
  CHECK(c.penalty(std::vector<float>{1, 1, 4}, grads) == Approx(50));
  CHECK(grads == std::vector<float>{21, 2, 43});
}

TEST_CASE("the gate is 1 for the teacher's best batch and 0 for its worst") {
  CHECK(distillation_gate(2, 2, 6) == 1);
  CHECK(distillation_gate(6, 2, 6) == 0);
  CHECK(distillation_gate(3, 2, 6) == 0.75);
  CHECK(distillation_gate(7, 2, 6) == 0);
  CHECK(distillation_gate(3, 3, 3) == 1);
  std::vector<float> scores{-1, 3, 1};
  normalize_scores(scores);
  CHECK(scores == std::vector<float>{0, 1, 0.5f});
  std::vector<float> equal{2, 2};
  normalize_scores(equal);
  CHECK(equal == std::vector<float>{0.5f, 0.5f});
}

TEST_CASE("continual distillation learns a target from two platforms and few of its own samples") {
  const Samples a = synthetic(kTiny, 6, 40, 1, 0.05), b = synthetic(kTiny, 6, 40, 2, -0.05),
                target = synthetic(kTiny, 2, 20, 3), held_out = synthetic(kTiny, 5, 40, 4);
  auto learner = ContinualLearner::create(kTiny, 1);
  REQUIRE(learner.has_value());
  auto first = learner->learn(a, nullptr, false, quick(), nullptr);
  REQUIRE(first.has_value());
  // Alone on the first platform: alpha is still 0, so KB changes nothing.
  for (const Tensor& t : learner->active().tensors())
    if (t.name.ends_with("alpha"))
      for (int64_t i = t.offset; i < t.offset + t.size(); ++i)
        REQUIRE(learner->active().parameters()[static_cast<size_t>(i)] == 0);
  CHECK(pairs_right(learner->knowledge(), synthetic(kTiny, 5, 40, 5, 0.05)) > 0.8);
  CHECK(learner->consolidation().fisher.size() == learner->knowledge().parameters().size());
  // While AC learns, KB is frozen; then AC is, while KB does.
  REQUIRE(learner->learn(b, nullptr, false, quick(), nullptr).has_value());
  const std::vector<float> kb(learner->knowledge().parameters().begin(), learner->knowledge().parameters().end());
  auto last = learner->learn(target, nullptr, true, quick(), nullptr);
  REQUIRE(last.has_value());
  CHECK(last->distilled.history.empty());
  CHECK(std::equal(kb.begin(), kb.end(), learner->knowledge().parameters().begin()));
  for (const Tensor& t : learner->knowledge().tensors())
    for (const Tensor& copy : learner->active().tensors())
      if (copy.name == "kb." + t.name)
        CHECK(std::equal(kb.begin() + t.offset, kb.begin() + t.offset + t.size(),
                         learner->active().parameters().begin() + copy.offset));
  bool used = false;
  for (const Tensor& t : learner->active().tensors())
    if (t.name.ends_with("alpha")) used |= learner->active().parameters()[static_cast<size_t>(t.offset)] != 0;
  CHECK(used);
  CHECK(learner->platforms() == 3);
  CHECK(pairs_right(learner->active(), held_out) > 0.8);
  CHECK(!ContinualLearner::create({.architecture = Architecture::kTlp}, 1).has_value());
}

TEST_CASE("an interrupted platform leaves the networks as they were") {
  const Samples a = synthetic(kTiny, 4, 40, 1);
  auto learner = ContinualLearner::create(kTiny, 1);
  ContinualOptions options = quick();
  options.active.epochs = options.distill.epochs = 2;
  REQUIRE(learner->learn(a, nullptr, false, options, nullptr).has_value());
  const std::vector<float> active(learner->active().parameters().begin(), learner->active().parameters().end());
  const std::vector<float> kb(learner->knowledge().parameters().begin(), learner->knowledge().parameters().end());
  for (int stop : {1, 7}) {  // in the first phase, and in the second
    int batches = 0;
    auto report =
        learner->learn(a, nullptr, false, options, nullptr, {.interrupted = [&] { return ++batches == stop; }});
    REQUIRE(report.has_value());
    CHECK((stop == 1 ? report->active : report->distilled).end == TrainEnd::kInterrupted);
    CHECK(learner->platforms() == 1);
    CHECK(std::equal(active.begin(), active.end(), learner->active().parameters().begin()));
    CHECK(std::equal(kb.begin(), kb.end(), learner->knowledge().parameters().begin()));
  }
}

TEST_CASE("momentum adaptation moves the Siamese network slowly") {
  Model model = *Model::create(kTiny, 1);
  const Model pretrained = *Model::create(kTiny, 2);
  MomentumAdapter moa(pretrained, 0.75);
  moa.begin(model);
  CHECK(std::equal(model.parameters().begin(), model.parameters().end(), pretrained.parameters().begin()));
  std::vector<float> moved(model.parameters().begin(), model.parameters().end());
  for (float& p : moved) p += 1;
  model.set_parameters(moved);
  moa.finish(model);
  moa.begin(model);  // from the Siamese network again
  for (size_t i = 0; i < moved.size(); ++i) REQUIRE(model.parameters()[i] == Approx(moved[i] - 0.75).margin(1e-6));
}
