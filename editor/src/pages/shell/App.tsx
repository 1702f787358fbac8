/** What stands around every page: sign-in, the bar at the top, and which page is shown. */

import { QueryClientProvider } from "@tanstack/react-query";
import { Tooltip } from "radix-ui";
import { useEffect, type ReactElement } from "react";
import { RouterProvider } from "react-router";

import { answerOtherTabs } from "../../api/key";
import { Toasts } from "../../ui/toasts";
import { queryClient } from "../data";
import { router } from "../router";
import { begin, signOut, useSession } from "../session";
import { SignIn } from "./SignIn";

let isAnswering = false;

export function App(): ReactElement {
  const state = useSession((session) => session.state);
  useEffect(() => {
    if (isAnswering) return;
    isAnswering = true;
    answerOtherTabs(() => useSession.getState().state === "signedIn" && signOut("You signed out in another tab."));
    void begin();
    const wake = () => !document.hidden && useSession.getState().live?.wake();
    document.addEventListener("visibilitychange", wake);
    window.addEventListener("online", wake);
  }, []);
  return (
    <QueryClientProvider client={queryClient}>
      <Tooltip.Provider delayDuration={400}>
        {state === "signedIn" ? <RouterProvider router={router} /> : state === "signedOut" ? <SignIn /> : null}
        <Toasts />
      </Tooltip.Provider>
    </QueryClientProvider>
  );
}
