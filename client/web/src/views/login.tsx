// Who is not known yet logs in: by a code in the address, by a token or by a client certificate.
import { useState } from "preact/hooks";
import { type ApiError, asApiError, call, hasEnded, setSecret } from "../api";
import { useShared } from "../shared";
import { Button, ErrorLine } from "../ui";

// Buys a session: with a code, or for the caller that `token` names; with neither for the client certificate. Where
// that fails the caller stays who it was.
async function createSession(code: string, token: string): Promise<void> {
  const answer = await call("tunefarm.v1.AccessService/CreateSession", code ? { code } : {}, undefined, token);
  setSecret(answer.secret ?? "");
}

// Buys a session with the code of "#login=CODE" and takes the code out of the address and the history.
export async function buySession(code: string): Promise<void> {
  location.replace("#/");
  await createSession(code, "");
}

export function Login(props: { error: ApiError | undefined }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState(props.error);
  const [isBusy, setBusy] = useState(false);
  const isOver = useShared(hasEnded);
  const logIn = async (bearer: string) => {
    setBusy(true);
    setError(undefined);
    try {
      await createSession("", bearer);
    } catch (caught) {
      setError(asApiError(caught));
      setBusy(false);
    }
  };
  return (
    <form
      class="login"
      onSubmit={(event) => {
        event.preventDefault();
        void logIn(token.trim());
      }}
    >
      <h1>Log in</h1>
      {isOver && !error && <p role="status">The session has ended.</p>}
      <p>
        Run <code>tunefarm dashboard</code> on the daemon's machine and open the address that it prints, or enter an
        access token, which an administrator makes by <code>tunefarm token create</code>.
      </p>
      <label class="field">
        Token
        <input
          type="password"
          autocomplete="off"
          spellcheck={false}
          placeholder="tft_…"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
          required
        />
      </label>
      <p class="buttons">
        <Button type="submit" class="primary" disabled={isBusy}>
          Log in
        </Button>
        {location.protocol === "https:" && (
          <Button disabled={isBusy} onClick={() => void logIn("")}>
            Log in by client certificate
          </Button>
        )}
      </p>
      {error && <ErrorLine error={error} />}
    </form>
  );
}
