// How units are handed out again whose agent was lost while it had them: one of their configs may have killed the
// agent, and must not bring down one agent after another. Both databases follow these rules. Pure.
//
// After a loss all trials that the agent had and that have no result are suspects. A search's unit is then handed out
// in parts: after one loss kPartAfterLoss suspects, after more one at a time, in the order of their ordinals. A part
// that is lost is the new set of suspects, so every suspect was with the agent at every counted loss; a part that ends
// well goes back to the queue for the next one, and with no suspects left the rest of the unit is handed out whole.
// From kAloneFromLoss losses on the unit must be the only one that its agent has, and a loss counts only if it was.
//
// Units of another kind are whole always: a final compares what it has.
#pragma once

namespace tunefarm {

inline constexpr int kPartAfterLoss = 8;
inline constexpr int kAloneFromLoss = 2;

}  // namespace tunefarm
