// What keys there are, and what the marks mean.
import { areKeysOn, setKeysOn } from "../keys";
import { useShared } from "../shared";
import { Dialog } from "../ui";

export function Help(props: { onClose: () => void }) {
  const isOn = useShared(areKeysOn);
  return (
    <Dialog title="Help" onClose={props.onClose}>
      <dl class="keys">
        <dt>/</dt>
        <dd>go to the filter</dd>
        <dt>c</dt>
        <dd>copy the config</dd>
        <dt>↑ ↓</dt>
        <dd>go through the rows of a table</dd>
        <dt>?</dt>
        <dd>this help</dd>
      </dl>
      <label>
        <input type="checkbox" checked={isOn} onChange={(event) => setKeysOn(event.currentTarget.checked)} /> Single keys act
      </label>
    </Dialog>
  );
}
