/** A dialog that saves what is typed into it: it stays open until that has worked, shows why it has not, and sends nothing twice. */

import type { ReactElement, ReactNode } from "react";

import { useAttempt } from "../../ui/attempt";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Problem } from "../../ui/Notice";

export interface SaveDialogProps {
  title: string;
  about?: ReactNode;
  verb: string;
  /** In place of the verb while it saves. */
  busyVerb?: string;
  /** Whether all is there that saving needs. */
  isReady?: boolean;
  /** Saves; what it throws is shown. */
  onSave: () => Promise<void>;
  onClose: () => void;
  wide?: boolean;
  /** The fields; as a function if they show what saving has thrown. */
  children: ReactNode | ((problem: unknown) => ReactNode);
}

export function SaveDialog({ title, about, verb, busyVerb = verb, isReady = true, onSave, onClose, wide = false, children }: SaveDialogProps): ReactElement {
  const { attempt, isBusy, problem } = useAttempt();
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      about={about}
      wide={wide}
      onSubmit={() => attempt(() => onSave().then(onClose))}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy || !isReady}>
            {isBusy ? busyVerb : verb}
          </Button>
        </>
      }
    >
      {typeof children === "function" ? children(problem) : children}
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}
