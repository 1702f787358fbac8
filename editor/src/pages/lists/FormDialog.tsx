/** A dialog with a form made from a schema; the server's problems at their fields. */

import { useState, type ReactElement, type ReactNode } from "react";

import { ApiError } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { SchemaForm } from "../../ui/forms/SchemaForm";
import type { JsonSchema } from "../../ui/forms/schema";
import { Problem } from "../../ui/Notice";

interface FormDialogProps {
  title: string;
  about?: ReactNode;
  schema: JsonSchema;
  /** The text of the object that the form is about. */
  text: string;
  onChange: (text: string) => void;
  verb: string;
  /** Saves; what it throws is shown. */
  onSave: () => Promise<void>;
  onClose: () => void;
  wide?: boolean;
  /** What stands below the form. */
  children?: ReactNode;
}

export function FormDialog({ title, about, schema, text, onChange, verb, onSave, onClose, wide = false, children }: FormDialogProps): ReactElement {
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const save = () => {
    setBusy(true);
    setProblem(null);
    onSave()
      .then(onClose, setProblem)
      .finally(() => setBusy(false));
  };
  const places = problem instanceof ApiError ? problem.places : [];
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      about={about}
      wide={wide}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy}>
            {verb}
          </Button>
        </>
      }
    >
      <SchemaForm
        schema={schema}
        text={text}
        onChange={onChange}
        problems={places.map(({ pointer, path, message }) => ({ pointer: pointer ?? path ?? "", message: message ?? "", severity: "error" }))}
      />
      {children}
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}
