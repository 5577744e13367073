// What keys there are, and what the marks mean.
import { areKeysOn, setKeysOn } from "../keys";
import { useShared } from "../shared";
import { Button, Dialog, Outcome } from "../ui";

export function Help(props: { onClose: () => void }) {
  const isOn = useShared(areKeysOn);
  return (
    <Dialog title="Help" onClose={props.onClose}>
      <h3>Keys</h3>
      <dl class="keys">
        <dt>/</dt>
        <dd>go to the filter</dd>
        <dt>c</dt>
        <dd>copy the config</dd>
        <dt>↑ ↓</dt>
        <dd>go through the rows of a table</dd>
        <dt>Esc</dt>
        <dd>close a dialog</dd>
        <dt>?</dt>
        <dd>this help</dd>
      </dl>
      <label>
        <input type="checkbox" checked={isOn} onChange={(event) => setKeysOn(event.currentTarget.checked)} /> Single
        keys act
      </label>
      <h3>Marks</h3>
      <dl class="keys">
        <dt>
          <Outcome outcome="OUTCOME_OK" />
        </dt>
        <dd>correct and measured</dd>
        <dt>
          <Outcome outcome="OUTCOME_PRUNED" />
        </dt>
        <dd>
          ruled out before it ran; NOISY (the time is not known well enough) and LOST (the machinery died) have this
          sign too
        </dd>
        <dt>
          <Outcome outcome="OUTCOME_WRONG_RESULT" />
        </dt>
        <dd>every other outcome: the config failed</dd>
        <dt class="so-so">▲</dt>
        <dd>a warning: the number beside it is worth less than it seems</dd>
      </dl>
      <h3>Numbers</h3>
      <dl class="keys">
        <dt>±0.4 %</dt>
        <dd>half of the 95 % interval of a median, relative to it</dd>
        <dt>1.49x</dt>
        <dd>how many times as fast as what it is held against: the default config, or the baseline</dd>
        <dt>% of floor</dt>
        <dd>the least time that the problem can take on the device (its roofline floor) over the time measured</dd>
      </dl>
      <p class="muted">Times are local with their offset; the mouse on one shows UTC.</p>
      <p class="buttons">
        <Button class="primary" onClick={props.onClose}>
          Close
        </Button>
      </p>
    </Dialog>
  );
}
