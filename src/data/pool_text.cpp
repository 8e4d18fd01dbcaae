// Pools as lines of JSON, for other programs: {"group": {...}} with the task, the platform and the sketches, then
// {"decisions": [...], "sketch": n, "seconds": x} or {..., "failed": "wrong"} for each program.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tcc/data/pool.h"
#include "tcc/ir/text.h"
#include "tcc/support/text.h"

namespace tcc::data {

using nlohmann::json;

namespace {

constexpr size_t kMaxSketches = 1 << 16, kMaxTrace = size_t{4} << 20;

json head_of(const Group& g) {
  json sketches = json::array();
  for (const schedule::Trace& t : g.sketches) sketches.push_back(json::parse(schedule::trace_to_json(t)));
  return {{"group",
           {{"task", g.task.key},
            {"workload", g.task.workload},
            {"anchor", task::anchor_name(g.task.anchor)},
            {"anchor_block", g.task.anchor_block},
            {"flops", g.task.flops},
            {"weight", g.task.weight},
            {"kernel", ir::print(g.task.kernel)},
            {"platform", g.platform.name},
            {"threads", g.platform.threads},
            {"kind", record::kind_name(g.platform.kind)},
            {"target", json::parse(target::target_to_json(g.platform.target))},
            {"space", g.space},
            {"sketches", std::move(sketches)}}}};
}

// Throws json::exception where a value is missing or of another type. "" or what is wrong.
std::string read_head(const json& j, Group& g) {
  j.at("task").get_to(g.task.key), j.at("workload").get_to(g.task.workload);
  j.at("anchor_block").get_to(g.task.anchor_block), j.at("flops").get_to(g.task.flops);
  j.at("weight").get_to(g.task.weight), j.at("platform").get_to(g.platform.name);
  j.at("threads").get_to(g.platform.threads), j.at("space").get_to(g.space);
  const auto anchor = j.at("anchor").get<std::string>(), kind = j.at("kind").get<std::string>();
#define TCC_X(name, text) \
  if (anchor == text) g.task.anchor = task::AnchorKind::k##name;
  TCC_TASK_ANCHORS(TCC_X)
#undef TCC_X
  if (task::anchor_name(g.task.anchor) != anchor) return "the task is of an unknown kind";
  if (!record::find_name(kind, g.platform.kind)) return "the times are of an unknown kind";
  if (!std::isfinite(g.task.flops) || g.task.flops < 0 || g.task.weight < 1 || g.platform.threads < 1)
    return "numbers are impossible";
  auto target = target::target_from_json(j.at("target").dump());
  if (!target) return target.error().message;
  g.platform.target = std::move(*target);
  auto kernel = ir::parse(j.at("kernel").get<std::string>());
  if (!kernel) return kernel.error().message;
  g.task.kernel = std::move(*kernel);
  if (g.task.key != fmt::format("{:016x}", ir::hash_kernel(g.task.kernel))) return "the kernel is not that of the key";
  const json& sketches = j.at("sketches");
  if (!sketches.is_array() || sketches.size() > kMaxSketches) return "expected a list of sketches of at most 65,536";
  for (const json& s : sketches) {
    const std::string text = s.dump();
    if (text.size() > kMaxTrace) return "a sketch is too long";
    auto trace = schedule::trace_from_json(text);
    if (!trace) return trace.error().message;
    g.sketches.push_back(std::move(*trace));
  }
  return "";
}

std::string read_entry(const json& j, Group& g) {
  Entry e;
  j.at("sketch").get_to(e.sketch), j.at("decisions").get_to(e.decisions);
  if (e.sketch < 0 || e.sketch >= std::ssize(g.sketches)) return "the group has no such sketch";
  if (e.decisions.size() != g.sketches[static_cast<size_t>(e.sketch)].decisions.size())
    return "the sketch has another number of decisions";
  if (j.contains("failed")) {
    if (!record::find_name(j.at("failed").get<std::string>(), e.status) || e.status == record::Status::kOk)
      return "the failure has an unknown name";
  } else {
    j.at("seconds").get_to(e.seconds);
    if (!std::isfinite(e.seconds) || e.seconds <= 0) return "the seconds are not above 0";
  }
  g.entries.push_back(std::move(e));
  return "";
}

}  // namespace

std::string export_pool(const Pool& pool) {
  std::string out;
  for (const Group& g : pool.groups) {
    out += head_of(g).dump() + "\n";
    for (const Entry& e : g.entries) {
      json line = {{"sketch", e.sketch}, {"decisions", e.decisions}};
      if (e.status == record::Status::kOk)
        line["seconds"] = e.seconds;
      else
        line["failed"] = record::status_name(e.status);
      out += line.dump() + "\n";
    }
  }
  return out;
}

Result<Pool> import_pool(std::string_view text, const std::string& name) {
  Pool pool;
  Group group;
  bool any = false;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.empty()) continue;
    std::string why;
    try {
      const json value = json::parse(row);
      if (value.is_object() && value.contains("group")) {
        if (any) pool.add(group);
        group = {}, any = true;
        why = read_head(value["group"], group);
      } else {
        why = any ? read_entry(value, group) : "a program comes before the first group";
      }
    } catch (const json::exception& e) {
      why = e.what();
    }
    if (!why.empty())
      return input_error("{} line {}: expected a line of an exported pool: {}", sanitize(name), line, sanitize(why));
  }
  if (any) pool.add(group);
  return pool;
}

}  // namespace tcc::data
