#include "gpu/hopper_trials.h"

#include <string>

#include "tcc/ir/text.h"
#include "tcc/support/check.h"

namespace tcc::gpu_check {

using namespace ir;

namespace {

std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& names) {
  for (const auto& [name, value] : names)
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  return text;
}

Kernel made(const std::string& text) {
  auto kernel = parse(text);
  TCC_CHECK(kernel.has_value(), "{}\n{}", kernel.error().message, text);
  return std::move(*kernel);
}

// C = A B over 128 bytes of k: both come by bulk copies, columns in boxes of 128 bytes, and are swizzled.
constexpr char kProduct[] = R"(kernel lowered {
  input A: TYPE[64, STEP] align 16
  input B: TYPE[B_ROWS, B_COLUMNS] align 16
  output C: f32[64, WIDTH] align 16
  temp As: TYPE[64, STEP] shared align 1024
  temp Bs: TYPE[B_ROWS, B_COLUMNS] shared align 1024B_LAYOUT
  temp full: barrier[1] shared align 8
  temp acc: f32[REGISTERS] local
  alloc As, Bs, full {
    for w in 4 bound(warp) {
      for l in 32 bound(lane) {
        if w == 0 && l == 0 {
          instr mbarrier.init(full[0]; 1)
          instr fence.mbarrier_init()
        }
        instr bar.sync(; 0, 128)
        if w == 0 && l == 0 {
          instr mbarrier.expect_tx(full[0]; BYTES)
          instr tma.load.TYPE(As[0, 0], full[0], A[0, 0]; 64, STEP)
          for c in BOXES {
            instr tma.load.TYPE(Bs[0, c*64], full[0], B[0, c*64]; B_ROWS, STEP)
          }
        }
        alloc acc {
          for e in REGISTERS unrolled {
            acc[e] = 0.0
          }
          instr mbarrier.wait(full[0]; 0)
          instr wgmma.fence()
          for kk in 4 unrolled {
            instr ROW(acc[0], As[0, kk*TERMS], B_TILE)
          }
          instr wgmma.commit()
          instr wgmma.wait(; 0)
          for e in REGISTERS unrolled {
            C[w*16 + l // 4 + e // 2 % 2*8, e // 4*8 + l % 4*2 + e % 2] = acc[e]
          }
        }
      }
    }
  }
}
)";

Kernel product(const Instruction& row) {
  const OperandSpec& b = row.operands[2];
  const int64_t bytes = type_bytes(b.type), step = 128 / bytes, terms = step / 4;
  const bool transposed = b.tile[0] == terms && b.tile[1] > terms;
  const int64_t width = transposed ? b.tile[1] : b.tile[0], rows = transposed ? step : width;
  const int64_t columns = transposed ? width : step;
  const std::string layout = transposed && columns > step ? fmt::format(
                                                                " layout[64,{0}]{{1/64%0@addr*4096, 0/1%0@addr*64, "
                                                                "1/1%64@addr*1}} size {1}",
                                                                columns, 64 * columns)
                                                          : "";
  return made(filled(kProduct,
                     {{"B_LAYOUT", layout},
                      {"B_TILE", transposed ? fmt::format("Bs[kk*{}, 0]", terms) : fmt::format("Bs[0, kk*{}]", terms)},
                      {"B_ROWS", std::to_string(rows)},
                      {"B_COLUMNS", std::to_string(columns)},
                      {"BOXES", std::to_string(columns / step)},
                      {"BYTES", std::to_string(bytes * (64 * step + rows * columns))},
                      {"STEP", std::to_string(step)},
                      {"TERMS", std::to_string(terms)},
                      {"WIDTH", std::to_string(width)},
                      {"REGISTERS", std::to_string(width / 2)},
                      {"ROW", std::string(row.name)},
                      {"TYPE", std::string(type_name(b.type))}}));
}

// A box comes, is negated by the threads, and goes: both reach beyond the tensors.
constexpr char kBoxes[] = R"(kernel lowered {
  input X: TYPE[40, 24] align 16
  output Y: TYPE[40, 24] align 16
  temp Xs: TYPE[16, 16] shared align 128
  temp Ys: TYPE[16, 16] shared align 128
  temp full: barrier[1] shared align 8
  for r in 3 bound(grid.y) {
    for c in 2 bound(grid.x) {
      alloc Xs, Ys, full {
        for w in 1 bound(warp) {
          for l in 32 bound(lane) {
            if l == 0 {
              instr mbarrier.init(full[0]; 1)
              instr fence.mbarrier_init()
            }
            instr bar.sync(; 0, 32)
            if l == 0 {
              instr mbarrier.expect_tx(full[0]; BYTES)
              instr tma.load.TYPE(Xs[0, 0], full[0], X[r*16, c*16]; 16, 16)
            }
            instr mbarrier.wait(full[0]; 0)
            for i in 8 {
              Ys[i*2 + l // 16, l % 16] = 0.0 - Xs[i*2 + l // 16, l % 16]
            }
            instr fence.proxy.async()
            instr bar.sync(; 0, 32)
            if l == 0 {
              instr tma.store.TYPE(Y[r*16, c*16], Ys[0, 0]; 16, 16)
              instr tma.commit()
              instr tma.wait(; 0)
            }
          }
        }
      }
    }
  }
}
)";

Kernel boxes(Type type) {
  std::string text =
      filled(kBoxes, {{"TYPE", std::string(type_name(type))}, {"BYTES", std::to_string(256 * type_bytes(type))}});
  if (type != Type::kF32) text = filled(text, {{"= 0.0 - Xs", fmt::format("= {}(0.0) - Xs", type_name(type))}});
  return made(text);
}

// Each block of a cluster brings half of a box to both, and they tell each other when it was read.
constexpr char kCluster[] = R"(kernel lowered {
  input X: TYPE[32, 16] align 16
  output Y: TYPE[64, 16] align 16
  temp Xs: TYPE[16, 16] cluster_shared align 128
  temp full: barrier[1] cluster_shared align 8
  temp empty: barrier[1] cluster_shared align 8
  for g in 1 bound(grid.x) {
    for cr in 2 bound(cluster.x) {
      alloc Xs, full, empty {
        for w in 1 bound(warp) {
          for l in 32 bound(lane) {
            if l == 0 {
              instr mbarrier.init(full[0]; 1)
              instr mbarrier.init(empty[0]; 2)
              instr fence.mbarrier_init()
            }
            instr cluster.sync()
            for p in 2 {
              if l == 0 {
                instr mbarrier.wait(empty[0]; (p + 1) % 2)
                instr mbarrier.expect_tx(full[0]; BYTES)
                instr tma.load.multicast.TYPE(Xs[cr*8, 0], full[0], X[p*16 + cr*8, 0]; 8, 16, 3)
              }
              instr mbarrier.wait(full[0]; p % 2)
              for i in 8 {
                Y[p*32 + cr*16 + i*2 + l // 16, l % 16] = Xs[i*2 + l // 16, l % 16]
              }
              instr warp.sync(; 4294967295)
              if l == 0 {
                for peer in 2 {
                  instr mbarrier.arrive.cluster(empty[0]; peer)
                }
              }
            }
            instr cluster.sync()
          }
        }
      }
    }
  }
}
)";

// Three warpgroups, of which the first gives the others registers.
constexpr char kRoles[] = R"(kernel lowered {
  input X: f32[384] align 16
  output Y: f32[384] align 16
  roles {
    role warps 4 from 0 registers 40 {
      for w in 4 bound(warp) {
        for l in 32 bound(lane) {
          Y[w*32 + l] = X[w*32 + l] + 1.0
        }
      }
    }
    role warps 8 from 4 registers 232 {
      for w in 8 bound(warp) {
        for l in 32 bound(lane) {
          Y[128 + w*32 + l] = X[128 + w*32 + l] + 2.0
        }
      }
    }
  }
}
)";

}  // namespace

std::vector<Kernel> hopper_trials(const Instruction& row) {
  std::vector<Kernel> kernels;
  if (row.completion == Completion::kWgmmaGroup) {
    kernels.push_back(product(row));
  } else if (row.behaviour == Behaviour::kCompute && row.multicast_arg >= 0) {
    const Type type = row.operands[0].type;
    kernels.push_back(made(
        filled(kCluster, {{"TYPE", std::string(type_name(type))}, {"BYTES", std::to_string(256 * type_bytes(type))}})));
  } else if (row.behaviour == Behaviour::kCompute && row.feature == "tma") {
    kernels.push_back(boxes(row.operands[0].type));
  } else if (row.behaviour == Behaviour::kSetMaxRegisters) {
    kernels.push_back(made(kRoles));
  }
  return kernels;
}

bool is_part_of_hopper_trial(const Instruction& row) {
  switch (row.behaviour) {
    case Behaviour::kMbarrierArrive:
    case Behaviour::kMbarrierExpectTx:
    case Behaviour::kFenceProxyAsync:
    case Behaviour::kFenceMbarrierInit:
    case Behaviour::kWgmmaFence:
    case Behaviour::kWgmmaCommit:
    case Behaviour::kWgmmaWait:
    case Behaviour::kClusterSync:
      return !row.ptx.empty();
    case Behaviour::kCompute:
    case Behaviour::kBarSync:
    case Behaviour::kWarpSync:
    case Behaviour::kShuffle:
    case Behaviour::kCopyCommit:
    case Behaviour::kCopyWait:
    case Behaviour::kCopyWaitRead:
    case Behaviour::kMbarrierInit:
    case Behaviour::kMbarrierWait:
    case Behaviour::kSetMaxRegisters:
    case Behaviour::kThreadFence:
    case Behaviour::kAtomicAdd:
    case Behaviour::kTileConfig:
      return false;
  }
  return false;
}

}  // namespace tcc::gpu_check
