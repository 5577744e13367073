// Who is not known yet logs in: by a code in the address, or by a token.
import { useState } from "preact/hooks";
import { type ApiError, asApiError, call, setSecret } from "../api";
import { Button, ErrorLine } from "../ui";

// Buys a session with the code of "#login=CODE" and takes the code out of the address.
export async function buySession(code: string): Promise<void> {
  history.replaceState(null, "", "#/");
  setSecret("");
  const { secret } = await call("tunefarm.v1.AccessService/CreateSession", { code });
  setSecret(secret ?? "");
}

export function Login(props: { error: ApiError | undefined }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState(props.error);
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      setSecret(token.trim());
      const { secret } = await call("tunefarm.v1.AccessService/CreateSession", {});
      setSecret(secret ?? "");
    } catch (caught) {
      setSecret("");
      setError(asApiError(caught));
    }
  };
  return (
    <form class="login" onSubmit={(event) => void submit(event)}>
      <h1>Log in</h1>
      <p>
        Run <code>tunefarm dashboard</code> on the daemon's machine and open the address that it prints, or enter a token.
      </p>
      <label>
        Token{" "}
        <input
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
          required
        />
      </label>
      <p>
        <Button type="submit" class="primary">
          Log in
        </Button>
      </p>
      {error && <ErrorLine error={error} />}
    </form>
  );
}
