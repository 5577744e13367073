// Units that are handed out again after their agent was lost with them in hand: one of their configs may be what killed
// it, and must not take one agent after another along. Both databases follow these rules. Pure.
//
// After a loss all trials that were in hand and have no result are suspects. A search's unit is handed out in parts
// then: after one loss kPartAfterLoss suspects, after more one at a time, in the order of their ordinals. A part that
// is lost is the new set of suspects, so every suspect was in hand at every counted loss; a part that ends well goes
// back to the queue for the next one, and with no suspects left the rest of the unit is handed out whole. From
// kAloneFromLoss losses on the unit must be the only one that its agent has, and a loss counts only if it was.
//
// Units of another kind are whole always: a final compares what it has.
#pragma once

namespace tunefarm {

inline constexpr int kPartAfterLoss = 8;
inline constexpr int kAloneFromLoss = 2;

}  // namespace tunefarm
