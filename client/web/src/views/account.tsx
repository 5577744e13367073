// Who is logged in, what that may do, and the end of the session.
import { useState } from "preact/hooks";
import { call, caller, setSecret } from "../api";
import { Facts } from "../facts";
import { useShared } from "../shared";
import { Button, Dialog, Time } from "../ui";

const ROLES: Record<string, string> = {
  lookup: "look at everything",
  submit: "tune stored kernels; pause, resume, cancel and delete jobs",
  kernels: "store kernels",
  admin: "decide about best configs, devices and agents",
};

export function Account() {
  const who = useShared(caller);
  const [isOpen, setOpen] = useState(false);
  if (!who) return null;
  const logOut = () => {
    if (who.kind === "session") void call("tunefarm.v1.AccessService/EndSession", {}).catch(() => {});
    setSecret("");
  };
  return (
    <div class="account">
      <Button class="link" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {who.name || "account"}
      </Button>
      <Button onClick={logOut}>Log out</Button>
      {isOpen && (
        <Dialog title="Who is logged in" onClose={() => setOpen(false)}>
          <Facts
            facts={[
              ["name", who.name],
              ["by", who.kind],
              ["ends at the latest", Number(who.expiresAtMs ?? 0) > 0 ? <Time ms={who.expiresAtMs} /> : ""],
              ...(who.roles ?? []).map((role): [string, string] => [role, `may ${ROLES[role] ?? role}`]),
            ]}
          />
          <p class="buttons">
            <Button class="primary" onClick={() => setOpen(false)}>
              Close
            </Button>
          </p>
        </Dialog>
      )}
    </div>
  );
}
