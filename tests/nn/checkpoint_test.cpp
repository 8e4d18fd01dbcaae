#include "tcc/nn/checkpoint.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "nn/random_batch.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

using namespace tcc;
using namespace tcc::nn;

namespace {

const Card kCard{"statement/3 dataflow/1", "AMD EPYC, x86-64-v4, 1 thread",
                 "data: 57,000 records; \"quotes\" and\nlines"};

Model new_model(const Config& c) {
  return std::move(*Model::create(c, 5));
}

// The file with a checksum that fits, so that damage reaches the code behind it.
std::string sealed(std::string bytes) {
  if (bytes.size() < 32) return bytes;
  const uint64_t size = bytes.size(), hash = hash_bytes(std::string_view(bytes).substr(24));
  std::memcpy(bytes.data() + 8, &size, 8);
  std::memcpy(bytes.data() + 16, &hash, 8);
  return bytes;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(from.size() == to.size());
  return sealed(text.replace(at, from.size(), to));
}

std::string message_of(const std::string& bytes) {
  auto r = parse_checkpoint(bytes, "a.tccnet");
  REQUIRE(!r.has_value());
  CHECK(r.error().message.find("a.tccnet: ") == 0);
  return r.error().message;
}

}  // namespace

TEST_CASE("a checkpoint gives back the network and its card") {
  const auto dir = TemporaryDirectory::create("nn");
  for (Architecture a : {Architecture::kMlp, Architecture::kTlp, Architecture::kPacm, Architecture::kMamba,
                         Architecture::kMambaAdapter}) {
    const Config config{.architecture = a, .hardware_width = 4};
    Model model = new_model(config);
    model.set_input_scale(std::vector<float>(174, 0.5f), std::vector<float>(22, 0.25f), std::vector<float>(23, 2));
    const std::string path = (*dir)->path() + "/net";
    REQUIRE(save_checkpoint(path, model, kCard).has_value());
    auto back = load_checkpoint(path);
    REQUIRE(back.has_value());
    CHECK(back->card.features == kCard.features);
    CHECK(back->card.platform == kCard.platform);
    CHECK(back->card.text == kCard.text);
    CHECK(back->model.config() == config);
    const bool half = a == Architecture::kTlp;  // 2.4 MB as f32
    CHECK(back->half == half);
    CHECK(read_file(path)->size() <= static_cast<size_t>(kMaxCheckpointBytes));
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      const float p = model.parameters()[i];
      REQUIRE(back->model.parameters()[i] == (half ? from_half(to_half(p)) : p));
    }
    CHECK(std::memcmp(back->model.buffers().data(), model.buffers().data(), model.buffers().size_bytes()) == 0);
    // What has been read back is stored without another change.
    auto again = parse_checkpoint(*checkpoint_bytes(back->model, kCard), "again");
    REQUIRE(again.has_value());
    CHECK(again->hash == back->hash);
    const RandomBatch data(config, 30, 1);
    std::vector<float> x(30), y(30);
    Workspace ws, other;
    back->model.predict(data.view(), x, ws);
    again->model.predict(data.view(), y, other);
    CHECK(x == y);
    CHECK(require_features(*back, kCard.features, path).has_value());
    CHECK(require_features(*back, "statement/4", path)
              .error()
              .message.find("'statement/3 dataflow/1', but this tcc extracts "
                            "'statement/4'") != std::string::npos);
  }
}

TEST_CASE("halves round to nearest even") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((half & 0x7c00) == 0x7c00 && (half & 0x3ff)) {
      CHECK(std::isnan(from_half(half)));
    } else {
      REQUIRE(to_half(from_half(half)) == half);
    }
  }
  CHECK(from_half(0x3c00) == 1);
  CHECK(from_half(0x0001) == 0x1p-24f);
  CHECK(to_half(1 + 0x1p-11f) == 0x3c00);      // half way: to the even one
  CHECK(to_half(1 + 3 * 0x1p-11f) == 0x3c02);  // half way: to the even one
  CHECK(to_half(1 + 0x1.002p-11f) == 0x3c01);  // above half way
  CHECK(to_half(65519.9f) == 0x7bff);
  CHECK(to_half(65520.f) == 0x7c00);
  CHECK(to_half(0x1p-25f) == 0);
  CHECK(to_half(0x1.8p-25f) == 1);
  CHECK(to_half(-2.f) == 0xc000);
  Rng rng(1);
  for (int i = 0; i < 100000; ++i) {
    const auto x = static_cast<float>(std::exp2(30 * rng.uniform() - 20));
    const uint16_t h = to_half(x);
    const double error = std::fabs(static_cast<double>(from_half(h)) - static_cast<double>(x));
    for (int side : {-1, 1}) {
      const auto next = static_cast<uint16_t>(h + side);
      if (h == 0 && side < 0) continue;
      REQUIRE(error <= std::fabs(static_cast<double>(from_half(next)) - static_cast<double>(x)));
    }
  }
}

TEST_CASE("a network that cannot be stored is an error") {
  Model model = new_model({.architecture = Architecture::kMamba});
  std::vector<float> params(model.parameters().begin(), model.parameters().end());
  params[3] = std::numeric_limits<float>::quiet_NaN();
  model.set_parameters(params);
  CHECK(checkpoint_bytes(model, kCard).error().message.find("parameter 3 of 'encoder0.weight' is not finite") !=
        std::string::npos);
  Model wide = new_model({.architecture = Architecture::kTlp});
  params.assign(wide.parameters().begin(), wide.parameters().end());
  params[1] = 1e5f;
  wide.set_parameters(params);
  CHECK(checkpoint_bytes(wide, kCard).error().message.find("above the range of f16") != std::string::npos);
  const Model huge = new_model({.architecture = Architecture::kTlp, .heads = 8});
  CHECK(checkpoint_bytes(huge, kCard).error().message.find("more than 2097152") != std::string::npos);
}

TEST_CASE("hostile checkpoints get clear errors") {
  const std::string good = *checkpoint_bytes(new_model({.architecture = Architecture::kPacm}), kCard);
  CHECK(message_of("").find("not a checkpoint") != std::string::npos);
  CHECK(message_of("hello, this is a text file, and a longer one").find("not a checkpoint") != std::string::npos);
  CHECK(message_of(good.substr(0, good.size() - 1)).find("was written with") != std::string::npos);
  CHECK(message_of(good + "x").find("was written with") != std::string::npos);
  std::string flipped = good;
  flipped[good.size() / 2] ^= 4;
  CHECK(message_of(flipped).find("checksum") != std::string::npos);
  CHECK(message_of(replaced(good, R"("version":1)", R"("version":7)"))
            .find("checkpoint version 7, but this tcc reads version 1") != std::string::npos);
  CHECK(message_of(replaced(good, R"("pacm")", R"("pacn")")).find("unknown network architecture 'pacn'") !=
        std::string::npos);
  CHECK(message_of(replaced(good, R"("f32")", R"("f64")")).find("expected f32 or f16") != std::string::npos);
  CHECK(message_of(replaced(good, R"("features")", R"("featurez")")).find("lacks 'features'") != std::string::npos);
  CHECK(message_of(replaced(good, R"("statement_width":174)", R"("statement_width":173)"))
            .find("its network 'pacm' has") != std::string::npos);
  CHECK(message_of(replaced(good, R"("f32")", R"("f16")")).find("bytes of data; expected") != std::string::npos);
  std::string infinite = good;
  const float inf = std::numeric_limits<float>::infinity();
  std::memcpy(infinite.data() + infinite.size() - 4, &inf, 4);
  CHECK(message_of(sealed(infinite)).find("not finite") != std::string::npos);
  std::string negative = good;
  const float minus = -1;
  std::memcpy(negative.data() + negative.size() - 4, &minus, 4);  // the last buffers are running variances
  CHECK(message_of(sealed(negative)).find("negative") != std::string::npos);
  CHECK(message_of(std::string(good) + std::string(3 << 20, 'x')).find("expected at most 2097152") !=
        std::string::npos);
  uint64_t far = uint64_t{1} << 60;
  std::string header = good;
  std::memcpy(header.data() + 24, &far, 8);
  CHECK(message_of(sealed(header)).find("more than the file") != std::string::npos);
}

TEST_CASE("random damage of a checkpoint never gives more than an error") {
  const std::string good = *checkpoint_bytes(new_model({.architecture = Architecture::kMamba}), kCard);
  Rng rng(3);
  int survived = 0;
  for (int i = 0; i < 600; ++i) {
    std::string bad = good;
    const bool cut = i % 3 == 0;
    // Half of the flips hit the header.
    const int64_t range = i % 2 ? 700 : static_cast<int64_t>(bad.size());
    if (cut)
      bad.resize(static_cast<size_t>(rng.below(i % 2 ? 900 : static_cast<int64_t>(bad.size()))));
    else
      for (int64_t n = rng.below(4); n >= 0; --n)
        bad[static_cast<size_t>(rng.below(range))] ^= static_cast<char>(1 + rng.below(255));
    if (i % 5) {
      survived += parse_checkpoint(sealed(bad), "bad").has_value();
    } else {
      CHECK(!parse_checkpoint(bad, "bad").has_value());
    }
  }
  // With a new checksum, flips of parameters are another network; cuts and most flips of the header are not.
  CHECK(survived > 40);
  CHECK(survived < 400);
}
