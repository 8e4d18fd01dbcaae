// Messages that come back as they were sent, and messages that are refused.
#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "fleet/hmac.h"
#include "tcc/fleet/access.h"
#include "tcc/fleet/message.h"
#include "tcc/ir/text.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::fleet;
using Catch::Matchers::Contains;

namespace {

std::string hex_of(const Digest& digest) {
  std::string out;
  for (const uint8_t byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

constexpr std::string_view kKernel = R"(kernel built {
  input A: f32[8]
  output B: f32[8]
  for i in 8 {
    block b(vi: spatial 8 = i) {
      B[vi] = A[vi] + 1.0
    }
  }
})";

TaskText a_task() {
  auto kernel = ir::parse(kKernel);
  if (!kernel) FAIL(kernel.error().message);
  TaskText task;
  task.naive = *kernel, task.target = target::host_target();
  task.key = task_key(task.naive, task.target);
  return task;
}

Job a_job() {
  return {.id = "0123456789abcdef",
          .run = "run-1",
          .task = "fedcba9876543210",
          .tool = "0.1.0",
          .number = 77,
          .threads = 2,
          .programs = {{42, "{\"trace\": []}", false}},
          .aim = measure::PairAim::kWhetherAWins};
}

Answer an_answer() {
  Answer answer;
  answer.id = "0123456789abcdef", answer.worker = "w-1";
  measure::Measurement& m = answer.measured.emplace();
  m.samples = {1e-3, 1.25e-3}, m.median = 1.1e-3, m.low = 1e-3, m.high = 1.25e-3, m.converged = true, m.repeats = 3;
  m.gate = "exact", m.code = 0xfedcba9876543210, m.layouts = "0 [8]", m.where = "parameter 1 [0]", m.cold = true;
  m.counts = {5, 0.5, -1}, m.threads = 2, m.run_seconds = 0.25;
  m.device = std::make_shared<measure::DeviceFacts>(measure::DeviceFacts{"x86-64-v3", "{}"});
  return answer;
}

}  // namespace

TEST_CASE("HMACs are those of the standard, an empty key and several parts included") {
  // RFC 4231, cases 1, 2 and 6.
  CHECK(hex_of(hmac_sha256(std::string(20, '\x0b'), {"Hi There"})) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex_of(hmac_sha256("Jefe", {"what do ya want ", "for nothing?"})) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex_of(hmac_sha256(std::string(131, '\xaa'), {"Test Using Larger Than Block-Size Key - Hash Key First"})) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(hex_of(hmac_sha256("", {})) == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST_CASE("messages come back as they were sent") {
  const Job job = a_job();
  const Opened<Job> read = parse_job(print_job(job));
  REQUIRE(read);
  CHECK(read->id == job.id);
  CHECK(read->run == job.run);
  CHECK(read->task == job.task);
  CHECK(read->tool == job.tool);
  CHECK(read->number == job.number);
  CHECK(read->threads == job.threads);
  CHECK(read->programs.size() == 1);
  CHECK(read->programs[0].nest_hash == 42);
  CHECK(read->programs[0].trace == job.programs[0].trace);
  CHECK(read->aim == job.aim);

  const Answer answer = an_answer();
  const Opened<Answer> back = parse_answer(print_answer(answer));
  REQUIRE(back);
  REQUIRE(back->measured);
  const measure::Measurement &m = *back->measured, &n = *answer.measured;
  CHECK(m.samples == n.samples);
  CHECK(m.median == n.median);
  CHECK(m.code == n.code);
  CHECK(m.gate == n.gate);
  CHECK(m.layouts == n.layouts);
  CHECK(m.where == n.where);
  CHECK(m.counts == n.counts);
  CHECK(m.cold == n.cold);
  CHECK(m.repeats == n.repeats);
  REQUIRE(m.device);
  CHECK(m.device->isa == n.device->isa);

  Answer pair;
  pair.id = "a", pair.worker = "w";
  pair.compared = measure::PairedComparison{measure::PairedComparison::Winner::kB, 1.1, 1.05, 1.2, 60, ""};
  const Opened<Answer> compared = parse_answer(print_answer(pair));
  REQUIRE(compared);
  REQUIRE(compared->compared);
  CHECK(compared->compared->winner == measure::PairedComparison::Winner::kB);
  CHECK(compared->compared->ratio == 1.1);

  const TaskText task = a_task();
  const Opened<TaskText> text = parse_task(print_task(task));
  if (!text) FAIL(text.error().second);
  CHECK(ir::hash_kernel(text->naive) == ir::hash_kernel(task.naive));
  CHECK(target::feature_hash(text->target) == target::feature_hash(task.target));
}

TEST_CASE("a message counts only under its key, for its subject, below its size") {
  const std::string key = "0123456789abcdef0123", body = print_job(a_job());
  const std::string message = seal(key, "tcc.work.a", body);
  const auto opened = open_sealed(key, "tcc.work.a", message);
  REQUIRE(opened);
  CHECK(*opened == body);
  CHECK(open_sealed("0123456789abcdef0124", "tcc.work.a", message).error().first == Refusal::kHmac);
  CHECK(open_sealed(key, "tcc.work.b", message).error().first == Refusal::kHmac);
  CHECK(open_sealed(key, "tcc.work.a", message, 10).error().first == Refusal::kSize);
  CHECK(open_sealed(key, "tcc.work.a", "TCC1").error().first == Refusal::kForm);
  std::string other = message;
  other.back() ^= 1;
  CHECK(open_sealed(key, "tcc.work.a", other).error().first == Refusal::kHmac);
}

TEST_CASE("bodies of another schema, and bodies that are not what they should be, are refused") {
  std::string body = print_job(a_job());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string out = body;
    const size_t at = out.find(from);
    REQUIRE(at != std::string::npos);
    return out.replace(at, from.size(), to);
  };
  CHECK(parse_job(with("\"schema\":1", "\"schema\":2")).error().first == Refusal::kSchema);
  CHECK_THAT(parse_job(with("\"schema\":1", "\"schema\":2")).error().second, Contains("schema 2"));
  CHECK(parse_job("[]").error().first == Refusal::kSchema);
  CHECK(parse_job(with("\"threads\":2", "\"threads\":0")).error().first == Refusal::kBody);
  CHECK(parse_job(with("\"threads\":2", "\"threads\":1e300")).error().first == Refusal::kBody);
  CHECK(parse_job(with("\"run-1\"", "\"run.>\"")).error().first == Refusal::kBody);
  CHECK(parse_job(with("\"run-1\"", "\"\"")).error().first == Refusal::kBody);
  CHECK(parse_job(std::string(100000, '[')).error().first == Refusal::kBody);
  body = print_answer(an_answer());
  CHECK(parse_answer(with("\"status\":\"ok\"", "\"status\":\"fine\"")).error().first == Refusal::kBody);
  CHECK(parse_answer(with("\"median\":0.0011", "\"median\":0")).error().first == Refusal::kBody);
  CHECK(parse_answer(with("\"median\":0.0011", "\"median\":-1")).error().first == Refusal::kBody);
  TaskText task = a_task();
  task.key = "0000000000000000";
  CHECK_THAT(parse_task(print_task(task)).error().second, Contains("not those of the key"));
}

// Some of them carry the right HMAC, so that the parsers see them.
TEST_CASE("100,000 hostile messages crash nothing, hang nothing and take little memory", "[fuzz]") {
  const uint64_t seed = 20261126;
  CAPTURE(seed);
  Rng rng(seed);
  const std::string key = "0123456789abcdef0123", subject = "tcc.work.a";
  const std::string bodies[] = {print_job(a_job()), print_answer(an_answer()), print_task(a_task()),
                                print_beat({}),     print_control({"w", 5}),   print_calibration(1e-3, "w")};
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  int64_t opened = 0, parsed = 0;
  std::map<Refusal, int64_t> refused;
  for (int i = 0; i < 100000; ++i) {
    std::string body = bodies[rng.next() % std::size(bodies)];
    const int edits = static_cast<int>(rng.next() % 8);
    for (int e = 0; e < edits && !body.empty(); ++e) {
      const size_t at = rng.next() % body.size();
      switch (rng.next() % 6) {
        case 0:
          body[at] = static_cast<char>(rng.next());
          break;
        case 1:
          body.erase(at, rng.next() % 16);
          break;
        case 2:
          body.insert(at, body.substr(rng.next() % body.size(), rng.next() % 64));
          break;
        case 3:
          body.insert(at, std::string(rng.next() % 2000, "[{\"-9e"[rng.next() % 6]));
          break;
        case 4:
          body.insert(at, "99999999999999999999");
          break;
        default:
          body.resize(at);
      }
    }
    std::string message = seal(key, subject, body);
    if (rng.next() % 4 == 0) message[rng.next() % message.size()] ^= static_cast<char>(1 + rng.next() % 255);
    if (rng.next() % 64 == 0) message.resize(rng.next() % message.size());
    const auto open = open_sealed(key, subject, message, kMaxJobBytes);
    if (!open) {
      ++refused[open.error().first];
      continue;
    }
    ++opened;
    const auto count = [&](const auto& result) {
      if (result)
        ++parsed;
      else
        ++refused[result.error().first];
    };
    count(parse_job(*open)), count(parse_answer(*open)), count(parse_beat(*open));
    count(parse_control(*open)), count(parse_calibration(*open)), count(parse_task(*open));
  }
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  CHECK(opened > 50000);
  CHECK(parsed > 0);
  CHECK(refused[Refusal::kHmac] > 10000);
  CHECK(refused[Refusal::kBody] > 10000);
#ifndef __SANITIZE_ADDRESS__
  CHECK(after.ru_maxrss - before.ru_maxrss < 64 << 10);  // KiB
#endif
}

TEST_CASE("secrets and addresses") {
  Access access;
  access.url = "nats://127.0.0.1:4222";
  REQUIRE(parse_secrets("# a role\nuser tuner\npassword p q \n\nkey 0123456789abcdef\nca_file ca.pem\n", "/etc/tcc/t",
                        access));
  CHECK(access.user == "tuner");
  CHECK(access.password == "p q");
  CHECK(access.ca_file == "/etc/tcc/ca.pem");
  CHECK(check_access(access));
  CHECK_THAT(parse_secrets("pasword geheim\n", "f", access).error().message,
             Contains("line 1") && Contains("pasword") && !Contains("geheim"));
  CHECK_THAT(parse_secrets("pasword geheim\n", "f", access).error().hint, Contains("password"));
  CHECK_THAT(parse_secrets("key\n", "f", access).error().message, Contains("no value of key"));
  CHECK(host_of("tls://[::1]:4222") == "::1");
  CHECK(host_of("tls://a.b:4222") == "a.b");
  for (const char* url : {"", "127.0.0.1", "http://a", "nats://", "nats://u:p@a"}) CHECK(!check_url(url));
  CHECK_THAT(check_url("nats://u:secret@a").error().message, !Contains("secret"));
  access.token = "t";
  CHECK_THAT(check_access(access).error().message, Contains("several"));
  access.token.clear(), access.key = "short";
  CHECK_THAT(check_access(access).error().message, Contains("at least 16"));
  access.key.clear();
  CHECK_THAT(check_access(access).error().message, Contains("key"));
}
