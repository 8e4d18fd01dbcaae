#include "tcc/fleet/message.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fleet/hmac.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/record/record.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::fleet {

using nlohmann::json;

namespace {

constexpr std::string_view kMagic = "TCC1";
constexpr size_t kMaxSamples = 1 << 16, kMaxText = 16 << 10, kMaxDecisions = 1 << 12;
constexpr int kMaxDepth = 32;

// The messages of the parser and of at() quote the text; they are sanitized where they are shown.
struct BadBody {
  std::string what;
};

[[noreturn]] void bad(std::string what) {
  throw BadBody{std::move(what)};
}

std::string text_of(const json& j, const char* name, size_t most = kMaxText) {
  auto text = j.at(name).get<std::string>();
  if (text.size() > most) bad(fmt::format("{} is longer than {} bytes", name, most));
  return text;
}

std::string name_of(const json& j, const char* name) {
  std::string text = text_of(j, name, 64);
  if (!is_name(text)) bad(fmt::format("{} is not a name", name));
  return text;
}

// Numbers of JSON beside the type's range would be undefined when they are converted.
int64_t int_of(const json& j, const char* name, int64_t low = INT64_MIN, int64_t high = INT64_MAX) {
  const json& value = j.at(name);
  if (!value.is_number_integer()) bad(fmt::format("{} is not an integer", name));
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    bad(fmt::format("{} is out of range", name));
  const auto number = value.get<int64_t>();
  if (number < low || number > high) bad(fmt::format("{} is out of range", name));
  return number;
}

double real_of(const json& j, const char* name, double low = 0) {
  const json& value = j.at(name);
  if (!value.is_number()) bad(fmt::format("{} is not a number", name));
  const auto number = value.get<double>();
  if (!std::isfinite(number) || number < low) bad(fmt::format("{} is out of range", name));
  return number;
}

uint64_t hash_of(const json& j, const char* name) {
  const std::string text = text_of(j, name, 16);
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    bad(fmt::format("{} is not a hash", name));
  return std::stoull(text, nullptr, 16);
}

bool flag_of(const json& j, const char* name) {
  if (!j.at(name).is_boolean()) bad(fmt::format("{} is not true or false", name));
  return j.at(name).get<bool>();
}

// What measuring takes for granted of a task.
void check_naive(const ir::Kernel& naive) {
  if (naive.stage != ir::Stage::kBuilt) bad("the kernel of a task is scheduled already");
  if (!naive.scalars.empty()) bad("the kernel of a task has sizes that are parameters");
  for (const ir::Buffer* buffer : naive.buffers)
    for (const ir::Expr extent : buffer->shape)
      if (!ir::is_int(extent) || ir::int_value(extent) < 0) bad("a tensor of a task has a size that is not a number");
  if (const std::vector<std::string> faults = ir::verify(naive); !faults.empty())
    bad("the kernel of a task is not valid: " + faults[0]);
}

// Parses, looks at the schema and calls read(json). Whatever is wrong is a refusal.
template <class T, class Read>
Opened<T> read_body(std::string_view body, Read&& read) {
  try {
    const json j = json::parse(body, [](int depth, json::parse_event_t, json&) {
      if (depth > kMaxDepth) bad("nested too deeply");
      return true;
    });
    if (!j.is_object() || !j.contains("schema") || !j["schema"].is_number_integer())
      return tl::make_unexpected(std::pair(Refusal::kSchema, std::string("no number of a schema")));
    if (const json& schema = j["schema"]; schema != kSchema)
      return tl::make_unexpected(
          std::pair(Refusal::kSchema, fmt::format("schema {}, where this tcc reads {}", schema.dump(), kSchema)));
    T out;
    read(j, out);
    return out;
  } catch (const BadBody& error) {
    return tl::make_unexpected(std::pair(Refusal::kBody, error.what));
  } catch (const json::exception& error) {
    return tl::make_unexpected(std::pair(Refusal::kBody, std::string(error.what())));
  }
}

std::string dump(json j) {
  j["schema"] = kSchema;
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

// One list for both directions: X(member, kind), kind one of real, signed_real, integer, flag.
// clang-format off
#define TCC_FLEET_MEASUREMENT(X) \
  X(median, real) X(low, real) X(high, real) X(converged, flag) X(cut_short, flag) X(repeats, integer) \
  X(dropped, integer) X(calibration, real) X(threads, integer) X(overlap, flag) X(max_error, real) \
  X(compile_seconds, real) X(device_seconds, real) X(disturbed, flag) X(twin, flag) X(cold, flag) X(run_seconds, real)
// clang-format on

double finite(double value) {
  return std::isfinite(value) ? value : 1e300;
}

json json_of(const measure::Measurement& m) {
  json j = {{"status", record::status_name(m.status)},
            {"failure", m.failure.substr(0, kMaxText)},
            {"samples", m.samples},
            {"gate", m.gate},
            {"code", record::hash_text(m.code)},
            {"layouts", m.layouts},
            {"where", m.where},
            {"counts", {m.counts.dram_bytes, m.counts.tensor_share, m.counts.occupancy}}};
#define TCC_real(member) j[#member] = finite(m.member);
#define TCC_integer(member) j[#member] = m.member;
#define TCC_flag(member) j[#member] = m.member;
#define TCC_X(member, kind) TCC_##kind(member)
  TCC_FLEET_MEASUREMENT(TCC_X)
#undef TCC_X
#undef TCC_flag
#undef TCC_integer
#undef TCC_real
  if (m.device) j["device"] = {{"isa", m.device->isa}, {"text", m.device->text}};
  return j;
}

measure::Measurement measurement_of(const json& j) {
  measure::Measurement m;
  if (!record::find_name(text_of(j, "status", 32), m.status)) bad("the status has an unknown name");
  m.failure = text_of(j, "failure"), m.gate = text_of(j, "gate", 64), m.layouts = text_of(j, "layouts");
  m.where = text_of(j, "where"), m.code = hash_of(j, "code");
  const json& samples = j.at("samples");
  if (!samples.is_array() || samples.size() > kMaxSamples) bad("samples are not a list of at most 65,536");
  for (const json& s : samples) {
    if (!s.is_number() || !std::isfinite(s.get<double>()) || s.get<double>() < 0) bad("a sample is out of range");
    m.samples.push_back(s.get<double>());
  }
  const json& counts = j.at("counts");
  if (!counts.is_array() || counts.size() != 3) bad("expected three counts");
  for (const json& c : counts)
    if (!c.is_number() || !std::isfinite(c.get<double>())) bad("a count is out of range");
  m.counts = {counts[0].get<double>(), counts[1].get<double>(), counts[2].get<double>()};
#define TCC_real(member) m.member = real_of(j, #member);
#define TCC_integer(member) m.member = int_of(j, #member, 0);
#define TCC_flag(member) m.member = flag_of(j, #member);
#define TCC_X(member, kind) TCC_##kind(member)
  TCC_FLEET_MEASUREMENT(TCC_X)
#undef TCC_X
#undef TCC_flag
#undef TCC_integer
#undef TCC_real
  if (m.status == record::Status::kOk && !(m.median > 0)) bad("a right program has no time");
  if (j.contains("device"))
    m.device = std::make_shared<measure::DeviceFacts>(
        measure::DeviceFacts{text_of(j["device"], "isa", 256), text_of(j["device"], "text")});
  return m;
}

}  // namespace

std::string work_stream(const std::string& machine_class) {
  return "TCC_WORK_" + machine_class;
}
std::string work_subject(const std::string& machine_class, int lane) {
  return fmt::format("tcc.work.{}.{}", machine_class, lane);
}
std::string lane_consumer(int lane) {
  return fmt::format("lane{}", lane);
}
std::string final_subject(const std::string& worker) {
  return "tcc.final." + worker;
}
std::string task_subject(const std::string& key) {
  return "tcc.task." + key;
}
std::string result_subject(const std::string& run) {
  return "tcc.result." + run;
}
std::string beat_subject(const std::string& worker) {
  return "tcc.beat." + worker;
}
std::string class_subject(const std::string& machine_class) {
  return "tcc.class." + machine_class;
}
std::string poison_subject(const std::string& machine_class) {
  return "tcc.poison." + machine_class;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::string_view refusal_name(Refusal refusal) {
  switch (refusal) {
    case Refusal::kSize:
      return "size";
    case Refusal::kForm:
      return "form";
    case Refusal::kHmac:
      return "hmac";
    case Refusal::kSchema:
      return "schema";
    case Refusal::kBody:
      return "body";
  }
  return "";
}

std::string seal(std::string_view key, std::string_view subject, std::string_view body) {
  const Digest digest = hmac_sha256(key, {subject, std::string_view("\0", 1), body});
  std::string message(kMagic);
  message.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return message.append(body);
}

Opened<std::string_view> open_sealed(std::string_view key, std::string_view subject, std::string_view message,
                                     size_t most) {
  const auto refuse = [](Refusal why, std::string text) {
    return tl::make_unexpected(std::pair(why, std::move(text)));
  };
  if (message.size() > most) return refuse(Refusal::kSize, fmt::format("{} bytes, at most {}", message.size(), most));
  Digest given;
  if (message.size() < kMagic.size() + given.size() || !message.starts_with(kMagic))
    return refuse(Refusal::kForm, "not a message of a fleet");
  std::memcpy(given.data(), message.data() + kMagic.size(), given.size());
  const std::string_view body = message.substr(kMagic.size() + given.size());
  if (!equal_digests(given, hmac_sha256(key, {subject, std::string_view("\0", 1), body})))
    return refuse(Refusal::kHmac, "made with another key, or for another subject");
  return body;
}

std::string task_key(const ir::Kernel& naive, const target::Target& target) {
  const uint64_t machine =
      combine_hash(hash_bytes(target::target_to_json(target)), static_cast<uint64_t>(target.cuda.simulated));
  return record::hash_text(combine_hash(ir::hash_kernel(naive), machine));
}

std::string print_task(const TaskText& task) {
  return dump({{"task", task.key},
               {"kernel", ir::print(task.naive)},
               {"target", target::target_to_json(task.target)},
               {"simulated", task.target.cuda.simulated}});
}

Opened<TaskText> parse_task(std::string_view body) {
  return read_body<TaskText>(body, [](const json& j, TaskText& task) {
    task.key = name_of(j, "task");
    auto target = target::target_from_json(text_of(j, "target", kMaxMessageBytes));
    if (!target) bad(target.error().message);
    task.target = std::move(*target);
    task.target.cuda.simulated = int_of(j, "simulated", 0);
    auto kernel = ir::parse(text_of(j, "kernel", kMaxMessageBytes));
    if (!kernel) bad(kernel.error().message);
    task.naive = std::move(*kernel);
    check_naive(task.naive);
    if (task.key != task_key(task.naive, task.target)) bad("the kernel and the target are not those of the key");
  });
}

std::string print_job(const Job& job) {
  json programs = json::array();
  for (const Program& p : job.programs)
    programs.push_back({{"nest", record::hash_text(p.nest_hash)}, {"trace", p.trace}, {"finalist", p.finalist}});
  return dump({{"id", job.id},
               {"run", job.run},
               {"task", job.task},
               {"tool", job.tool},
               {"number", record::hash_text(job.number)},
               {"threads", job.threads},
               {"programs", std::move(programs)},
               {"whether", job.aim == measure::PairAim::kWhetherAWins}});
}

Opened<Job> parse_job(std::string_view body) {
  return read_body<Job>(body, [](const json& j, Job& job) {
    job.id = name_of(j, "id"), job.run = name_of(j, "run"), job.task = name_of(j, "task");
    job.tool = text_of(j, "tool", 256), job.number = hash_of(j, "number"), job.threads = int_of(j, "threads", 1, 1024);
    job.aim = flag_of(j, "whether") ? measure::PairAim::kWhetherAWins : measure::PairAim::kWhoWins;
    const json& programs = j.at("programs");
    if (!programs.is_array() || programs.empty() || programs.size() > 2) bad("expected one program or two");
    for (const json& p : programs) {
      job.programs.push_back({hash_of(p, "nest"), text_of(p, "trace", kMaxJobBytes), flag_of(p, "finalist")});
      const std::string& trace = job.programs.back().trace;
      if (std::count(trace.begin(), trace.end(), '[') > static_cast<int64_t>(kMaxDecisions) * 8)
        bad("the trace is too long");
    }
  });
}

std::string print_answer(const Answer& answer) {
  json j = {{"id", answer.id},
            {"worker", answer.worker},
            {"unknown_task", answer.unknown_task},
            {"poison", answer.poison},
            {"trouble", answer.trouble.substr(0, kMaxText)}};
  if (answer.measured) j["measured"] = json_of(*answer.measured);
  if (const auto& c = answer.compared)
    j["compared"] = {{"winner", static_cast<int>(c->winner)},
                     {"ratio", finite(c->ratio)},
                     {"low", finite(c->low)},
                     {"high", finite(c->high)},
                     {"pairs", c->pairs},
                     {"failure", c->failure}};
  return dump(std::move(j));
}

Opened<Answer> parse_answer(std::string_view body) {
  return read_body<Answer>(body, [](const json& j, Answer& answer) {
    answer.id = name_of(j, "id"), answer.worker = name_of(j, "worker");
    answer.unknown_task = flag_of(j, "unknown_task"), answer.poison = flag_of(j, "poison");
    answer.trouble = text_of(j, "trouble");
    if (j.contains("measured")) answer.measured = measurement_of(j["measured"]);
    if (!j.contains("compared")) return;
    const json& c = j["compared"];
    measure::PairedComparison& pair = answer.compared.emplace();
    pair.winner = static_cast<measure::PairedComparison::Winner>(int_of(c, "winner", 0, 2));
    pair.ratio = real_of(c, "ratio"), pair.low = real_of(c, "low"), pair.high = real_of(c, "high");
    pair.pairs = int_of(c, "pairs", 0), pair.failure = text_of(c, "failure");
  });
}

std::string print_beat(const Beat& b) {
  return dump({{"worker", b.worker},     {"class", b.machine_class},
               {"tool", b.tool},         {"host", b.host},
               {"machine", b.machine},   {"target", b.target},
               {"platform", b.platform}, {"features", record::hash_text(b.features)},
               {"threads", b.threads},   {"kind", record::kind_name(b.kind)},
               {"compares", b.compares}, {"calibration", b.calibration},
               {"started", b.started},   {"now", b.now},
               {"state", b.state},       {"done", b.done},
               {"failed", b.failed},     {"refused", b.refused},
               {"poisoned", b.poisoned}, {"redelivered", b.redelivered},
               {"rate", b.rate}});
}

Opened<Beat> parse_beat(std::string_view body) {
  return read_body<Beat>(body, [](const json& j, Beat& b) {
    b.worker = name_of(j, "worker"), b.machine_class = name_of(j, "class"), b.tool = text_of(j, "tool", 256);
    b.machine = j.contains("machine") ? text_of(j, "machine", 64) : "";  // workers of older versions say nothing
    b.host = text_of(j, "host", 256), b.target = text_of(j, "target", 256), b.platform = text_of(j, "platform", 512);
    b.features = hash_of(j, "features"), b.threads = int_of(j, "threads", 1, 1024);
    if (!record::find_name(text_of(j, "kind", 32), b.kind)) bad("the kind has an unknown name");
    b.compares = flag_of(j, "compares"), b.calibration = real_of(j, "calibration");
    b.started = int_of(j, "started", 0), b.now = int_of(j, "now", 0), b.state = text_of(j, "state", 32);
    b.done = int_of(j, "done", 0), b.failed = int_of(j, "failed", 0), b.refused = int_of(j, "refused", 0);
    b.poisoned = int_of(j, "poisoned", 0), b.redelivered = int_of(j, "redelivered", 0), b.rate = real_of(j, "rate");
  });
}

std::string print_calibration(double seconds, const std::string& worker) {
  return dump({{"seconds", seconds}, {"worker", worker}});
}
Opened<double> parse_calibration(std::string_view body) {
  return read_body<double>(body, [](const json& j, double& seconds) { seconds = real_of(j, "seconds"); });
}

std::string print_control(const Control& control) {
  return dump({{"drain", control.worker}, {"now", control.now}});
}
Opened<Control> parse_control(std::string_view body) {
  return read_body<Control>(body, [](const json& j, Control& control) {
    control.worker = text_of(j, "drain", 64), control.now = int_of(j, "now", 0);
  });
}

std::string machine_class(const target::Target& target, const std::string& platform, int64_t threads,
                          const std::string& tool, record::Kind kind) {
  uint64_t hash = combine_hash(target::feature_hash(target), hash_bytes(platform));
  hash = combine_hash(hash, static_cast<uint64_t>(threads));
  hash = combine_hash(hash, hash_bytes(tool));
  hash = combine_hash(hash, hash_bytes(record::kind_name(kind)));
  hash = combine_hash(hash, kLanes);
  std::string name = target.name.substr(0, 40);
  for (char& c : name)
    if (!is_name(std::string_view(&c, 1))) c = '-';
  return fmt::format("{}-{}", name, record::hash_text(hash).substr(0, 8));
}

}  // namespace tcc::fleet
