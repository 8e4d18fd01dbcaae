// The networks of the papers, by their layers. The number of parameters at the papers' shapes is a test.
#include "nn/graph.h"

namespace tcc::nn {
namespace {

// Mean and deviation are those of the row: the paper only says "norm", and 512 parameters for two.
View tcl_block(Builder& b, View x, const Config& c, const std::string& name) {
  const int64_t width = x.width, inner = c.expand * width, rank = (width + 15) / 16;
  const View xz = b.linear(x, 2 * inner, Act::kNone, name + ".in", false);
  const View u = b.activation(b.conv(xz.columns(0, inner), c.taps, name + ".conv"), Act::kSilu);
  const View parts = b.linear(u, rank + 2 * c.states, Act::kNone, name + ".x", false);
  const View dt = b.linear(parts.columns(0, rank), inner, Act::kNone, name + ".dt");
  const View y = b.scan(u, dt, parts.columns(rank, 2 * c.states), c.states, name + ".scan");
  const View gated = b.multiply(y, b.activation(xz.columns(inner, inner), Act::kSilu));
  const View out = b.linear(gated, width, Act::kNone, name + ".out", false);
  return c.residual ? b.add(x, out) : out;
}

// The hidden states of KB that AC reads, in order: input of each layer and, for the Mamba block, its input as well.
struct Laterals {
  std::vector<View> states;
  size_t next = 0;
};

// TCL's layer of AC (Eq. 10 with the teacher's own parameters): act(W x + alpha * U act(V h + c) + b), h from KB.
View adapted(Builder& b, View own, View kb, Act act, const std::string& name) {
  const View u = b.linear(b.linear(kb, own.width, Act::kRelu, name + ".V"), own.width, Act::kNone, name + ".U", false);
  const View sum = b.lateral(own, u, name + ".alpha");
  return act == Act::kNone ? sum : b.activation(sum, act);
}

// TCL, section 4.3: 22 -> 64 -> 128 -> 128, norm, Mamba, norm, 128 -> 64 -> 32 -> 1 per step, sum over steps. `record`
// gets the inputs of the layers; `laterals` are those of another network, read by this one's layers.
View tcl(Builder& b, View x, const Config& c, const std::string& prefix, Laterals* record, Laterals* laterals) {
  auto layer = [&](View in, int64_t width, Act act, const std::string& name) {
    if (record) record->states.push_back(in);
    if (!laterals) return b.linear(in, width, act, name);
    const View own = b.linear(in, width, Act::kNone, name);
    return adapted(b, own, laterals->states[laterals->next++], act, name);
  };
  int n = 0;
  for (int64_t width : {64, 128, 128}) x = layer(x, width, Act::kRelu, prefix + "encoder" + std::to_string(n++));
  x = b.dropout(x, c.dropout);
  x = b.layer_norm(x, prefix + "norm0");
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string name = prefix + "mamba" + std::to_string(i);
    if (record) record->states.push_back(x);
    x = tcl_block(b, x, c, name);
    if (laterals) x = adapted(b, x, laterals->states[laterals->next++], Act::kNone, name);
  }
  x = b.layer_norm(x, prefix + "norm1");
  x = layer(x, 64, Act::kRelu, prefix + "decoder0");
  x = layer(x, 32, Act::kRelu, prefix + "decoder1");
  return b.segment_sum(layer(x, c.heads, Act::kNone, prefix + "decoder2"));
}

Graph mamba(Builder b, const Config& c) {
  return b.finish(tcl(b, b.input(Grid::kSequence, c.sequence_width, c.hardware_width), c, "", nullptr, nullptr));
}

Graph mamba_adapter(Builder b, const Config& c) {
  const View x = b.input(Grid::kSequence, c.sequence_width, c.hardware_width);
  Laterals states;
  Config plain = c;
  plain.dropout = 0;
  b.freeze(true);
  tcl(b, x, plain, "kb.", &states, nullptr);
  b.freeze(false);
  return b.finish(tcl(b, x, c, "ac.", nullptr, &states));
}

View residual(Builder& b, View x, const std::string& name) {
  return b.add(x, b.linear(x, x.width, Act::kRelu, name));
}

// TenSet-MLP: 174 -> 256 -> 256 per statement, sum, two residual blocks, 256 -> 1.
View statements(Builder& b, const Config& c) {
  View x = b.input(Grid::kStatement, c.statement_width);
  x = b.linear(x, 256, Act::kRelu, "statement0");
  return b.dropout(b.linear(x, 256, Act::kRelu, "statement1"), c.dropout);
}

Graph mlp(Builder b, const Config& c) {
  View x = b.segment_sum(statements(b, c));
  x = residual(b, residual(b, x, "residual0"), "residual1");
  return b.finish(b.linear(x, c.heads, Act::kNone, "head"));
}

// Self-attention with `heads` heads and a residual; no mask, positions or norm.
View self_attention(Builder& b, View x, int64_t heads) {
  const View mixed = b.attention(b.linear(x, 3 * x.width, Act::kNone, "qkv"), heads);
  return b.add(x, b.linear(mixed, x.width, Act::kNone, "attention"));
}

// TLP, section 4.3, and MTL-TLP, section 5: the heads share everything before them.
Graph tlp(Builder b, const Config& c) {
  View x = b.input(Grid::kSequence, c.sequence_width, c.hardware_width);
  int n = 0;
  for (int64_t width : {64, 128, 256, 256}) x = b.linear(x, width, Act::kRelu, "encoder" + std::to_string(n++));
  x = self_attention(b, b.dropout(x, c.dropout), 8);
  x = residual(b, residual(b, x, "residual0"), "residual1");
  const View scores = b.slot(Grid::kSample, c.heads);
  for (int64_t h = 0; h < c.heads; ++h) {
    View y = x;
    n = 0;
    for (int64_t width : {256, 128, 64})
      y = b.linear(y, width, Act::kRelu, "head" + std::to_string(h) + "." + std::to_string(n++));
    y = b.linear(y, 1, Act::kNone, "head" + std::to_string(h) + "." + std::to_string(n));
    b.segment_sum_to(y, scores.columns(h, 1));
  }
  return b.finish(scores);
}

// PaCM (Pruner): the statements of TenSet-MLP beside the dataflow of data blocks, joined before the residual blocks.
Graph pacm(Builder b, const Config& c) {
  const View joined = b.slot(Grid::kSample, 384);
  b.segment_sum_to(statements(b, c), joined.columns(0, 256));
  View y = b.input(Grid::kDataflow, c.dataflow_width);
  y = b.linear(b.linear(y, 64, Act::kRelu, "dataflow0"), 128, Act::kRelu, "dataflow1");
  b.segment_sum_to(self_attention(b, y, 4), joined.columns(256, 128));
  View x = b.batch_norm(b.linear(joined, 256, Act::kRelu, "join"), "norm");
  x = residual(b, residual(b, x, "residual0"), "residual1");
  return b.finish(b.linear(x, c.heads, Act::kNone, "head"));
}

}  // namespace

Graph build_graph(const Config& c, int64_t panel) {
  switch (c.architecture) {
    case Architecture::kMlp:
      return mlp(Builder(panel), c);
    case Architecture::kTlp:
      return tlp(Builder(panel), c);
    case Architecture::kPacm:
      return pacm(Builder(panel), c);
    case Architecture::kMamba:
      return mamba(Builder(panel), c);
    case Architecture::kMambaAdapter:
      return mamba_adapter(Builder(panel), c);
  }
  return {};
}

}  // namespace tcc::nn
