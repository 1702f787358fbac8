/** Asks before something is deleted or revoked, and says what comes of it. */

import type { ReactElement, ReactNode } from "react";

import { useAttempt } from "../../ui/attempt";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Problem } from "../../ui/Notice";

interface ConfirmDialogProps {
  title: string;
  about: string;
  verb: string;
  /** Does it; what it throws is shown. */
  onConfirm: () => Promise<void>;
  onClose: () => void;
  children?: ReactNode;
}

export function ConfirmDialog({ title, about, verb, onConfirm, onClose, children }: ConfirmDialogProps): ReactElement {
  const { attempt, isBusy, problem } = useAttempt();
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      about={about}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" disabled={isBusy} onClick={() => attempt(() => onConfirm().then(onClose))}>
            {verb}
          </Button>
        </>
      }
    >
      {children}
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}
