/** Something that a button starts: whether it is under way, and what it has thrown. */

import { useState } from "react";

interface Attempt {
  /** Starts it; what it throws is the problem from then on, until the next attempt. */
  attempt: (act: () => Promise<unknown>) => void;
  isBusy: boolean;
  /** What the last attempt has thrown; null if nothing. */
  problem: unknown;
}

export function useAttempt(): Attempt {
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const attempt = (act: () => Promise<unknown>) => {
    setBusy(true);
    setProblem(null);
    act()
      .catch(setProblem)
      .finally(() => setBusy(false));
  };
  return { attempt, isBusy, problem };
}
