import { useEffect, type ReactElement } from "react";
import { useRouteError } from "react-router";

import { Button } from "../../ui/Button";
import { Empty } from "../../ui/Notice";

/** A fault of a page: said in words, with what is safe and what helps. */
export function PageError(): ReactElement {
  const error = useRouteError();
  useEffect(() => console.error(error), [error]);
  return (
    <Empty title="This page has failed" action={<Button onClick={() => location.reload()}>Load it again</Button>}>
      {error instanceof Error ? error.message : String(error)}. What you edited is kept in this browser.
    </Empty>
  );
}
