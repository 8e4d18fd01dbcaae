// The parts that need no second process.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>

#include "fake_measurer.h"
#include "kernels.h"
#include "measure/gate.h"
#include "measure/host/cpu_share.h"
#include "measure/host/host_timing.h"
#include "measure/host/quiet.h"
#include "measure/reference_kernels.h"
#include "measure/samples.h"
#include "measure/timing.h"
#include "measure/verdict.h"
#include "measure/wire.h"
#include "skip.h"
#include "tcc/interp/tensor.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/measure/task.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::measure;
using namespace tcc::measure::test;

TEST_CASE("interval of the median", "[unit]") {
  std::vector<double> nine = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Interval interval = median_interval(nine);
  CHECK(interval.median == 5);
  CHECK(interval.low == 2);  // P(X <= 1) = 10/512, twice that is below 5 %; P(X <= 2) is not
  CHECK(interval.high == 8);
  CHECK(median_interval(nine, 0.99).low == 1);
  std::vector<double> two = {1, 3};
  CHECK(median_interval(two).median == 2);
  CHECK(median_interval(two).low == 1);
  std::vector<double> many;
  for (int i = 0; i < 1001; ++i) many.push_back(i);
  CHECK(median_interval(many).low == Approx(500 - 31).margin(1));  // 1.96 sqrt(n) / 2
}

TEST_CASE("numbers of every float type go and come", "[unit]") {
  for (ir::Type type : {ir::Type::kF16, ir::Type::kBF16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      auto h = static_cast<uint16_t>(bits), back = uint16_t{0};
      double value = interp::load_number(type, &h, 0);
      if (value != value) continue;
      interp::store_number(type, &back, 0, value);
      if (back != h) FAIL(fmt::format("{} {:#x} comes back as {:#x}", ir::type_name(type), h, back));
    }
  }
  CHECK(interp::round_to_type(1 + 0x1p-8, ir::Type::kBF16) == 1);  // ties go to even
  CHECK(interp::round_to_type(1 + 0x1.8p-8, ir::Type::kBF16) == 1 + 0x1p-7);
  CHECK(interp::round_to_type(1 + 0x1p-11, ir::Type::kF16) == 1);
  CHECK(interp::round_to_type(65519, ir::Type::kF16) == 65504);
  CHECK(std::isinf(interp::round_to_type(65520, ir::Type::kF16)));
  CHECK(interp::round_to_type(0x1p-25, ir::Type::kF16) == 0);
  CHECK(interp::round_to_type(300, ir::Type::kI8) == 127);
}

TEST_CASE("arrays of numbers go and come as their elements do", "[unit]") {
  const std::vector<double> values = {0, 1, -1, 0.1, 65519, -3e5, 1e300, 0x1p-149};
  for (ir::Type type : {ir::Type::kF64, ir::Type::kF32, ir::Type::kF16, ir::Type::kI8, ir::Type::kI64}) {
    CAPTURE(ir::type_name(type));
    std::vector<std::byte> all(8 * values.size()), each(all);
    interp::store_numbers(type, all.data(), values);
    for (size_t i = 0; i < values.size(); ++i)
      interp::store_number(type, each.data(), static_cast<int64_t>(i), values[i]);
    CHECK(all == each);
    std::vector<double> back(values.size());
    interp::load_numbers(type, all.data(), back);
    for (size_t i = 0; i < back.size(); ++i)
      CHECK(back[i] == interp::load_number(type, all.data(), static_cast<int64_t>(i)));
  }
}

TEST_CASE("the gate", "[unit]") {
  std::vector<double> reference = {1, -2, 0};
  OutputRule rule{ir::Type::kF32};
  rule.relative = 2 * 0x1p-24;
  rule.scaled = 4 * 0x1p-24;
  rule.scale_all = 10;
  SECTION("within what is allowed") {
    std::vector<float> x = {1 + 0x1p-20f, -2, 0x1p-22f};
    GateResult gate = compare_output(rule, x.data(), reference);
    CHECK(gate.bad == 0);
    CHECK(gate.worst == 0);
    CHECK(gate.max_error == Approx(0x1p-20 / (2 * 0x1p-24 + 40 * 0x1p-24)));
  }
  SECTION("beyond") {
    std::vector<float> x = {1, -2.001f, 0};
    GateResult gate = compare_output(rule, x.data(), reference);
    CHECK(gate.bad == 1);
    CHECK(gate.worst == 1);
    CHECK(gate.max_error > 1);
    CHECK_THAT(gate.text, Catch::StartsWith("is -2.00099993, not -2 (error"));
  }
  SECTION("NaN and infinity") {
    std::vector<float> x = {1, -2, NAN};
    CHECK(compare_output(rule, x.data(), reference).bad == 1);
    x[2] = INFINITY;
    CHECK(compare_output(rule, x.data(), reference).bad == 1);
    reference[2] = 1e300;  // beyond f32: infinity is the right answer
    CHECK(compare_output(rule, x.data(), reference).bad == 0);
    reference[2] = NAN;
    CHECK(compare_output(rule, x.data(), reference).bad == 1);
  }
  SECTION("equality") {
    rule.equal = true;
    std::vector<float> x = {1 + 0x1p-23f, -2, -0.0f};
    CHECK(compare_output(rule, x.data(), reference).bad == 1);
    x[0] = 1;
    CHECK(compare_output(rule, x.data(), reference).bad == 0);
  }
  CHECK(place_text(7, std::array<int64_t, 2>{3, 4}) == "[1, 3]");
  CHECK(place_text(0, std::span<const int64_t>()) == "[]");
}

TEST_CASE("the gate on blocks and on samples says what it says element by element", "[unit]") {
  Rng rng(5);
  constexpr int64_t kCount = 1000;
  std::vector<double> reference(kCount), scale(kCount);
  std::vector<float> x(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    reference[i] = 2 * rng.uniform() - 1;
    scale[i] = 0.5 + rng.uniform();
    x[i] = static_cast<float>(reference[i]) + 1e-6f * static_cast<float>(rng.uniform());
  }
  for (bool equal : {false, true}) {
    OutputRule rule{ir::Type::kF32};
    rule.relative = 2 * 0x1p-24;
    rule.scaled = 40 * 0x1p-24;
    rule.scale_each = scale.data();
    rule.floor = 0x1p-126;
    rule.equal = equal;
    std::vector<float> y = x;
    if (equal)
      for (size_t i = 0; i < kCount; ++i) y[i] = static_cast<float>(reference[i]);
    for (float bad : {0.0f, 5.0f, NAN, INFINITY}) {
      y[777] = bad == 0 ? static_cast<float>(reference[777]) : bad;
      GateResult all = compare_output(rule, y.data(), reference);
      int64_t bad_alone = 0;
      double most = 0;
      for (size_t i = 0; i < kCount; ++i) {
        rule.scale_each = &scale[i];
        GateResult one = compare_output(rule, &y[i], std::span(reference).subspan(i, 1));
        rule.scale_each = scale.data();
        bad_alone += one.bad;
        most = std::max(most, one.max_error);
      }
      CAPTURE(equal, bad);
      CHECK(all.bad == bad_alone);
      CHECK(all.max_error == most);
      if (bad != 0) CHECK(all.worst == 777);
    }
    // Samples: references and scales in their order, elements where they say.
    std::vector<int64_t> positions = {3, 500, 777, 999};
    std::vector<double> some, scales;
    for (int64_t p : positions) {
      some.push_back(reference[static_cast<size_t>(p)]);
      scales.push_back(scale[static_cast<size_t>(p)]);
    }
    rule.scale_each = scales.data();
    GateResult sampled = compare_output(rule, y.data(), some, positions);
    CHECK(sampled.bad == 1);
    CHECK(sampled.worst == 777);
    positions[2] = 778;
    some[2] = reference[778];
    scales[2] = scale[778];
    CHECK(compare_output(rule, y.data(), some, positions).bad == 0);
  }
  std::vector<float> written(100, 1);
  CHECK(find_unwritten(ir::Type::kF32, written.data(), 100, 0xff) == -1);
  std::memset(&written[42], 0x7f, sizeof(float));
  CHECK(find_unwritten(ir::Type::kF32, written.data(), 100, 0xff) == -1);
  CHECK(find_unwritten(ir::Type::kF32, written.data(), 100, 0x7f) == 42);
  CHECK(find_unwritten(ir::Type::kI32, written.data(), 100, 0x7f) == -1);
}

TEST_CASE("time that the hypervisor took is read from the system's table", "[unit]") {
  const char* stat =
      "cpu  100 0 100 1000 0 0 0 77 0 0\n"
      "cpu0 50 0 50 500 0 0 0 7 0 0\n"
      "cpu1 50 0 50 500 0 0 0 70 0 0\n"
      "cpu10 50 0 50 500 0 0 0 1000 0 0\n"
      "intr 12345\n";
  CHECK(stolen_ticks(stat, std::array{0}) == 7);
  CHECK(stolen_ticks(stat, std::array{1}) == 70);
  CHECK(stolen_ticks(stat, std::array{0, 1}) == 77);
  CHECK(stolen_ticks(stat, std::array{10}) == 1000);
  CHECK(stolen_ticks(stat, std::array{2}) == 0);
  CHECK(stolen_ticks("cpu0 50 0 50 500\n", std::array{0}) == 0);  // systems of old have fewer columns
  CHECK(stolen_ticks("", std::array{0}) == 0);
}

TEST_CASE("timing ends early for what is far behind, and only for that", "[unit]") {
  auto timed = [](double best) {
    auto run = [] {
      timespec pause{0, 300'000};
      nanosleep(&pause, nullptr);
    };
    auto result = std::make_unique<WorkerResult>();
    HostTiming timing;
    TimingPlan& plan = timing.plan;
    plan.last_run_seconds = 300e-6;
    plan.budget_seconds = 0.05;
    plan.best_seconds = best;
    time_on_host({run}, timing, *result);
    return result;
  };
  auto behind = timed(1e-6);
  // A machine that disturbs every sample makes none of them sure.
  CHECK((behind->cut_short == 1 || behind->dropped > 0 || behind->disturbed == 1 || behind->num_samples >= 9));
  CHECK_FALSE((behind->cut_short && behind->num_samples > 16));
  CHECK(timed(1)->cut_short == 0);
  CHECK(timed(0)->cut_short == 0);
  CHECK(timed(1)->num_samples >= kFirstSamples);
}

TEST_CASE("what comes before a run is not timed", "[unit]") {
  int before = 0, runs = 0;
  const HostRun program{[&] { ++runs; },
                        [&] {
                          ++before;
                          timespec pause{0, 2'000'000};
                          nanosleep(&pause, nullptr);
                        }};
  auto result = std::make_unique<WorkerResult>();
  HostTiming timing;
  timing.plan.last_run_seconds = 1;  // a long one: samples are single runs
  timing.plan.budget_seconds = 0.05;
  time_on_host(program, timing, *result);
  REQUIRE(result->num_samples > 0);
  CHECK(runs == before);
  // Other programs may stretch some samples, but not all of them to the length of the pause.
  CHECK(*std::min_element(result->samples.begin(), result->samples.begin() + result->num_samples) < 2e-3);
}

TEST_CASE("a long run for checking that is far behind is the only sample", "[unit]") {
  int runs = 0;
  auto timed = [&](double last, double best) {
    runs = 0;
    auto run = [&] {
      ++runs;
      timespec pause{0, 12'000'000};
      nanosleep(&pause, nullptr);
    };
    auto result = std::make_unique<WorkerResult>();
    HostTiming timing;
    TimingPlan& plan = timing.plan;
    plan.last_run_seconds = last;
    plan.budget_seconds = 0.03;
    plan.best_seconds = best;
    time_on_host({run}, timing, *result);
    return result;
  };
  auto far = timed(12e-3, 1e-6);
  CHECK(runs == 0);
  CHECK(far->cut_short == 1);
  CHECK(far->converged == 0);
  CHECK(far->num_samples == 1);
  CHECK(far->samples[0] == 12e-3);
  CHECK(far->calibration > 0);
  timed(12e-3, 11e-3);  // near: it is timed
  CHECK(runs > 0);
  timed(12e-3, 0);  // nothing to be behind
  CHECK(runs > 0);
}

TEST_CASE("disturbed samples decide nothing but what is sure all the same", "[unit]") {
  auto result = std::make_unique<WorkerResult>();
  SECTION("undisturbed ones are enough: the others are dropped") {
    Samples samples;
    for (int i = 0; i < 20; ++i) samples.add(4e-3, 1.8, false);
    for (int i = 0; i < 3; ++i) samples.add(33e-6, 1.02, false);
    samples.give(*result);
    CHECK(result->disturbed == 0);
    CHECK(result->num_samples == 3);
    CHECK(result->dropped == 20);
    CHECK(samples.may_win(34e-6));
    CHECK_FALSE(samples.may_win(30e-6));
  }
  SECTION("a machine that was twice as slow explains twice the time and no more") {
    Samples samples;
    for (int i = 0; i < 3; ++i) samples.add(200e-6, 2, false);
    CHECK(samples.kept() == 0);
    CHECK(samples.may_win(101e-6));
    CHECK_FALSE(samples.may_win(99e-6));
    CHECK_FALSE(samples.clearly_slower(95e-6));
    CHECK(samples.clearly_slower(70e-6));
    CHECK_FALSE(samples.clearly_slower(0));
  }
  SECTION("the further behind, the fewer samples say so") {
    Samples samples;
    auto add = [&](int count) {
      for (int i = 0; i < count; ++i) samples.add(100e-6, 1, false);
    };
    CHECK_FALSE(samples.clearly_slower(1e-6));
    add(1);
    CHECK(samples.clearly_slower(49e-6));
    CHECK_FALSE(samples.clearly_slower(51e-6));
    add(1);
    CHECK(samples.clearly_slower(66e-6));
    CHECK_FALSE(samples.clearly_slower(67e-6));
    add(1);
    CHECK(samples.clearly_slower(90e-6));
    CHECK_FALSE(samples.clearly_slower(92e-6));
    add(2);
    CHECK(samples.clearly_slower(97e-6));
    CHECK_FALSE(samples.clearly_slower(98e-6));
    add(100);
    CHECK_FALSE(samples.clearly_slower(98e-6));
    samples.add(90e-6, 1, false);  // one that was faster is enough of a doubt
    CHECK_FALSE(samples.clearly_slower(90e-6));
  }
  SECTION("undisturbed samples are not called in doubt by a slowdown that the program did not feel") {
    Samples samples;
    samples.add(100e-6, 4, false);
    for (int i = 0; i < 2; ++i) samples.add(100e-6, 1, false);
    CHECK_FALSE(samples.clearly_slower(90e-6));
    samples.add(100e-6, 1, false);
    CHECK(samples.clearly_slower(90e-6));
  }
  SECTION("a single sample of a quiet machine is not a disturbed one") {
    Samples samples;
    samples.add(100e-6, 1, false);
    samples.give(*result);
    CHECK(result->disturbed == 0);
    CHECK(result->num_samples == 1);
  }
  SECTION("a preempted sample does not bound the time") {
    Samples samples;
    for (int i = 0; i < 50; ++i) samples.add(4e-3, 1, true);
    CHECK(samples.may_win(33e-6));
    CHECK_FALSE(samples.clearly_slower(33e-6));
    samples.add(33e-6, 1.5, true);
    samples.give(*result);
    CHECK(result->disturbed == 1);
    CHECK(result->num_samples == 51);
    CHECK(result->dropped == 0);
  }
  SECTION("more than there is room for") {
    Samples samples;
    for (int i = 0; i < 1000; ++i) samples.add(1e-6, 2, false);
    samples.add(1e-6, 1, false);
    samples.give(*result);
    CHECK(result->num_samples <= kMaxSamples);
    CHECK(result->num_samples + result->dropped == 1001);
  }
}

TEST_CASE("the quiet machine is the fastest one ever seen", "[unit]") {
  QuietTimes best;
  best.learn({2, 5});
  best.learn({3, 4});
  best.learn({0, 0});  // knows nothing
  CHECK(best.chain == 2);
  CHECK(best.ports == 4);
  // Measured against a machine that cannot exist every machine is slow; against itself none is faster than at best.
  CHECK(QuietWatch({1e-9, 1e-9}, {}).slowdown() > kQuietSlack);
  int calls = 0;
  static int* counter = nullptr;
  counter = &calls;
  QuietWatch watch({}, [](void (*work)()) {
    ++*counter;
    work();
  });
  CHECK(calls > 0);
  for (int i = 0; i < 5; ++i) CHECK(watch.slowdown() >= 1);
  CHECK(watch.best().chain > 0);
  CHECK(watch.best().ports > 0);
}

TEST_CASE("CPUs are divided between compiling and measuring", "[unit]") {
  // Numbers that no machine has, so that none is another's hyper-thread.
  const std::vector<int> cpus = {900, 901, 902, 903};
  CpuShare share;
  share.divide(cpus, 1, true);
  CHECK(share.measure_cpus() == std::vector<int>{903});
  CHECK(share.compile_cpus() == std::vector<int>{900, 901, 902});
  CHECK(share.divided());
  share.divide(cpus, 3, true);
  CHECK(share.measure_cpus() == std::vector<int>{901, 902, 903});
  CHECK(share.compile_cpus() == std::vector<int>{900});
  share.divide(cpus, 4, true);  // all of them: the two alternate
  CHECK_FALSE(share.divided());
  CHECK(share.measure_cpus() == cpus);
  share.divide(cpus, 8, true);
  CHECK_FALSE(share.divided());
  share.divide(cpus, 1, false);  // no permission
  CHECK_FALSE(share.divided());
  CHECK(share.measure_cpus() == std::vector<int>{903});
}

TEST_CASE("threads that compile keep off the CPUs that measure", "[unit]") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<size_t>(cpu), &before)) cpus.push_back(cpu);
  CpuShare share;
  share.divide(cpus, 1, true);
  if (!share.divided()) SKIP("one core: nothing to divide");
  auto may_use = [](int cpu) {
    cpu_set_t now;
    REQUIRE(sched_getaffinity(0, sizeof now, &now) == 0);
    return CPU_ISSET(static_cast<size_t>(cpu), &now) != 0;
  };
  const int measuring = share.measure_cpus()[0], compiling = share.compile_cpus()[0];
  {
    CpuShare::Compiling here(share);
    CHECK(may_use(measuring));
    share.begin_measuring();
    CHECK_FALSE(may_use(measuring));
    CHECK(may_use(compiling));
    share.end_measuring();
    CHECK(may_use(measuring));
    share.begin_measuring();
  }
  CHECK(may_use(measuring));  // this thread compiles no more
  {
    CpuShare::Compiling late(share);
    CHECK_FALSE(may_use(measuring));
  }
  share.end_measuring();
  cpu_set_t after;
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("the reference is the same kernel in f64", "[unit]") {
  GemmOptions options;
  options.in = ir::Type::kBF16;
  options.out = ir::Type::kF16;
  options.relu = true;
  ir::Kernel naive = make_gemm(options);
  NaiveFacts facts = analyse_naive(naive);
  CHECK(facts.flops == 24.0 * 20 * 28 * 2 + 24 * 20);
  CHECK(facts.reduce_terms == 29);
  CHECK(facts.narrowest == ir::Type::kF32);
  CHECK(facts.integer_constants);
  ir::Kernel f64 = to_double(naive);
  CHECK(ir::verify(f64).empty());
  std::string text = ir::print(f64);
  CHECK_THAT(text, !Catch::Contains("f32") && !Catch::Contains("bf16") && !Catch::Contains("f16"));
  auto magnitude = to_magnitude(f64);
  REQUIRE(magnitude.has_value());
  CHECK(ir::verify(*magnitude).empty());
  options.gelu = true;
  CHECK_FALSE(to_magnitude(to_double(make_gemm(options))).has_value());
  CHECK_FALSE(analyse_naive(make_gemm(options)).integer_constants);
}

TEST_CASE("artifacts and tasks pass through the wire unchanged", "[unit]") {
  codegen::Artifact artifact;
  artifact.code = std::string("\0\1elf", 5);
  artifact.launches.push_back({"tcc_kernel_0", 17});
  artifact.launches[0].cluster = {2, 1, 1};
  artifact.launches[0].cooperative = true;
  artifact.launches[0].tensor_maps.push_back({1, ir::Type::kBF16, {64, 32}, {128}, {64, 8}, 128});
  artifact.buffers.push_back({ir::BufferRole::kWeight, ir::Type::kBF16, {3, 4}, "layout[...]", 24, 64});
  Writer writer;
  put_artifact(writer, artifact);
  Reader reader(writer.bytes());
  codegen::Artifact back = get_artifact(reader);
  CHECK(reader.ok());
  CHECK(back.code == artifact.code);
  CHECK(back.launches[0].symbol == "tcc_kernel_0");
  CHECK(back.launches[0].extent == 17);
  CHECK(back.launches[0].cluster == artifact.launches[0].cluster);
  CHECK(back.launches[0].cooperative);
  CHECK(back.launches[0].tensor_maps == artifact.launches[0].tensor_maps);
  CHECK(back.buffers[0].shape == artifact.buffers[0].shape);
  CHECK(back.buffers[0].layout == artifact.buffers[0].layout);
  for (size_t cut = 0; cut < writer.bytes().size(); ++cut) {
    Reader truncated(std::string_view(writer.bytes()).substr(0, cut));
    get_artifact(truncated);
    CHECK_FALSE(truncated.ok());
  }
}

TEST_CASE("the fake measurer depends on the program alone", "[unit]") {
  std::vector<Candidate> candidates(100);
  for (size_t i = 0; i < candidates.size(); ++i) candidates[i] = {i, 1000 + i};
  FakeMeasurer all(7, 0.2), one_by_one(7, 0.2), other(8, 0.2);
  auto together = all.measure(candidates).value();
  auto elsewhere = other.measure(candidates).value();
  int64_t wrong = 0, different = 0;
  for (size_t i = candidates.size(); i-- > 0;) {
    auto alone = one_by_one.measure(std::span(candidates).subspan(i, 1)).value()[0];
    CHECK(alone.median == together[i].median);
    CHECK(alone.samples == together[i].samples);
    CHECK(alone.status == together[i].status);
    CHECK(together[i].id == i);
    wrong += together[i].status == record::Status::kWrong;
    different += together[i].median != elsewhere[i].median;
  }
  CHECK(wrong > 5);
  CHECK(wrong < 40);
  CHECK(different > 50);
  CHECK(all.measured() == 100);
}

TEST_CASE("a paired comparison ends once what it is asked is known", "[unit]") {
  // One process in which A takes `ratio` times B's time.
  auto process = [](double ratio) {
    auto result = std::make_unique<WorkerResult>();
    result->num_samples = 4 * kMinimalPairs;
    for (size_t i = 0; i < static_cast<size_t>(result->num_samples); ++i) {
      result->samples_b[i] = 1e-3 * (1 + 1e-4 * static_cast<double>(i % 3));
      result->samples[i] = ratio * result->samples_b[i];
    }
    return result;
  };
  auto tally_of = [&](double ratio, PairAim aim) {
    PairTally tally(aim);
    int processes = 0;
    for (; processes < kPairedProcesses && tally.open(); ++processes) tally.add(*process(ratio), false);
    return std::pair(processes, tally.close().winner);
  };
  using Winner = PairedComparison::Winner;
  CHECK(tally_of(0.9, PairAim::kWhoWins) == std::pair(kPairedProcesses, Winner::kA));
  CHECK(tally_of(0.9, PairAim::kWhetherAWins) == std::pair(kPairedProcesses, Winner::kA));
  CHECK(tally_of(1.1, PairAim::kWhoWins) == std::pair(kPairedProcesses, Winner::kB));
  CHECK(tally_of(1.1, PairAim::kWhetherAWins) == std::pair(1, Winner::kNone));
  CHECK(tally_of(1, PairAim::kWhoWins) == std::pair(1, Winner::kNone));
  PairTally swapped(PairAim::kWhetherAWins);
  swapped.add(*process(1.1), true);  // the worker's first program was B
  CHECK(swapped.open());
}
