#include "limits.h"

#include <array>

#include "field_reader.h"
#include "tcc/support/text.h"

namespace tcc::onnx {
namespace {

// What the payload of a field is. From kModel on: a message, whose fields kRules lists.
enum class Kind {
  kUnknown,
  kText,
  kName,
  kPacked,
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparse,
  kInfo,
  kType,
  kTensorType,
  kListType,
  kMapType,
  kShape,
  kDimension,
  kPair,
  kFunction
};
constexpr size_t kKinds = static_cast<size_t>(Kind::kFunction) + 1;

// Fields that are not listed hold single numbers, or are unknown and skipped by the parser.
struct Rule {
  Kind in;
  uint64_t number;
  Kind is;
};
constexpr Rule kRules[] = {
    {Kind::kModel, 2, Kind::kName},        {Kind::kModel, 3, Kind::kName},
    {Kind::kModel, 4, Kind::kName},        {Kind::kModel, 6, Kind::kText},
    {Kind::kModel, 7, Kind::kGraph},       {Kind::kModel, 8, Kind::kPair},
    {Kind::kModel, 14, Kind::kPair},       {Kind::kModel, 25, Kind::kFunction},
    {Kind::kGraph, 1, Kind::kNode},        {Kind::kGraph, 2, Kind::kName},
    {Kind::kGraph, 5, Kind::kTensor},      {Kind::kGraph, 10, Kind::kText},
    {Kind::kGraph, 11, Kind::kInfo},       {Kind::kGraph, 12, Kind::kInfo},
    {Kind::kGraph, 13, Kind::kInfo},       {Kind::kGraph, 15, Kind::kSparse},
    {Kind::kGraph, 16, Kind::kPair},       {Kind::kNode, 1, Kind::kName},
    {Kind::kNode, 2, Kind::kName},         {Kind::kNode, 3, Kind::kName},
    {Kind::kNode, 4, Kind::kName},         {Kind::kNode, 5, Kind::kAttribute},
    {Kind::kNode, 6, Kind::kText},         {Kind::kNode, 7, Kind::kName},
    {Kind::kNode, 8, Kind::kName},         {Kind::kNode, 9, Kind::kPair},
    {Kind::kAttribute, 1, Kind::kName},    {Kind::kAttribute, 4, Kind::kText},
    {Kind::kAttribute, 5, Kind::kTensor},  {Kind::kAttribute, 6, Kind::kGraph},
    {Kind::kAttribute, 8, Kind::kPacked},  {Kind::kAttribute, 9, Kind::kText},
    {Kind::kAttribute, 10, Kind::kTensor}, {Kind::kAttribute, 11, Kind::kGraph},
    {Kind::kAttribute, 13, Kind::kText},   {Kind::kAttribute, 14, Kind::kType},
    {Kind::kAttribute, 15, Kind::kType},   {Kind::kAttribute, 21, Kind::kName},
    {Kind::kAttribute, 22, Kind::kSparse}, {Kind::kAttribute, 23, Kind::kSparse},
    {Kind::kTensor, 1, Kind::kPacked},     {Kind::kTensor, 3, Kind::kPair},
    {Kind::kTensor, 5, Kind::kPacked},     {Kind::kTensor, 6, Kind::kText},
    {Kind::kTensor, 7, Kind::kPacked},     {Kind::kTensor, 8, Kind::kName},
    {Kind::kTensor, 11, Kind::kPacked},    {Kind::kTensor, 12, Kind::kText},
    {Kind::kTensor, 13, Kind::kPair},      {Kind::kTensor, 16, Kind::kPair},
    {Kind::kSparse, 1, Kind::kTensor},     {Kind::kSparse, 2, Kind::kTensor},
    {Kind::kSparse, 3, Kind::kPacked},     {Kind::kInfo, 1, Kind::kName},
    {Kind::kInfo, 2, Kind::kType},         {Kind::kInfo, 3, Kind::kText},
    {Kind::kInfo, 4, Kind::kPair},         {Kind::kType, 1, Kind::kTensorType},
    {Kind::kType, 4, Kind::kListType},     {Kind::kType, 5, Kind::kMapType},
    {Kind::kType, 6, Kind::kName},         {Kind::kType, 8, Kind::kTensorType},
    {Kind::kType, 9, Kind::kListType},     {Kind::kTensorType, 2, Kind::kShape},
    {Kind::kListType, 1, Kind::kType},     {Kind::kMapType, 2, Kind::kType},
    {Kind::kShape, 1, Kind::kDimension},   {Kind::kDimension, 2, Kind::kName},
    {Kind::kDimension, 3, Kind::kName},    {Kind::kPair, 1, Kind::kText},
    {Kind::kPair, 2, Kind::kText},         {Kind::kFunction, 1, Kind::kName},
    {Kind::kFunction, 4, Kind::kName},     {Kind::kFunction, 5, Kind::kName},
    {Kind::kFunction, 6, Kind::kName},     {Kind::kFunction, 7, Kind::kNode},
    {Kind::kFunction, 8, Kind::kText},     {Kind::kFunction, 9, Kind::kPair},
    {Kind::kFunction, 10, Kind::kName},    {Kind::kFunction, 11, Kind::kAttribute},
    {Kind::kFunction, 12, Kind::kInfo},    {Kind::kFunction, 13, Kind::kName},
    {Kind::kFunction, 14, Kind::kPair},
};

constexpr size_t kFields = 32;
constexpr auto kTable = [] {
  std::array<std::array<Kind, kFields>, kKinds> table{};
  for (const Rule& rule : kRules) table[static_cast<size_t>(rule.in)][rule.number] = rule.is;
  return table;
}();

Kind kind_of(Kind in, uint64_t number) {
  return number < kFields ? kTable[static_cast<size_t>(in)][number] : Kind::kUnknown;
}

class Counter {
 public:
  explicit Counter(const std::string& name) : name_(name) {}

  // False at the first field above a limit; `error` names it. Bytes that are not fields make the model `broken`.
  bool walk(Bytes message, Kind kind, int depth) {
    if (depth > kMaxNesting) return refuse(fmt::format("is nested more than {} messages deep", kMaxNesting));
    if (kind == Kind::kNode && ++nodes_ > kMaxNodes) return refuse(fmt::format("has more than {} nodes", kMaxNodes));
    FieldReader reader(message);
    while (auto field = reader.next()) {
      if (field->type != 2) {
        if (++numbers_ > kMaxPacked) return refuse("has too many numbers outside of its weights");
        continue;
      }
      if (!enter(*field, kind_of(kind, field->number), depth)) return false;
    }
    broken |= reader.broken();
    return true;
  }

  std::string error;
  bool broken = false;

 private:
  bool refuse(std::string what) {
    error = fmt::format("'{}' {}", sanitize(name_), what);
    return false;
  }

  bool enter(const Field& field, Kind kind, int depth) {
    if (kind != Kind::kUnknown && ++parts_ > kMaxParts) return refuse(fmt::format("has more than {} parts", kMaxParts));
    switch (kind) {
      case Kind::kUnknown:
      case Kind::kText:
        return true;
      case Kind::kName:
        if (field.payload.size() <= kMaxNameBytes) return true;
        return refuse(
            fmt::format("has a name of {} bytes; at most {} are supported", field.payload.size(), kMaxNameBytes));
      case Kind::kPacked:
        numbers_ += static_cast<int64_t>(field.payload.size());
        return numbers_ <= kMaxPacked || refuse("has too many numbers outside of its weights");
      default:  // a message
        return walk(field.payload, kind, depth + 1);
    }
  }

  const std::string& name_;
  int64_t nodes_ = 0, parts_ = 0, numbers_ = 0;
};

}  // namespace

Result<bool> check_limits(std::span<const std::byte> model, const std::string& name) {
  Counter counter(name);
  if (counter.walk(model, Kind::kModel, 1)) return !counter.broken;
  return make_error(ErrorClass::kInput, counter.error, "no exporter writes such a file; is it damaged?");
}

}  // namespace tcc::onnx
