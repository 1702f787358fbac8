import { useEffect, useState, type FormEvent, type ReactElement } from "react";

import { ApiError } from "../../api/client";
import { Button } from "../../ui/Button";
import { Notice } from "../../ui/Notice";
import { signIn, useSession } from "../session";
import { Logo } from "./Logo";

export function SignIn(): ReactElement {
  const reason = useSession((session) => session.reason);
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(reason);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · anabranch";
    queueMicrotask(() => document.getElementById("key")?.focus());
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    signIn(key.trim())
      .catch((failure: unknown) => {
        const isUnknown = failure instanceof ApiError && failure.status === 401;
        setProblem(isUnknown ? "The server does not know this key." : failure instanceof ApiError ? failure.advice : String(failure));
        document.querySelector<HTMLInputElement>("#key")?.select();
      })
      .finally(() => setBusy(false));
  };
  return (
    <main className="sign-in">
      <form className="card stack" onSubmit={submit}>
        <div className="row">
          <Logo size={28} />
          <h1>anabranch</h1>
        </div>
        <p className="faint">
          Sign in with an API key. <code>anabranch dev</code> prints an address that has one in it; <code>anabranch keys create</code> makes others.
        </p>
        <div className="field">
          <label htmlFor="key">API key</label>
          <input id="key" className="input mono" type="password" autoComplete="current-password" required value={key} onChange={(event) => setKey(event.target.value)} />
        </div>
        {problem && <Notice kind="error">{problem}</Notice>}
        <Button type="submit" look="primary" disabled={isBusy}>
          Sign in
        </Button>
      </form>
    </main>
  );
}
