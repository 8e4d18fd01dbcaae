// Copies of statements with loops and buffers of their own. Private to the room.
#pragma once

#include <map>

#include "tcc/ir/walk.h"

namespace tcc::lower {

struct Renaming {
  ir::Substitution vars;         // what takes the place of a variable
  std::map<ir::Id, ir::Id> ids;  // of loops and buffers
};
ir::Expr rename(ir::Builder& b, ir::Expr e, const Renaming& r);
ir::Stmt rename(ir::Builder& b, ir::Stmt s, const Renaming& r);

}  // namespace tcc::lower
