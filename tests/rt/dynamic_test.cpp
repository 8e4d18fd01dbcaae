// Plans with a dimension of several sizes: buckets, copies, strides, caches that grow in place, refusals.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "tcc/rt/rt.h"

namespace {

constexpr int64_t kColumns = 3, kLow = 1, kMiddle = 4, kHigh = 8;

// x [n, 3], y [n, 3] = 10 * x + n, all [n + 1, 3] = x with a row of n behind it. A bucket computes its bounds' rows.
template <int64_t kRows>
void scale(void* const* buffers, int64_t begin, int64_t end) {
  const auto* x = static_cast<const float*>(buffers[0]);
  const auto size = static_cast<float>(*static_cast<const int64_t*>(buffers[1]));
  auto* y = static_cast<float*>(buffers[2]);
  static_assert(kRows <= kHigh);
  for (int64_t i = begin * kColumns; i < end * kColumns; ++i) y[i] = 10 * x[i] + size;
}
template <int64_t kRows>
void append(void* const* buffers, int64_t begin, int64_t end) {
  const auto* x = static_cast<const float*>(buffers[0]);
  const int64_t size = *static_cast<const int64_t*>(buffers[1]);
  auto* all = static_cast<float*>(buffers[2]);
  for (int64_t row = begin; row < end; ++row)
    for (int64_t c = 0; c < kColumns; ++c)
      all[row * kColumns + c] = row < size && row < kRows ? x[row * kColumns + c] : static_cast<float>(size);
}

struct Model {
  tcc_rt_launch launches[4] = {
      {scale<kMiddle>, kMiddle}, {append<kMiddle>, kMiddle + 1}, {scale<kHigh>, kHigh}, {append<kHigh>, kHigh + 1}};
  tcc_rt_kernel kernels[4] = {{&launches[0], 1, 3}, {&launches[1], 1, 3}, {&launches[2], 1, 3}, {&launches[3], 1, 3}};
  tcc_rt_arg args[6] = {{TCC_RT_ARG_INPUT, 0, 0}, {TCC_RT_ARG_INPUT, 1, 0}, {TCC_RT_ARG_OUTPUT, 0, 0},
                        {TCC_RT_ARG_INPUT, 0, 0}, {TCC_RT_ARG_INPUT, 1, 0}, {TCC_RT_ARG_OUTPUT, 1, 0}};
  tcc_rt_step steps[4] = {{&kernels[0], args}, {&kernels[1], args + 3}, {&kernels[2], args}, {&kernels[3], args + 3}};
  int64_t dims[2] = {kHigh, kColumns}, more[2] = {kHigh + 1, kColumns};
  tcc_tensor_info input{"x", dims, kHigh* kColumns * 4, {TCC_DTYPE_FLOAT, 32, 1}, 2, 0, 0};
  tcc_tensor_info outputs[2] = {{"y", dims, kHigh* kColumns * 4, {TCC_DTYPE_FLOAT, 32, 1}, 2, 0, 0},
                                {"all", more, (kHigh + 1) * kColumns * 4, {TCC_DTYPE_FLOAT, 32, 1}, 2, 0, 0}};
  tcc_rt_factor rows[2] = {{0, 0, 1, 0}, {-1, 1, 0, kColumns}}, rows_and_one[2] = {{0, 0, 1, 1}, {-1, 1, 0, kColumns}};
  tcc_rt_dynamic_tensor in{rows, 2, -1, 0, 0};
  tcc_rt_dynamic_tensor out[2] = {{rows, 2, -1, 0, 0}, {rows_and_one, 2, 0, 0, 0}};
  int64_t bounds[2] = {kMiddle, kHigh};
  tcc_rt_bucket buckets[2] = {{&bounds[0], 0, 2}, {&bounds[1], 2, 2}};
  tcc_rt_dynamic dynamic{&in, out, buckets, 2, 0, 0};
  tcc_dim_info dim{"n", kLow, kHigh};
  tcc_rt_plan plan{TCC_RT_VERSION, 4, steps, nullptr, "{}", 2, 7, 0.0, {}};
  Model() {
    plan.info = {sizeof(tcc_model_info), 0, "m", &input, outputs, 1, 2, 3 * 256, 64, 0, 0, TCC_DEVICE_CPU, 1, &dim};
    plan.dynamic = &dynamic;
  }
  Model(const Model&) = delete;
};

struct Tensor {
  std::vector<float> values;
  int64_t shape[2], strides[2] = {0, 1};
  tcc_dltensor view{};
  Tensor(int64_t rows, int64_t step, float first, int64_t room = kHigh + 1)
      : values(static_cast<size_t>(room * step + 5), first), shape{rows, kColumns} {
    strides[0] = step;
    view = {values.data(),
            {TCC_DEVICE_CPU, 0},
            2,
            {TCC_DTYPE_FLOAT, 32, 1},
            shape,
            step == kColumns ? nullptr : strides,
            0};
  }
};

tcc_status run(tcc_context* context, const Tensor& x, const Tensor& y, const Tensor& all) {
  const tcc_dltensor outputs[2] = {y.view, all.view};
  return tcc_rt_run_plan(context, &x.view, 1, outputs, 2, nullptr, 0, nullptr);
}

}  // namespace

TEST_CASE("every size of a range runs, and nothing outside the tensors is touched") {
  Model model;
  tcc_context* context = nullptr;
  REQUIRE(tcc_rt_context_create(&model.plan, nullptr, &context) == TCC_OK);
  for (int64_t step : {kColumns, kColumns + 2}) {
    for (int64_t n = kLow; n <= kHigh; ++n) {
      Tensor x(n, step, 0), y(kHigh, step, -7), all(kHigh + 1, step, -7);
      for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = static_cast<float>(i);
      INFO("size " << n << ", step " << step);
      INFO(tcc_rt_last_error());
      REQUIRE(run(context, x, y, all) == TCC_OK);
      CHECK(y.shape[0] == n);
      CHECK(all.shape[0] == n + 1);
      for (int64_t i = 0; i < static_cast<int64_t>(y.values.size()); ++i) {
        const int64_t row = i / step, column = i % step;
        const bool inside = row < n && column < kColumns;
        CHECK(y.values[static_cast<size_t>(i)] ==
              (inside ? 10 * static_cast<float>(i) + static_cast<float>(n) : -7.0f));
        const float appended = row < n ? static_cast<float>(i) : static_cast<float>(n);
        CHECK(all.values[static_cast<size_t>(i)] == (row <= n && column < kColumns ? appended : -7.0f));
      }
    }
  }
  tcc_rt_context_destroy(context);
}

TEST_CASE("a cache grows where it is") {
  Model model;
  tcc_context* context = nullptr;
  REQUIRE(tcc_rt_context_create(&model.plan, nullptr, &context) == TCC_OK);
  Tensor cache(1, kColumns, -7);
  cache.view.strides = cache.strides;
  for (size_t c = 0; c < kColumns; ++c) cache.values[c] = 100;
  for (int64_t n = kLow; n < kHigh; ++n) {
    Tensor y(kHigh, kColumns, -7), all(n + 1, kColumns, -7);
    cache.shape[0] = n;
    all.view.data = cache.values.data();
    all.view.strides = cache.strides;
    INFO(tcc_rt_last_error());
    REQUIRE(run(context, cache, y, all) == TCC_OK);
    CHECK(y.values[0] == 1000 + static_cast<float>(n));
    for (int64_t row = 0; row <= kHigh; ++row)
      CHECK(cache.values[static_cast<size_t>(row * kColumns)] == (row == 0   ? 100
                                                                  : row <= n ? static_cast<float>(row)
                                                                             : -7.0f));
  }
  Tensor y(kHigh, kColumns, -7), all(kHigh + 1, kColumns, -7);
  all.view.data = cache.values.data();  // without strides both could be packed otherwise
  cache.shape[0] = 2;
  CHECK(run(context, cache, y, all) == TCC_ERROR_TENSOR);
  CHECK(std::string(tcc_rt_last_error()).find("give both the same strides") != std::string::npos);
  tcc_rt_context_destroy(context);
}

TEST_CASE("sizes out of range, too little room and shared memory are refused") {
  Model model;
  tcc_context* context = nullptr;
  REQUIRE(tcc_rt_context_create(&model.plan, nullptr, &context) == TCC_OK);
  auto refused = [&](const Tensor& x, const Tensor& y, const Tensor& all, const char* part) {
    CHECK(run(context, x, y, all) == TCC_ERROR_TENSOR);
    INFO(tcc_rt_last_error());
    CHECK(std::string(tcc_rt_last_error()).find(part) != std::string::npos);
  };
  const Tensor x(2, kColumns, 1), y(2, kColumns, 1), all(3, kColumns, 1);
  refused(Tensor(9, kColumns, 1), y, all, "a size of 'n' that is not in 1 to 8");
  refused(Tensor(0, kColumns, 1), y, all, "a size of 'n' that is not in 1 to 8");
  refused(x, Tensor(1, kColumns, 1), all, "output 0 'y': shape is [1, 3]");
  refused(x, y, Tensor(2, kColumns, 1), "output 1 'all': shape is [2, 3]");
  Tensor other = y;
  other.view.data = x.view.data;
  other.view.shape = other.shape;
  refused(x, other, all, "shares memory with 'x'");
  Tensor backwards(2, kColumns + 2, 1);
  backwards.strides[0] = -5;
  backwards.view.strides = backwards.strides;
  refused(backwards, y, all, "the stride of axis 0 is negative");
  tcc_rt_context_destroy(context);
}

TEST_CASE("shapes of outputs are known before a run") {
  Model model;
  Tensor x(5, kColumns, 1);
  int64_t shape[2] = {0, 0};
  REQUIRE(tcc_rt_output_shape(&model.plan, &x.view, 1, 1, shape) == TCC_OK);
  CHECK(shape[0] == 6);
  CHECK(shape[1] == kColumns);
  CHECK(tcc_rt_output_shape(&model.plan, &x.view, 1, 2, shape) == TCC_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("damaged descriptions of dimensions are refused") {
  tcc_context* context = nullptr;
  auto refused = [&](auto damage) {
    Model model;
    damage(model);
    CHECK(tcc_rt_context_create(&model.plan, nullptr, &context) == TCC_ERROR_INTERNAL);
  };
  refused([](Model& m) { m.plan.dynamic = nullptr; });
  refused([](Model& m) { m.rows[0].symbol = 1; });
  refused([](Model& m) { m.rows[1].axis = 2; });
  refused([](Model& m) { m.buckets[1].num_steps = 3; });
  refused([](Model& m) { m.plan.info.workspace_bytes = 64; });
  refused([](Model& m) { m.out[1].appends_to = 1; });
}

// --- counts: extents that the steps compute ----------------------------------------------------------------------

namespace {

constexpr int64_t kRoom = 4;

// x [4]. first [n] and both [2, n]: the elements above 0, and their negatives below them. n is output number 2.
void pick(void* const* buffers, int64_t, int64_t) {
  const auto* x = static_cast<const float*>(buffers[0]);
  auto *first = static_cast<float*>(buffers[1]), *both = static_cast<float*>(buffers[2]);
  auto* count = static_cast<int64_t*>(buffers[3]);
  int64_t n = 0;
  for (int64_t i = 0; i < kRoom; ++i) {
    if (!(x[i] > 0)) continue;
    first[n] = both[n] = x[i];
    both[kRoom + n] = -x[i];
    ++n;
  }
  *count = x[0] == 99 ? kRoom + 1 : n;
}

struct Picking {
  tcc_rt_launch launch{pick, 1};
  tcc_rt_kernel kernel{&launch, 1, 4};
  tcc_rt_arg args[4] = {
      {TCC_RT_ARG_INPUT, 0, 0}, {TCC_RT_ARG_OUTPUT, 0, 0}, {TCC_RT_ARG_OUTPUT, 1, 0}, {TCC_RT_ARG_OUTPUT, 2, 0}};
  tcc_rt_step step{&kernel, args};
  int64_t line[1] = {kRoom}, two[2] = {2, kRoom};
  tcc_tensor_info input{"x", line, kRoom * 4, {TCC_DTYPE_FLOAT, 32, 1}, 1, 0, 0};
  tcc_tensor_info outputs[2] = {{"first", line, kRoom * 4, {TCC_DTYPE_FLOAT, 32, 1}, 1, 0, 0},
                                {"both", two, 2 * kRoom * 4, {TCC_DTYPE_FLOAT, 32, 1}, 2, 0, 0}};
  tcc_rt_factor fixed[1] = {{-1, 0, 0, kRoom}}, counted[1] = {{0, 0, 1, 0}};
  tcc_rt_factor rows[2] = {{-1, 0, 0, 2}, {0, 1, 1, 0}};
  tcc_rt_dynamic_tensor in{fixed, 1, -1, 0, 0};
  tcc_rt_dynamic_tensor out[2] = {{counted, 1, -1, 0, 0}, {rows, 2, -1, 0, 0}};
  int64_t most[1] = {kRoom};
  tcc_rt_bucket bucket{most, 0, 1};
  tcc_rt_dynamic dynamic{&in, out, &bucket, 1, 1, 0};
  tcc_rt_plan plan{TCC_RT_VERSION, 1, &step, nullptr, "{}", 2, 7, 0.0, {}};
  Picking() {
    plan.info = {sizeof(tcc_model_info), 0, "m", &input, outputs, 1, 2, 4 * 64, 64, 0, 0, TCC_DEVICE_CPU, 0, nullptr};
    plan.dynamic = &dynamic;
  }
  Picking(const Picking&) = delete;
};

struct Picked {
  tcc_status status = TCC_OK;
  std::vector<int64_t> first_shape, both_shape;
  std::vector<float> first, both;
};

Picked picked(tcc_context* context, std::vector<float> x, int64_t room = kRoom) {
  Picked result{TCC_OK, {room}, {2, room}, std::vector<float>(kRoom, 7), std::vector<float>(2 * kRoom, 7)};
  int64_t shape[1] = {kRoom};
  const tcc_dltensor input{x.data(), {TCC_DEVICE_CPU, 0}, 1, {TCC_DTYPE_FLOAT, 32, 1}, shape, nullptr, 0};
  const tcc_dltensor outputs[2] = {
      {result.first.data(), {TCC_DEVICE_CPU, 0}, 1, {TCC_DTYPE_FLOAT, 32, 1}, result.first_shape.data(), nullptr, 0},
      {result.both.data(), {TCC_DEVICE_CPU, 0}, 2, {TCC_DTYPE_FLOAT, 32, 1}, result.both_shape.data(), nullptr, 0}};
  result.status = tcc_rt_run_plan(context, &input, 1, outputs, 2, nullptr, 0, nullptr);
  return result;
}

}  // namespace

TEST_CASE("a run writes the extents that it computes, and rows are side by side") {
  Picking model;
  tcc_context* context = nullptr;
  REQUIRE(tcc_rt_context_create(&model.plan, nullptr, &context) == TCC_OK);
  for (const auto& [x, expected] : std::vector<std::pair<std::vector<float>, std::vector<float>>>{
           {{1, -1, 2, 0}, {1, 2}}, {{1, 2, 3, 4}, {1, 2, 3, 4}}, {{0, 0, 0, 0}, {}}, {{-1, 0, 0, 5}, {5}}}) {
    Picked got = picked(context, x);
    REQUIRE(got.status == TCC_OK);
    const auto count = static_cast<int64_t>(expected.size());
    CHECK(got.first_shape == std::vector<int64_t>{count});
    CHECK(got.both_shape == std::vector<int64_t>{2, count});
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(got.first[i] == expected[i]);
      CHECK(got.both[i] == expected[i]);
      CHECK(got.both[expected.size() + i] == -expected[i]);
    }
    for (size_t i = 2 * expected.size(); i < got.both.size(); ++i) CHECK(got.both[i] == 7);
  }
  // Room for fewer elements than there may be, and a step that computes more than there may be.
  CHECK(picked(context, {1, 2, 3, 4}, kRoom - 1).status == TCC_ERROR_TENSOR);
  CHECK(picked(context, {99, 2, 3, 4}).status == TCC_ERROR_INTERNAL);
  CHECK(std::string(tcc_rt_last_error()).find("count 0 is 5") != std::string::npos);
  // Before a run an extent is the greatest that there may be.
  int64_t shape[2] = {0, 0}, extents[1] = {kRoom};
  const tcc_dltensor input{nullptr, {TCC_DEVICE_CPU, 0}, 1, {TCC_DTYPE_FLOAT, 32, 1}, extents, nullptr, 0};
  REQUIRE(tcc_rt_output_shape(&model.plan, &input, 1, 1, shape) == TCC_OK);
  CHECK(shape[0] == 2);
  CHECK(shape[1] == kRoom);
  CHECK(tcc_rt_self_test(context) == TCC_OK);
  tcc_rt_context_destroy(context);
}

TEST_CASE("a plan whose inputs depend on its counts is refused") {
  Picking model;
  model.in = {model.counted, 1, -1, 0, 0};
  tcc_context* context = nullptr;
  CHECK(tcc_rt_context_create(&model.plan, nullptr, &context) == TCC_ERROR_INTERNAL);
  Picking more;
  more.rows[1].symbol = 1;
  CHECK(tcc_rt_context_create(&more.plan, nullptr, &context) == TCC_ERROR_INTERNAL);
}
