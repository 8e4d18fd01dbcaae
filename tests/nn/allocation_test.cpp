// Counts allocations of the whole program, so that a warm prediction can be shown to make none.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "nn/executor.h"
#include "nn/random_batch.h"

namespace {
std::atomic<int64_t> allocations{0};
void* counted(size_t size) {
  ++allocations;
  void* p = std::malloc(size);
  if (!p) throw std::bad_alloc();
  return p;
}
}  // namespace

void* operator new(size_t size) {
  return counted(size);
}
void* operator new[](size_t size) {
  return counted(size);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, size_t) noexcept {
  std::free(p);
}

using namespace tcc;
using namespace tcc::nn;

TEST_CASE("a warm network predicts and differentiates without allocating") {
  ThreadPool pool(2);
  for (Architecture a : {Architecture::kMlp, Architecture::kTlp, Architecture::kPacm, Architecture::kMamba,
                         Architecture::kMambaAdapter}) {
    const Config config{.architecture = a, .heads = a == Architecture::kTlp ? 2 : 1};
    const Model model = *Model::create(config, 1);
    const RandomBatch data(config, 70, 2);
    const Batch batch = data.view();
    std::vector<float> scores(140), grads(static_cast<size_t>(model.num_parameters()));
    for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
      Workspace ws;
      Engine<float> engine(model.graph(), kernels_f32(model.level()), threads);
      Weights<float> weights = model.weights();
      auto all = [&] {
        model.predict(batch, scores, ws, threads);
        engine.forward(batch, weights, true, 3, scores);
        engine.backward(batch, weights, scores, grads);
        weights.prepare(model.graph(), kernels_f32(model.level()));
      };
      all();
      const int64_t before = allocations;
      for (int i = 0; i < 10; ++i) all();
      const int64_t after = allocations;
      INFO(architecture_name(a) << (threads ? ", 2 threads" : ""));
      CHECK(after == before);
    }
  }
}
