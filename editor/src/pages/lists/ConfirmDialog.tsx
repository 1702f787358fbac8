/** Asks before something is deleted or revoked, and says what comes of it. */

import { useState, type ReactElement, type ReactNode } from "react";

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
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const confirm = () => {
    setBusy(true);
    setProblem(null);
    onConfirm()
      .then(onClose, setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      about={about}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" disabled={isBusy} onClick={confirm}>
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
