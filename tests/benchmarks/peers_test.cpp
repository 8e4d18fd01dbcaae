// The peers answer the protocol and compute the same as a plain loop: a ratio against a peer that does something else
// would mean nothing.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "peers/op_case.h"
#include "peers/peer.h"
#include "peers/peer_process.h"
#include "tcc/graph/passes.h"
#include "tcc/onnx/importer.h"

using namespace tcc;
using namespace tcc::benchmarks;

namespace {

struct Peer {
  std::string name, path;
};
std::vector<Peer> peers() {
  std::vector<Peer> out;
#ifdef TCC_DNNL_PEER
  out.push_back({"dnnl", TCC_DNNL_PEER});
#endif
#ifdef TCC_OPENBLAS_PEER
  out.push_back({"openblas", TCC_OPENBLAS_PEER});
#endif
  return out;
}

std::unique_ptr<PeerProcess> start(const std::string& path) {
  auto process = PeerProcess::start({path}, {});
  REQUIRE(process);
  return std::move(*process);
}

// Sum of the output and of its magnitudes, from definitions.
struct Sums {
  double sum = 0, abs = 0;
};
// All windows as three axes, the missing ones of one position.
template <class Add>
void naive_window(const OpCase& c, const Add& add) {
  const bool transposed = c.op == "deconv";
  std::vector<int64_t> in = input_size(c), out = output_size(c);
  std::vector<int64_t> taps(in.size(), c.get("kernel"));
  const auto missing = 3 - in.size();
  for (std::vector<int64_t>* list : {&in, &out, &taps}) list->insert(list->begin(), missing, 1);
  const int64_t group = c.get("group"), depth = c.get("c") / group, filters = c.get("f"), stride = c.get("stride");
  const int64_t dilation = std::max<int64_t>(c.get("dilation"), 1), count = taps[0] * taps[1] * taps[2];
  // The input position of one axis, or -1.
  auto source = [&](size_t axis, int64_t position, int64_t tap) -> int64_t {
    if (axis < missing) return 0;
    int64_t at =
        transposed ? position + c.get("pad") - tap * dilation : position * stride + tap * dilation - c.get("pad");
    if (transposed && at % stride != 0) return -1;
    if (transposed) at /= stride;
    return at >= 0 && at < in[axis] ? at : -1;
  };
  for (int64_t f = 0; f < filters; ++f)
    for (int64_t p = 0; p < out[0] * out[1] * out[2]; ++p) {
      double v = 0;
      for (int64_t d = 0; d < depth; ++d)
        for (int64_t t = 0; t < count; ++t) {
          const int64_t z = source(0, p / (out[1] * out[2]), t / (taps[1] * taps[2]));
          const int64_t y = source(1, p / out[2] % out[1], t / taps[2] % taps[1]),
                        x = source(2, p % out[2], t % taps[2]);
          if (z < 0 || y < 0 || x < 0) continue;
          const int64_t channel = f / (filters / group) * depth + d;
          const int64_t weight = transposed ? (d * filters + f) * count + t : (f * depth + d) * count + t;
          v += double(data_at(((channel * in[0] + z) * in[1] + y) * in[2] + x, 0)) * data_at(weight, 1);
        }
      if (c.get("bn")) v = data_at(f, 3) * (v - data_at(f, 4)) + data_at(f, 2);
      if (c.get("bias")) v += data_at(f, 2);
      add(v);
    }
}

Sums naive(const OpCase& c) {
  Sums s;
  auto add = [&](double v) {
    if (c.get("relu")) v = std::max(v, 0.0);
    s.sum += v, s.abs += std::fabs(v);
  };
  if (c.op == "gemm") {
    int64_t m = c.get("m"), n = c.get("n"), k = c.get("k");
    auto term = [&](int64_t x, int64_t w) {
      return c.get("int8") ? double(byte_at(x, 0)) * signed_byte_at(w, 1) : double(data_at(x, 0)) * data_at(w, 1);
    };
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double v = c.get("bias") ? data_at(j, 2) : 0;
        for (int64_t r = 0; r < k; ++r) v += term(i * k + r, r * n + j);
        add(v);
      }
    return s;
  }
  if (c.op == "attention") {
    int64_t tokens = c.get("tokens"), heads = c.get("heads"), depth = c.get("depth");
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < tokens; ++i)
        for (int64_t j = 0; j < tokens; ++j) {
          double v = 0;
          for (int64_t d = 0; d < depth; ++d)
            v += double(data_at((i * heads + h) * depth + d, 0)) * data_at((j * heads + h) * depth + d, 1);
          add(v);
        }
    return s;
  }
  if (c.op == "norm") {
    double squares = 0;
    for (int64_t i = 0; i < c.get("rows") * c.get("cols"); ++i) squares += double(data_at(i, 0)) * data_at(i, 0);
    add(std::sqrt(squares));
    return s;
  }
  naive_window(c, add);
  return s;
}

}  // namespace

TEST_CASE("peers compute the operator that was asked for", "[peers]") {
  std::vector<OpCase> cases = {
      gemm_case("bare", 5, 12, 7),
      gemm_case("row", 1, 33, 20),
      gemm_case("fused", 6, 16, 9, true),
      int8_gemm_case("bytes", 5, 12, 7),
      conv_case("conv", 3, 8, 9, 3, 2),
      conv_case("depthwise", 8, 8, 6, 3, 1, 8),
      window_case("line", {.channels = 4, .filters = 6, .size = {17}, .kernel = 3, .stride = 2, .pad = 1}),
      window_case("volume", {.channels = 2, .filters = 3, .size = {4, 6, 7}, .kernel = 3, .pad = 1}),
      window_case("dilated",
                  {.channels = 3, .filters = 4, .size = {9, 11}, .kernel = 3, .stride = 2, .pad = 2, .dilation = 2}),
      window_case("grouped", {.channels = 8, .filters = 12, .size = {6, 6}, .kernel = 3, .pad = 1, .group = 4}),
      window_case("folded", {.channels = 3, .filters = 5, .size = {8, 8}, .kernel = 3, .pad = 1, .folded = true}),
      window_case(
          "transposed",
          {.channels = 6, .filters = 4, .size = {4, 5}, .kernel = 4, .stride = 2, .pad = 1, .transposed = true}),
      attention_product_case("attention", 9, 3, 8),
      norm_case("norm", 12, 20)};
  int answered = 0;
  for (const Peer& peer : peers()) {
    auto process = start(peer.path);
    for (const OpCase& c : cases)
      for (int threads : {1, 2})
        for (bool plain : {true, false}) {
          INFO(peer.name << " " << c.name << " plain " << plain);
          auto reply = process->ask(prepare_line(c, threads, plain), 60);
          REQUIRE(reply);
          if (reply->value("unsupported", false)) continue;
          ++answered;
          Sums expected = naive(c);
          CHECK(std::fabs(reply->at("sum").get<double>() - expected.sum) <= 1e-4 * expected.abs);
          CHECK(reply->at("abs").get<double>() == Approx(expected.abs).epsilon(1e-4));
          auto timed = process->ask("run 0.002", 60);
          REQUIRE(timed);
          CHECK(timed->at("seconds").get<double>() > 0);
          CHECK(timed->at("calls").get<int64_t>() >= 3);
        }
  }
  CHECK((peers().empty() || answered > 0));
}

TEST_CASE("softmax and layer normalization of oneDNN", "[peers]") {
#ifdef TCC_DNNL_PEER
  auto process = start(TCC_DNNL_PEER);
  auto reply = process->ask(prepare_line(softmax_case("s", {2, 3, 40}), 1, true), 60);
  REQUIRE(reply);
  CHECK(reply->at("sum").get<double>() == Approx(6).epsilon(1e-5));
  double abs = 0;
  constexpr int64_t kRows = 4, kCols = 48;
  for (int64_t i = 0; i < kRows; ++i) {
    double mean = 0, square = 0;
    for (int64_t j = 0; j < kCols; ++j) mean += data_at(i * kCols + j, 0) / double(kCols);
    for (int64_t j = 0; j < kCols; ++j) square += std::pow(data_at(i * kCols + j, 0) - mean, 2) / double(kCols);
    for (int64_t j = 0; j < kCols; ++j)
      abs += std::fabs((data_at(i * kCols + j, 0) - mean) / std::sqrt(square + 1e-5) * data_at(j, 1) + data_at(j, 2));
  }
  reply = process->ask(prepare_line(layernorm_case("n", kRows, kCols), 1, true), 60);
  REQUIRE(reply);
  CHECK(reply->at("abs").get<double>() == Approx(abs).epsilon(1e-4));
#endif
}

TEST_CASE("a peer that misbehaves is an error and nothing worse", "[peers]") {
  for (const Peer& peer : peers()) {
    auto process = start(peer.path);
    CHECK_FALSE(process->ask("run 0.01", 60));
    CHECK_FALSE(process->ask("hello", 60));
    auto unknown = process->ask("prepare fft n=4 threads=1 plain=1", 60);
    REQUIRE(unknown);
    CHECK(unknown->value("unsupported", false));
    kill(process->pid(), SIGKILL);
    auto dead = process->ask("run 0.01", 60);
    REQUIRE_FALSE(dead);
    CHECK(dead.error().message == "died with signal 9");
    CHECK(process->ask("run 0.01", 60).error().message == "died with signal 9");
  }
  auto silent = PeerProcess::start({"/bin/sleep", "60"}, {});
  REQUIRE(silent);
  CHECK((*silent)->ask("run 0.01", 0.05).error().message == "gave no answer for 0.05 s");
  auto missing = PeerProcess::start({"/nonexistent/peer"}, {});
  REQUIRE(missing);
  CHECK((*missing)->ask("run 0.01", 10).error().message == "ended with exit code 127");
  auto chatty = PeerProcess::start({"/bin/echo", "no json"}, {});
  REQUIRE(chatty);
  CHECK((*chatty)->ask("run 0.01", 10).error().message == "answered 'no json'");
}

TEST_CASE("the models of the cases are what tcc tunes", "[peers]") {
  for (const OpCase& c :
       {gemm_case("fused", 6, 16, 9, true), conv_case("conv", 3, 8, 9, 3, 2), softmax_case("s", {2, 3, 40})}) {
    auto graph = onnx::import_bytes(std::make_shared<const std::string>(case_model(c)), c.name);
    REQUIRE(graph);
    REQUIRE(graph::optimize(*graph, nullptr));
    CHECK(graph::fuse(*graph).size() == 1);
  }
}
